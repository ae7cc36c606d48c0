//! The warm-up that ends when the throughput is steady.

/// Windows whose throughputs are compared.
const COMPARED: usize = 3;
/// Largest difference between the compared windows, as a share of the largest one.
const DIFFERENCE_MAX: f64 = 0.02;
/// The number of windows after which the warm-up ends in any case.
pub const WINDOWS_MAX: usize = 20;
/// The share of the measured time that a window takes.
const WINDOW_SHARE: f64 = 0.2;
/// The shortest window, virtual seconds.
const WINDOW_SECONDS_MIN: f64 = 0.002;
/// Standard deviations of the number of random arrivals by which windows may differ as well.
const ARRIVAL_DEVIATIONS: f64 = 4.0;

/// The origin of differences between windows in the steady state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// A client begins the next operation when the last one ends, so windows hardly differ.
    Closed,
    /// Operations arrive at random, so the number of them differs by chance.
    Random,
}

/// Seconds of a window before a measured phase of `seconds`; `None`: the phase ends with an operation.
pub fn window_seconds(seconds: Option<f64>) -> f64 {
    seconds.map_or(WINDOW_SECONDS_MIN, |seconds| (seconds * WINDOW_SHARE).max(WINDOW_SECONDS_MIN))
}

/// Whether the last windows have the same throughput, from the number of operations that ended in each window.
pub(super) fn is_steady(operations: &[u64], arrivals: Arrivals) -> bool {
    let Some(last) = operations.len().checked_sub(COMPARED).map(|first| &operations[first..]) else {
        return false;
    };
    let (largest, smallest) = last
        .iter()
        .fold((0, u64::MAX), |(largest, smallest), count| (largest.max(*count), smallest.min(*count)));
    let difference = (largest - smallest) as f64;
    let chance = match arrivals {
        Arrivals::Closed => 0.0,
        Arrivals::Random => ARRIVAL_DEVIATIONS * (largest as f64).sqrt(),
    };
    largest > 0 && difference < DIFFERENCE_MAX * largest as f64 + chance
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_equal_windows_are_steady() {
        let closed = |operations: &[u64]| is_steady(operations, Arrivals::Closed);
        assert!(closed(&[1, 1000, 1010, 1019]) && closed(&[7, 7, 7]));
        assert!(!closed(&[1000, 1000]), "two windows are too few");
        assert!(!closed(&[1000, 1000, 1021]) && !closed(&[1000, 980, 1000, 979]));
        assert!(!closed(&[0, 0, 0]), "no operation has ended");
    }

    #[test]
    fn random_arrivals_may_differ_by_chance() {
        assert!(is_steady(&[900, 1000, 930], Arrivals::Random));
        assert!(!is_steady(&[800, 1000, 930], Arrivals::Random));
    }

    #[test]
    fn a_window_is_a_share_of_the_measured_time() {
        assert!((window_seconds(Some(0.02)) - 0.004).abs() < 1e-12);
        assert_eq!((window_seconds(Some(0.001)), window_seconds(None)), (0.002, 0.002));
    }
}
