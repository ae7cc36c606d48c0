//! Heartbeats: the encoding of the server's utilisation (Catfish §IV-A). All functions are pure.
//!
//! ```text
//! heartbeat: utilisation in ten-thousandths, plus 1; 0 = none has arrived
//!
//! pulse  63                 16 15           0
//!       +---------------------+--------------+
//!       |  number of the beat |  heartbeat   |
//!       +---------------------+--------------+
//! ```
//!
//! Over rings, the server writes heartbeats into the client's inbox. Over a socket, each response begins with the
//! pulse, so the client can tell whether the heartbeat is a new one.

/// Bits of a pulse that are its heartbeat.
const BEAT_BITS: u32 = 16;
/// Parts of a heartbeat interval: each connection gets its heartbeat in the part that its number determines.
pub(crate) const PARTS: usize = 16;

/// The heartbeat that reports a utilisation.
pub fn heartbeat(utilisation: f64) -> u64 {
    (utilisation.clamp(0.0, 1.0) * 10_000.0).round() as u64 + 1
}

/// The utilisation that a heartbeat reports; `None`: no heartbeat has arrived.
pub fn utilisation(heartbeat: u64) -> Option<f64> {
    heartbeat.checked_sub(1).map(|told| told.min(10_000) as f64 / 10_000.0)
}

/// The pulse `parts` parts of an interval after `pulse`, with the heartbeat `beat`.
pub const fn next_pulse(pulse: u64, parts: u64, beat: u64) -> u64 {
    (number_and_beat(pulse).0 + parts) << BEAT_BITS | beat
}

/// The number and the heartbeat of a pulse.
pub const fn number_and_beat(pulse: u64) -> (u64, u64) {
    (pulse >> BEAT_BITS, pulse & ((1 << BEAT_BITS) - 1))
}

const _: () = assert!(10_001 < 1 << BEAT_BITS, "every heartbeat fits its bits");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heartbeats_are_read_back_and_zero_is_none() {
        assert_eq!(utilisation(0), None);
        for told in [0.0, 0.5, 0.9501, 1.0] {
            assert_eq!(utilisation(heartbeat(told)), Some(told));
        }
        assert_eq!(utilisation(heartbeat(7.0)), Some(1.0));
        assert_eq!(number_and_beat(next_pulse(next_pulse(0, 16, 3), 1, 10_001)), (17, 10_001));
    }
}
