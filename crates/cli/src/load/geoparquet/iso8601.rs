//! Dates and times as ISO 8601.

use chrono::NaiveDate;

const DAY_SECONDS: i64 = 24 * 60 * 60;

/// The unit of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SecondPart {
    Millis,
    Micros,
    Nanos,
}

impl SecondPart {
    /// Decimal digits after the point.
    fn digits(self) -> usize {
        match self {
            Self::Millis => 3,
            Self::Micros => 6,
            Self::Nanos => 9,
        }
    }

    fn per_second(self) -> i64 {
        10_i64.pow(self.digits() as u32)
    }
}

/// The zone of a timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimeZone {
    Utc,
    /// The file does not state the zone.
    Unstated,
}

/// The date that is `days` days after 1 January 1970. Years that have not four digits have a sign.
///
/// # Errors
/// The date is more than about 262,000 years away.
pub(super) fn date(days: i64) -> Result<String, String> {
    let date = i32::try_from(days).ok().and_then(NaiveDate::from_epoch_days);
    date.map(|date| date.to_string()).ok_or_else(|| format!("{days} days after 1970-01-01 is no date"))
}

/// A time of day, without a fraction if it is zero.
///
/// # Errors
/// The time is not within a day.
pub(super) fn time(time: i64, part: SecondPart) -> Result<String, String> {
    let (seconds, fraction) = (time.div_euclid(part.per_second()), time.rem_euclid(part.per_second()));
    if !(0..DAY_SECONDS).contains(&seconds) {
        return Err(format!("{seconds} s is not a time of day"));
    }
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let whole = format!("{hours:02}:{minutes:02}:{seconds:02}");
    Ok(match fraction {
        0 => whole,
        _ => format!("{whole}.{fraction:0digits$}", digits = part.digits()),
    })
}

/// The date and time that is `time` after 1 January 1970.
pub(super) fn timestamp(timestamp: i64, part: SecondPart, zone: TimeZone) -> Result<String, String> {
    let day = DAY_SECONDS * part.per_second();
    let suffix = match zone {
        TimeZone::Utc => "Z",
        TimeZone::Unstated => "",
    };
    let time = time(timestamp.rem_euclid(day), part)?;
    Ok(format!("{}T{time}{suffix}", date(timestamp.div_euclid(day))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_gregorian_calendar() {
        for (days, expected) in [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (11_016, "2000-02-29"),
            (11_017, "2000-03-01"),
            (19_782, "2024-02-29"),
            (-25_509, "1900-02-28"),
            (-25_508, "1900-03-01"),
            (-719_528, "0000-01-01"),
            (2_932_896, "9999-12-31"),
            (2_932_897, "+10000-01-01"),
            (-719_529, "-0001-12-31"),
        ] {
            assert_eq!(date(days).as_deref(), Ok(expected), "{days}");
        }
        assert!(date(i64::MAX).is_err() && date(i64::from(i32::MIN)).is_err());
    }

    #[test]
    fn times_have_a_fraction_only_if_it_is_not_zero() {
        let noon = 12 * 3600 + 34 * 60 + 56;
        assert_eq!(time(noon * 1000, SecondPart::Millis).as_deref(), Ok("12:34:56"));
        assert_eq!(time(noon * 1_000_000 + 7, SecondPart::Micros).as_deref(), Ok("12:34:56.000007"));
        assert!(
            time(-1, SecondPart::Nanos).is_err() && time(DAY_SECONDS * 1000, SecondPart::Millis).is_err()
        );
        let of = |time, part, zone| timestamp(time, part, zone).unwrap();
        assert_eq!(of(-1, SecondPart::Millis, TimeZone::Utc), "1969-12-31T23:59:59.999Z");
        assert_eq!(of(1_500_000_000, SecondPart::Nanos, TimeZone::Unstated), "1970-01-01T00:00:01.500000000");
        assert!(timestamp(i64::MIN, SecondPart::Nanos, TimeZone::Utc).is_ok());
    }
}
