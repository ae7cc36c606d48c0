//! The example is run and checked: it asserts its own answers.

#[path = "../examples/toy_index.rs"]
mod toy_index;

#[test]
fn the_toy_index_answers_rightly() {
    toy_index::main().unwrap();
}
