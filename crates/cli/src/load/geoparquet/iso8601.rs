//! Dates and times as ISO 8601.

/// Days of 400 years of the Gregorian calendar.
const ERA_DAYS: i64 = 146_097;
/// Days from 1 March of the year 0 to 1 January 1970.
const EPOCH_DAYS: i64 = 719_468;
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
pub(super) fn date(days: i64) -> String {
    // Years begin on 1 March here, so that a leap day is the last day of its year.
    let days = days + EPOCH_DAYS;
    let (era, day) = (days.div_euclid(ERA_DAYS), days.rem_euclid(ERA_DAYS));
    let year_of_era = (day - day / 1460 + day / 36_524 - day / (ERA_DAYS - 1)) / 365;
    let day_of_year = day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = 400 * era + year_of_era + i64::from(month <= 2);
    match year {
        0..=9999 => format!("{year:04}-{month:02}-{day:02}"),
        _ => format!("{year:+}-{month:02}-{day:02}"),
    }
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
    Ok(format!("{}T{time}{suffix}", date(timestamp.div_euclid(day))))
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
            (-719_529, "-1-12-31"),
        ] {
            assert_eq!(date(days), expected, "{days}");
        }
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
        assert!(timestamp(i64::MIN, SecondPart::Millis, TimeZone::Utc).is_ok());
    }
}
