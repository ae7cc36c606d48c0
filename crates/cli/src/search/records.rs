//! Searches of an index of unique ids: records, whose geometries decide.

use super::{centre_across, found, report_count};
use crate::record::{FeatureCollection, feature, of_rectangle, read_geometry};
use crate::tsv::escape;
use crate::{Context, Failure, Format, Outcome};
use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use farwood::Url;
use farwood::spatial::{NearestOptions, Query, Record, Rectangle, Relation, Spatial};
use farwood_geometry::geo_types::{self, GeometryCollection};
use farwood_geometry::{Geometry, Metric, Predicate, Ties};
use std::collections::BTreeSet;

/// Options of searches of records.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Options for an index of unique ids")]
pub(super) struct ExactOptions {
    /// Find the records whose geometries have this relation to the geometry, window or point
    #[arg(long, value_name = "NAME", value_parser = relation_names(),
        conflicts_with_all = ["within", "contains", "nearest", "within_distance"])]
    relation: Option<Predicate>,
    /// Find the records up to this distance from the geometry, window or point, nearest first
    #[arg(long, value_name = "D", value_parser = distance, conflicts_with_all = ["within", "contains", "nearest"])]
    within_distance: Option<f64>,
    /// The unit of distances: that of the coordinates, or metres on a sphere [default: sphere in an index of degrees,
    /// otherwise planar]
    #[arg(long, value_enum)]
    metric: Option<MetricName>,
    /// Find no record that is farther, with --nearest
    #[arg(long, value_name = "D", value_parser = distance, requires = "nearest")]
    max_distance: Option<f64>,
    /// Find all records at the distance of the last one, with --nearest
    #[arg(long, requires = "nearest")]
    ties: bool,
}

/// Reads the name of a predicate, of which the record is the first geometry.
pub(crate) fn relation_names() -> impl TypedValueParser<Value = Predicate> {
    let names = PossibleValuesParser::new(Predicate::ALL.map(Predicate::name));
    names.try_map(|name| Predicate::from_name(&name).ok_or("there is no such relation"))
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum MetricName {
    Planar,
    Sphere,
}

/// Reads a distance.
fn distance(text: &str) -> Result<f64, String> {
    let distance = text.parse().ok().filter(|distance: &f64| distance.is_finite() && *distance >= 0.0);
    distance.ok_or_else(|| format!("'{text}' is not a distance; give a number, 0 or more"))
}

/// A record, and its distance if the search computed it.
type Found = (Record, Option<f64>);

/// Refuses the options that need records.
pub(super) fn refuse_options(args: &super::Args) -> Result<(), Failure> {
    let exact = &args.exact;
    let given = [
        ("--geometry", args.geometry.is_some()),
        ("--relation", exact.relation.is_some()),
        ("--within-distance", exact.within_distance.is_some()),
        ("--metric", exact.metric.is_some()),
        ("--max-distance", exact.max_distance.is_some()),
        ("--ties", exact.ties),
    ];
    match given.into_iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((option, _)) => {
            let remedy = match option {
                "--geometry" => "give --bbox or --at instead of --geometry".to_owned(),
                _ => format!("omit {option}"),
            };
            Err(Failure::Usage(format!(
                "search {url}: {option} needs an index of unique ids, and the ids of this one may repeat; {remedy}, or \
                 search an index that was created with --ids number or --ids text",
                url = args.url
            )))
        }
    }
}

/// Searches an index of unique ids.
pub(super) fn run(
    args: &super::Args,
    index: &Spatial,
    context: &mut Context<'_>,
) -> Result<Outcome, Failure> {
    if args.asks_for_count_of_rectangles() {
        let (window, beyond) = args.windows(index.coordinates())?;
        if beyond.is_none() {
            return report_count(index.count(&Query { window, relation: args.relation() })?, context);
        }
    }
    let records = args.search(index)?;
    if args.count {
        report_count(records.len() as u64, context)
    } else {
        report(&args.url, &records, context)
    }
}

impl super::Args {
    fn search(&self, index: &Spatial) -> Result<Vec<Found>, Failure> {
        let exact = &self.exact;
        let metric = self.metric(index)?;
        let measured = |found: Vec<(Record, f64)>| {
            found.into_iter().map(|(record, distance)| (record, Some(distance))).collect()
        };
        if let Some(count) = self.nearest {
            let ties = if exact.ties { Ties::All } else { Ties::Cut };
            let distance_max = exact.max_distance.unwrap_or(f64::INFINITY);
            let options = NearestOptions { count, distance_max, ties, metric };
            return Ok(measured(index.nearest_to(&self.centre(index)?, &options)?));
        }
        if let Some(distance) = exact.within_distance {
            return Ok(measured(index.find_within(&self.shape(index)?, distance, metric)?));
        }
        let records = match self.predicate() {
            Some(predicate) => index.find(predicate, &self.shape(index)?)?,
            None => by_rectangles(index, self.relation(), self.windows(index.coordinates())?)?,
        };
        Ok(records.into_iter().map(|record| (record, None)).collect())
    }

