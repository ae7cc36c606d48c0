//! Two sizes for long tests: a short one for every change, and a long one for campaigns.
//!
//! `FARWOOD_CAMPAIGN=1` selects the long size; `cargo xtask campaign` sets it.

/// The size of a test: `short`, or `long` in a campaign.
pub fn size(short: u64, long: u64) -> u64 {
    if std::env::var_os("FARWOOD_CAMPAIGN").is_some_and(|value| value == "1") { long } else { short }
}
