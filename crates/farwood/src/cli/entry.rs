//! `farwood put`, `farwood get` and `farwood del`: one entry.

use super::{Context, Failure, Outcome};

/// Not built yet
#[derive(Debug, clap::Args)]
pub(crate) struct PutArgs {}
/// Not built yet
#[derive(Debug, clap::Args)]
pub(crate) struct GetArgs {}
/// Not built yet
#[derive(Debug, clap::Args)]
pub(crate) struct DelArgs {}

pub(crate) fn put(_args: &PutArgs, _context: &mut Context<'_>) -> Result<Outcome, Failure> {
    Err(Failure::Usage("not built yet".to_owned()))
}
pub(crate) fn get(_args: &GetArgs, _context: &mut Context<'_>) -> Result<Outcome, Failure> {
    Err(Failure::Usage("not built yet".to_owned()))
}
pub(crate) fn del(_args: &DelArgs, _context: &mut Context<'_>) -> Result<Outcome, Failure> {
    Err(Failure::Usage("not built yet".to_owned()))
}