    /// Whether the search compares rectangles, and prints only their number.
    fn asks_for_count_of_rectangles(&self) -> bool {
        let is_exact = self.predicate().is_some() || self.exact.within_distance.is_some();
        self.count && !is_exact && self.exact.metric.is_none()
    }

    fn metric(&self, index: &Spatial) -> Result<Metric, Failure> {
        match self.exact.metric {
            Some(_) if self.nearest.is_none() && self.exact.within_distance.is_none() => {
                let text = "--metric applies to --nearest and --within-distance; omit it, or add one of them";
                Err(Failure::Usage(format!("search {}: {text}", self.url)))
            }
            Some(MetricName::Planar) => Ok(Metric::Planar),
            Some(MetricName::Sphere) => Ok(Metric::Sphere),
            None => Ok(index.metric()),
        }
    }

    /// The predicate of an exact search; `None`: rectangles are compared.
    fn predicate(&self) -> Option<Predicate> {
        let of_geometry = match self.relation() {
            Relation::Intersects => Predicate::Intersects,
            Relation::Within => Predicate::Within,
            Relation::Contains => Predicate::Contains,
        };
        self.exact.relation.or_else(|| self.geometry.is_some().then_some(of_geometry))
    }

    /// The geometry, window or point.
    fn shape(&self, index: &Spatial) -> Result<Geometry, Failure> {
        if let Some(text) = &self.geometry {
            return self.given_geometry(text);
        }
        let (window, beyond) = self.windows(index.coordinates())?;
        let one = of_rectangle(&window)?;
        let Some(beyond) = beyond else { return Ok(one) };
        let parts = vec![one.into_shape(), of_rectangle(&beyond)?.into_shape()];
        let both = geo_types::Geometry::GeometryCollection(GeometryCollection(parts));
        Geometry::new(both).map_err(|error| Failure::Usage(error.to_string()))
    }

    /// The geometry, point, or centre of the window.
    fn centre(&self, index: &Spatial) -> Result<Geometry, Failure> {
        if let Some(text) = &self.geometry {
            return self.given_geometry(text);
        }
        let (window, beyond) = self.windows(index.coordinates())?;
        let centre = beyond.map_or(window.centre(), |beyond| centre_across(&window, &beyond));
        Geometry::point(centre).map_err(|error| Failure::Usage(error.to_string()))
    }

    fn given_geometry(&self, text: &str) -> Result<Geometry, Failure> {
        read_geometry(text).map_err(|why| Failure::Usage(format!("search {}: --geometry: {why}", self.url)))
    }
}

/// The records whose rectangles have the relation to the window, which may have two parts.
fn by_rectangles(
    index: &Spatial,
    relation: Relation,
    (window, beyond): (Rectangle, Option<Rectangle>),
) -> Result<Vec<Record>, Failure> {
    let mut records = index.search_records(&Query { window, relation })?;
    let Some(window) = beyond else { return Ok(records) };
    let east = index.search_records(&Query { window, relation })?;
    let ids = |records: &[Record]| records.iter().map(|record| record.id.clone()).collect::<BTreeSet<_>>();
    if relation == Relation::Contains {
        let in_east = ids(&east);
        records.retain(|record| in_east.contains(&record.id));
    } else {
        let in_west = ids(&records);
        records.extend(east.into_iter().filter(|record| !in_west.contains(&record.id)));
    }
    Ok(records)
}

fn report(url: &Url, records: &[Found], context: &mut Context<'_>) -> Result<Outcome, Failure> {
    match context.format {
        Format::Json => {
            let features =
                records.iter().map(|(record, distance)| feature("search", url, record, *distance, context));
            let features = FeatureCollection::new(features.collect::<Result<_, Failure>>()?);
            context.json(&features)?;
        }
        Format::Text if records.is_empty() => {
            writeln!(context.messages, "search {url}: no record was found")?;
        }
        Format::Text => {
            for (record, distance) in records {
                write!(context.out, "{}\t{}", escape(&record.id.to_string()), record.bounds)?;
                match distance {
                    Some(distance) => writeln!(context.out, "\t{distance}")?,
                    None => writeln!(context.out)?,
                }
            }
        }
    }
    Ok(found(records.len() as u64))
}
