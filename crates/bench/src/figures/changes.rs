//! Changes of a figure's set-up that a user asks for.

use super::run::Run;
use crate::run::{RunSpec, SpatialSpec};
use crate::workload::rectangles::RectangleSource;

/// Parameters that replace those of every run of a figure; `None`: as in the figure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetupChanges {
    /// The NIC model: a name, or the path of a file.
    pub nic: Option<String>,
    /// The seed.
    pub seed: Option<u64>,
    /// Keys that are loaded, or rectangles; of a load, the keys at its end.
    pub keys: Option<u64>,
}

impl SetupChanges {
    /// Whether anything changes.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The run with these parameters. Runs without an index stay as they are.
    pub(super) fn apply(&self, run: Run) -> Run {
        match run {
            Run::Index(spec) => Run::Index(Box::new(self.of_index(*spec))),
            Run::Spatial(spec) => Run::Spatial(Box::new(self.of_rectangles(*spec))),
            Run::Verbs(_) | Run::Locks(_) => run,
        }
    }

    fn of_index(&self, spec: RunSpec) -> RunSpec {
        let scaled = |part: u64| match (self.keys, spec.keys) {
            (Some(keys), Some(before)) if before > 0 => {
                (u128::from(part) * u128::from(keys) / u128::from(before)) as u64
            }
            _ => part,
        };
        RunSpec {
            nic: self.nic.clone().or(spec.nic.clone()),
            seed: self.seed.unwrap_or(spec.seed),
            keys: self.keys.or(spec.keys),
            preloaded_keys: scaled(spec.preloaded_keys),
            warm_up_keys: scaled(spec.warm_up_keys),
            warm_up_puts: scaled(spec.warm_up_puts),
            ..spec
        }
    }

    fn of_rectangles(&self, spec: SpatialSpec) -> SpatialSpec {
        let source = match (self.keys, spec.source) {
            (Some(keys), RectangleSource::Uniform(_)) => RectangleSource::Uniform(keys),
            (Some(keys), RectangleSource::File(file, _)) => RectangleSource::File(file, keys),
            (None, source) => source,
        };
        SpatialSpec {
            nic: self.nic.clone().or(spec.nic),
            seed: self.seed.unwrap_or(spec.seed),
            source,
            ..spec
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_keeps_its_shares() {
        let changes = SetupChanges { nic: Some("cx6-200g".to_owned()), seed: Some(9), keys: Some(1_000) };
        let spec = RunSpec { keys: Some(100), preloaded_keys: 50, warm_up_keys: 10, ..RunSpec::default() };
        let changed = changes.of_index(spec);
        assert_eq!((changed.keys, changed.preloaded_keys, changed.warm_up_keys), (Some(1_000), 500, 100));
        assert_eq!((changed.nic.as_deref(), changed.seed), (Some("cx6-200g"), 9));
        assert!(SetupChanges::default().is_empty() && !changes.is_empty());
    }
}
