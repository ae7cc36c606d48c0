//! `farwood worker`: a worker process of `bench` or `demo`, which start it themselves.

use super::{Context, Failure, Outcome};
use std::io::{self, BufReader};

/// Run as a worker process of `farwood bench` or `farwood demo`, which start it themselves
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(Args {}: Args, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    let jobs = [farwood_bench::run::JOBS, farwood_demo::JOBS].concat();
    match farwood_bench::driver::worker::serve(BufReader::new(io::stdin()), &mut *context.out, &jobs) {
        // The worker has sent the error to the parent, which prints it.
        Ok(()) => Ok(Outcome::Done),
        Err(error) => Err(super::bench::failure(error)),
    }
}
