//! `farwood worker`: a process of `bench` or `demo`. Not for people.

use super::{Context, Failure, Outcome};
use std::io::{self, BufReader};

/// A process of `farwood bench` or `farwood demo`; they start it themselves
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(Args {}: Args, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    match farwood_bench::run::serve(BufReader::new(io::stdin()), &mut *context.out) {
        // The parent knows what failed, and tells it.
        Ok(()) => Ok(Outcome::Done),
        Err(error) => Err(super::bench::failure(error)),
    }
}
