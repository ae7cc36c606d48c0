//! `farwood drop`.

use super::{Context, Failure, Outcome};

/// Not built yet
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: &Args, _context: &mut Context<'_>) -> Result<Outcome, Failure> {
    Err(Failure::Usage("drop: not built yet".to_owned()))
}
