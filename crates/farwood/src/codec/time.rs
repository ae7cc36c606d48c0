//! Durations and points in time: seconds in 8 bytes, then nanoseconds in 4.

use super::encode::{Codec, Encode, Key, Value};
use super::type_name::TypeName;
use crate::kind::Kind;
use crate::unfit::Unfit;
use crate::width::Width;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const NANOSECONDS: u32 = 1_000_000_000;

/// Bytes of a duration or a point in time.
const BYTES: usize = 12;

fn join(seconds: u64, nanoseconds: u32) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    bytes[..8].copy_from_slice(&seconds.to_be_bytes());
    bytes[8..].copy_from_slice(&nanoseconds.to_be_bytes());
    bytes
}

fn split(bytes: &[u8], expected: &'static str) -> Result<(u64, u32), Unfit> {
    let wrong = Unfit::Length { expected: BYTES, found: bytes.len() };
    let Some((seconds, rest)) = bytes.split_first_chunk() else { return Err(wrong) };
    let nanoseconds = u32::from_be_bytes(rest.try_into().map_err(|_| wrong)?);
    if nanoseconds >= NANOSECONDS {
        return Err(Unfit::Malformed { expected });
    }
    Ok((u64::from_be_bytes(*seconds), nanoseconds))
}

impl Encode<Self> for Duration {
    type Encoded<'a> = [u8; BYTES];

    #[inline]
    fn encode(&self, _width: Width) -> Result<[u8; BYTES], Unfit> {
        Ok(join(self.as_secs(), self.subsec_nanos()))
    }
}

impl Codec for Duration {
    const KIND: Kind = Kind::Structured;
    const NAME: TypeName = TypeName::new("duration");
    const WIDTH: Option<usize> = Some(BYTES);

    fn decode(bytes: &[u8]) -> Result<Self, Unfit> {
        split(bytes, "duration").map(|(seconds, nanoseconds)| Self::new(seconds, nanoseconds))
    }
}

/// The error for a point in time that the system or the format does not have.
const NO_TIME: Unfit = Unfit::Malformed { expected: "point in time" };

/// The whole seconds from 1970 to `time`, rounded down, and the nanoseconds after them.
fn since_1970(time: SystemTime) -> Option<(i64, u32)> {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => Some((i64::try_from(after.as_secs()).ok()?, after.subsec_nanos())),
        Err(error) => {
            let before = error.duration();
            let seconds = 0_i64.checked_sub_unsigned(before.as_secs())?;
            match before.subsec_nanos() {
                0 => Some((seconds, 0)),
                nanoseconds => Some((seconds.checked_sub(1)?, NANOSECONDS - nanoseconds)),
            }
        }
    }
}

impl Encode<Self> for SystemTime {
    type Encoded<'a> = [u8; BYTES];

    #[inline]
    fn encode(&self, _width: Width) -> Result<[u8; BYTES], Unfit> {
        let (seconds, nanoseconds) = since_1970(*self).ok_or(NO_TIME)?;
        Ok(join((seconds ^ i64::MIN).cast_unsigned(), nanoseconds))
    }
}

impl Codec for SystemTime {
    const KIND: Kind = Kind::Structured;
    const NAME: TypeName = TypeName::new("time");
    const WIDTH: Option<usize> = Some(BYTES);

    fn decode(bytes: &[u8]) -> Result<Self, Unfit> {
        let (seconds, nanoseconds) = split(bytes, "point in time")?;
        let seconds = seconds.cast_signed() ^ i64::MIN;
        let whole = Duration::from_secs(seconds.unsigned_abs());
        let whole = if seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
        let after = Duration::from_nanos(u64::from(nanoseconds));
        whole.and_then(|whole| whole.checked_add(after)).ok_or(NO_TIME)
    }
}

impl Key for Duration {}
impl Value for Duration {}
impl Key for SystemTime {}
impl Value for SystemTime {}
