//! Golden costs of Catfish: round trips, verbs and bytes of every operation, as `docs/costs-catfish.md` has them.
//! `FARWOOD_BLESS=1 cargo test -p farwood-proof --test all catfish::costs` rewrites the table.

use farwood_proof::catfish_costs::table;
use farwood_testkit::loopback::Loopback;

#[test]
fn every_operation_has_the_costs_of_the_table() {
    table(Loopback::default()).agree_with("costs-catfish.md");
}
