//! Runs the example, which asserts its own answers.

#[path = "../examples/toy_index.rs"]
mod toy_index;

#[test]
fn the_toy_index_answers_correctly() {
    toy_index::main().unwrap();
}
