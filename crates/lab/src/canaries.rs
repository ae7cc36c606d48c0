//! `canaries`: each deliberate defect of the index must be found.

use crate::FarIndex;
use crate::case::CaseOptions;
use crate::check::run_seeds;
use crate::finding::Finding;

/// Seeds within which a defect must be found.
const SEEDS: u64 = 50;

/// The first finding of a defect: its seed, and what it is; `None`: no seed found it.
pub(crate) type Noticed = Option<(u64, String)>;

/// Runs seeds with each defect.
pub(crate) fn run_all<I: FarIndex>(options: &CaseOptions) -> Vec<(&'static str, Noticed)> {
    let noticed = |name: &&'static str| {
        let options = CaseOptions { mutant: Some(name), ..options.clone() };
        let (_, found) = run_seeds::<I>(0..SEEDS, &options);
        let noticed = found.map(|found| {
            let headline = found.run.finding.as_ref().map(Finding::headline).unwrap_or_default();
            (found.case.seed, headline)
        });
        (*name, noticed)
    };
    I::MUTANTS.iter().map(noticed).collect()
}
