//! The example that switches between messages and READs: Sherman's lookups use messages while the server is idle, and
//! some use READs while it is busy.

#[path = "../../examples/adaptive_lookups.rs"]
mod example;

use example::{LookupStats, Scheme, measure};

#[test]
fn lookups_are_offloaded_only_while_the_server_is_busy() {
    let seen = |scheme, clients| {
        let seen: LookupStats = measure(scheme, clients).unwrap();
        assert_eq!(seen.wrong, 0, "{scheme:?}: {seen:?}");
        assert!(seen.lookups > 500, "{scheme:?}: {seen:?}");
        seen
    };
    let idle = seen(Scheme::Adaptive, 2);
    assert!(idle.busy < 0.9 && idle.offloaded == 0, "{idle:?}");
    let (messages, adaptive) = (seen(Scheme::Messages, 32), seen(Scheme::Adaptive, 32));
    assert!(messages.busy > 0.95 && messages.offloaded == 0, "{messages:?}");
    assert!(adaptive.offloaded > 0 && adaptive.offloaded < adaptive.lookups, "{adaptive:?}");
    assert!(adaptive.lookups > messages.lookups, "{adaptive:?} against {messages:?}");
    assert_eq!(seen(Scheme::Reads, 32).busy.total_cmp(&0.05), std::cmp::Ordering::Less, "READs need no core");
}

#[test]
fn the_example_succeeds() {
    example::main().unwrap();
}
