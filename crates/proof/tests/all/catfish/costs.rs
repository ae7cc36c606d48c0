//! Golden costs of Catfish: round trips, verbs and bytes of every operation, as `docs/costs-catfish.md` has them.
//! `FARWOOD_BLESS=1 cargo test -p farwood-proof --test all catfish::costs` writes the table anew.

use farwood_proof::catfish_costs::table;
use farwood_testkit::loopback::Loopback;

#[test]
fn every_operation_costs_what_the_table_says() {
    table(Loopback::default()).agree_with("costs-catfish.md");
}
