//! Measurements of a real card, as `docs/validation/measure.sh` writes them, and their comparison with a NIC model.
//!
//! The file has a heading, and one measured value in each further line. Lines that begin with `#` are comments.

use farwood_fabric::Memory;

use super::{NicMeasurement, NicPoint, NicTarget};
use crate::{Error, Result};

/// The heading of the file.
pub const CARD_FILE_HEADING: &str =
    "verb,bytes,outstanding,batch,queue_pairs,compute_nodes,memory,target,metric,value";

/// A measured quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NicMetric {
    /// Million verbs per second.
    Rate,
    /// Payload, gigabits per second.
    Bandwidth,
    /// Mean latency, microseconds.
    Mean,
    /// Median latency, microseconds.
    Median,
    /// 99th percentile of the latency, microseconds.
    P99,
}

impl NicMetric {
    const ALL: [NicMetric; 5] =
        [NicMetric::Rate, NicMetric::Bandwidth, NicMetric::Mean, NicMetric::Median, NicMetric::P99];

    /// The name in the file.
    pub fn name(self) -> &'static str {
        match self {
            NicMetric::Rate => "million_per_second",
            NicMetric::Bandwidth => "gbit_per_second",
            NicMetric::Mean => "latency_us_mean",
            NicMetric::Median => "latency_us_p50",
            NicMetric::P99 => "latency_us_p99",
        }
    }

    /// The value of the model.
    pub fn of(self, measured: &NicMeasurement) -> f64 {
        match self {
            NicMetric::Rate => measured.mverbs,
            NicMetric::Bandwidth => measured.gbits,
            NicMetric::Mean => measured.latency_us.mean,
            NicMetric::Median => measured.latency_us.p50,
            NicMetric::P99 => measured.latency_us.p99,
        }
    }
}

/// A value measured on a card.
#[derive(Clone, Debug, PartialEq)]
pub struct CardValue {
    /// The same measurement of the model.
    pub point: NicPoint,
    /// The quantity.
    pub metric: NicMetric,
    /// The value of the card.
    pub card: f64,
}

/// Reads a file of measurements; the points are those of `base` with the parameters of each line.
///
/// # Errors
/// [`Error::Parameter`] with the line.
pub fn card_values(text: &str, base: &NicPoint) -> Result<Vec<CardValue>> {
    let refuse = |line: usize, problem: String| {
        let remedy = format!("give the columns {CARD_FILE_HEADING}, as docs/validation.md describes them");
        Error::parameter("--compare", format!("line {line}: {problem}"), remedy)
    };
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    let mut lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    match lines.next() {
        Some((_, CARD_FILE_HEADING)) => {}
        Some((line, _)) => return Err(refuse(line, "the heading is missing".to_owned())),
        None => return Err(refuse(1, "the file has no heading".to_owned())),
    }
    let values: Result<Vec<CardValue>> =
        lines.map(|(line, text)| checked(text, base).map_err(|problem| refuse(line, problem))).collect();
    let values = values?;
    if values.is_empty() {
        return Err(refuse(2, "the file has no values".to_owned()));
    }
    Ok(values)
}

/// The value of one line, whose point is possible.
fn checked(text: &str, base: &NicPoint) -> Result<CardValue, String> {
    let value = value(text, base)?;
    match value.point.check() {
        Ok(()) => Ok(value),
        // The option of the problem is a column of the file.
        Err(Error::Parameter { problem, remedy, .. }) => Err(format!("{problem}; {remedy}")),
        Err(error) => Err(error.to_string()),
    }
}

/// The value of one line.
fn value(text: &str, base: &NicPoint) -> Result<CardValue, String> {
    let cells: Vec<&str> = text.split(',').map(str::trim).collect();
    let [verb, bytes, outstanding, batch, queue_pairs, compute_nodes, memory, target, metric, card] =
        cells[..]
    else {
        return Err(format!("{} columns", cells.len()));
    };
    let count = |text: &str| {
        let number = text.parse::<u64>().ok().filter(|number| (1..=1 << 20).contains(number));
        number.ok_or_else(|| format!("'{text}' is not a count from 1 to {}", 1 << 20))
    };
    let known = NicMetric::ALL.into_iter().find(|known| known.name() == metric);
    let card = card.parse::<f64>().ok().filter(|value| value.is_finite() && *value > 0.0);
    Ok(CardValue {
        point: NicPoint {
            verb: verb.parse()?,
            bytes: count(bytes)?,
            outstanding: count(outstanding)?,
            batch: count(batch)?,
            queue_pairs: count(queue_pairs)?,
            compute_nodes: count(compute_nodes)?,
            memory: match memory {
                "host" => Memory::Host,
                "device" => Memory::Device,
                _ => return Err(format!("'{memory}' is not host or device")),
            },
            target: match target {
                "same" => NicTarget::Same,
                "spread" => NicTarget::Spread,
                _ => return Err(format!("'{target}' is not same or spread")),
            },
            ..base.clone()
        },
        metric: known.ok_or_else(|| {
            let names = NicMetric::ALL.map(NicMetric::name).join(", ");
            format!("'{metric}' is not a metric; the metrics are {names}")
        })?,
        card: card.ok_or_else(|| format!("'{}' is not a value above 0", cells[9]))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_with_comments_between_them() {
        let text = format!(
            "# a card\n{CARD_FILE_HEADING}\nread,8,16,1,4,1,host,spread,million_per_second,7.5\n\n\
             # more\ncas,8,1,1,1,1,device,same,latency_us_p50,2.25\n"
        );
        let values = card_values(&text, &NicPoint { seed: 7, ..NicPoint::default() }).unwrap();
        let [first, second] = &values[..] else { panic!("two values: {values:?}") };
        assert_eq!((first.point.outstanding, first.point.queue_pairs, first.point.seed), (16, 4, 7));
        assert_eq!(
            (second.metric, second.card, second.point.target),
            (NicMetric::Median, 2.25, NicTarget::Same)
        );
    }

    #[test]
    fn a_wrong_line_is_named() {
        for (line, said) in [
            ("read,8,16,1,4,1,host,spread,million_per_second", "line 2: 9 columns"),
            ("send,8,16,1,4,1,host,spread,million_per_second,7.5", "'send'"),
            ("read,8,x,1,4,1,host,spread,million_per_second,7.5", "'x'"),
            ("read,8,16,1,4,1,gpu,spread,million_per_second,7.5", "'gpu'"),
            ("read,8,16,1,4,1,host,far,million_per_second,7.5", "'far'"),
            ("read,8,16,1,4,1,host,spread,speed,7.5", "latency_us_p99"),
            ("read,8,16,1,4,1,host,spread,gbit_per_second,0", "'0'"),
            ("read,12,16,1,4,1,host,spread,gbit_per_second,7.5", "line 2: 12; give a multiple of 8"),
            ("read,8,16,1,9000,1,host,spread,gbit_per_second,7.5", "9000 are more than 4096"),
            ("", "no values"),
        ] {
            let text = format!("{CARD_FILE_HEADING}\n{line}\n");
            let error = card_values(&text, &NicPoint::default()).unwrap_err().to_string();
            assert!(error.starts_with("--compare") && error.contains(said), "{said}: {error}");
        }
        assert!(card_values("a,b\n", &NicPoint::default()).unwrap_err().to_string().contains("heading"));
    }
}
