//! Queries of an index of coastlines have the answers of Shapely, in the plane and in degrees.
//!
//! `data/queries.py` writes the queries. `FARWOOD_QUERIES` names another file of them.

use crate::spatial_pool::SpatialPool;
use farwood::spatial::geometry::{Geometry, Metric, Predicate};
use farwood::spatial::{
    Contents, CoordinateSystem, IdKind, NearestOptions, RTree, Record, RecordId, Rectangle, Spatial,
};
use std::path::Path;

const SAMPLE: &str = include_str!("../data/queries.tsv");
/// The segments of the coastlines.
fn segments() -> Vec<Geometry> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/coastlines.csv");
    let text = std::fs::read_to_string(path).unwrap();
    let segment = |row: &str| {
        let [x1, y1, x2, y2] = row.split(',').collect::<Vec<_>>()[..] else { panic!("{row}") };
        format!("LINESTRING({x1} {y1},{x2} {y2})").parse().unwrap()
    };
    text.lines().map(segment).collect()
}

fn record((number, geometry): (usize, &Geometry)) -> Record {
    let bounds = geometry.bounds().unwrap();
    Record {
        id: (number as u64).into(),
        bounds: Rectangle::new(bounds.min, bounds.max).unwrap(),
        payload: Contents { geometry: geometry.to_wkb(), attributes: String::new() }.encode(),
    }
}

/// An answer, as the file has it: how many records, and a sum that depends on all of their numbers.
fn answer(found: impl IntoIterator<Item = Record>) -> String {
    let (mut count, mut sum) = (0u64, 0u64);
    for record in found {
        let RecordId::Number(number) = record.id else { panic!("{}", record.id) };
        count += 1;
        sum = sum.wrapping_add((number + 1).wrapping_pow(3));
    }
    format!("{count} {sum}")
}

/// The answers that differ from those of one query.
fn differences(places: &Spatial, line: &str) -> Vec<String> {
    let fields: Vec<_> = line.split('\t').collect();
    let query: Geometry = fields[1].parse().unwrap();
    let mut differ = Vec::new();
    let mut expect = |what: &str, found: &str, expected: &str| {
        if found != expected {
            differ.push(format!("{what} of {query}: {found}, not {expected}"));
        }
    };
    for (predicate, expected) in Predicate::ALL.into_iter().zip(&fields[2..12]) {
        let found = places.find(predicate, &query).unwrap();
        expect(&format!("{predicate:?}"), &answer(found), expected);
    }
    let (distance, expected) = fields[12].split_once(' ').unwrap();
    let found = places.find_within(&query, distance.parse().unwrap(), Metric::Planar).unwrap();
    expect("dwithin", &answer(found.into_iter().map(|(record, _)| record)), expected);
    let (count, last) = fields[13].split_once(' ').unwrap();
    let (count, last): (usize, f64) = (count.parse().unwrap(), last.parse().unwrap());
    let found = places.nearest_to(&query, &NearestOptions::new(count, Metric::Planar)).unwrap();
    let distance = found.last().unwrap().1;
    if found.len() != count || (distance - last).abs() > last * 1e-12 {
        expect("nearest", &format!("{} {distance}", found.len()), fields[13]);
    }
    differ
}

#[test]
fn answers_are_those_of_shapely() {
    let text = std::env::var("FARWOOD_QUERIES").map(|path| std::fs::read_to_string(path).unwrap());
    let text = text.unwrap_or_else(|_| SAMPLE.to_owned());
    let (mut geometries, mut queries) = (segments(), Vec::new());
    for line in text.lines() {
        match line.split_once('\t') {
            Some(("R", wkt)) => geometries.push(wkt.parse().unwrap()),
            Some(("Q", _)) => queries.push(line),
            _ => assert!(line.starts_with('#'), "{line}"),
        }
    }
    let scratch = SpatialPool::new();
    for (name, coordinates) in [("plane", CoordinateSystem::Planar), ("degrees", CoordinateSystem::Degrees)] {
        let config = RTree::new().ids(IdKind::Number).coordinates(coordinates);
        let places = scratch.create(name, &config);
        places.bulk_load_records(geometries.iter().enumerate().map(record).collect(), 0.7).unwrap();
        let differ: Vec<_> = queries.iter().flat_map(|line| differences(&places, line)).collect();
        assert!(differ.is_empty(), "{name}: of {} queries differ: {differ:#?}", queries.len());
    }
    assert!(queries.len() >= 40);
}
