//! Exact queries of records, compared with a list: in place, by message and over TCP, in the plane and in degrees.

use crate::spatial_pool::{SpatialPool, served, served_over_tcp};
use farwood::Error;
use farwood::spatial::geometry::{Bounds, Geometry, Metric, Predicate, Prepared, Ties};
use farwood::spatial::{
    Contents, CoordinateSystem, IdKind, Item, NearestOptions, Query, RTree, Record, RecordId, Rectangle,
    SearchMode, ServeOptions, Spatial,
};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

fn create(pool: &SpatialPool, name: &str, ids: IdKind, coordinates: CoordinateSystem) -> Spatial {
    pool.create(name, &RTree::new().ids(ids).coordinates(coordinates))
}

/// Random numbers (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    /// A text of WKT coordinates on a grid, so that geometries touch, overlap and are equal.
    fn shape(&mut self, [x, y]: [f64; 2]) -> String {
        let size = [0.5, 1.0, 4.0][self.below(3) as usize];
        let (x2, y2) = (x + size, y + size);
        match self.below(6) {
            0 | 1 => format!("POINT({x} {y})"),
            2 => format!("LINESTRING({x} {y},{x2} {y},{x2} {y2})"),
            3 => format!("LINESTRING({x} {y},{x2} {y2})"),
            4 => format!("POLYGON(({x} {y},{x2} {y},{x} {y2},{x} {y}))"),
            _ => format!("POLYGON(({x} {y},{x2} {y},{x2} {y2},{x} {y2},{x} {y}))"),
        }
    }

    fn geometry(&mut self, system: CoordinateSystem) -> Geometry {
        let mut at = |from: f64, steps: u64| from + self.below(steps) as f64 / 2.0;
        let wkt = if system == CoordinateSystem::Degrees {
            let (side, y) = (at(0.0, 5), at(-6.0, 24));
            match side {
                // Both sides of the antimeridian.
                0.0 => format!("GEOMETRYCOLLECTION({},{})", self.shape([176.0, y]), self.shape([-180.0, y])),
                0.5 | 1.0 => {
                    let x = -180.0 + self.below(12) as f64 / 2.0;
                    self.shape([x, y])
                }
                _ => {
                    let x = 170.0 + self.below(13) as f64 / 2.0;
                    self.shape([x, y])
                }
            }
        } else {
            let corner = [at(-10.0, 40), at(0.0, 40)];
            self.shape(corner)
        };
        wkt.parse().unwrap()
    }
}

fn rectangle(bounds: Bounds) -> Rectangle {
    Rectangle::new(bounds.min, bounds.max).unwrap()
}

/// The list: the records and their geometries.
type List = Vec<(Record, Prepared)>;

/// Records with random geometries; some have none and stand for their rectangles, and some have larger rectangles.
fn records(count: u64, ids: IdKind, system: CoordinateSystem, random: &mut Random) -> List {
    let record = |number: u64| {
        let geometry = random.geometry(system);
        let mut bounds = geometry.bounds().unwrap();
        let id = if ids == IdKind::Text {
            RecordId::from(&*format!("place {number}"))
        } else {
            RecordId::from(number)
        };
        if number.is_multiple_of(11) {
            let payload = if number.is_multiple_of(2) { Vec::new() } else { contents(&[], r#"{"a":1}"#) };
            let boxed = Geometry::of_bounds(&bounds).unwrap();
            return (Record { id, bounds: rectangle(bounds), payload }, Prepared::new(&boxed));
        }
        if number.is_multiple_of(13) {
            bounds.min[1] -= 1.0;
        }
        let payload = contents(&geometry.to_wkb(), "{}");
        (Record { id, bounds: rectangle(bounds), payload }, Prepared::new(&geometry))
    };
    (0..count).map(record).collect()
}

fn contents(geometry: &[u8], attributes: &str) -> Vec<u8> {
    Contents { geometry: geometry.to_vec(), attributes: attributes.to_owned() }.encode()
}

fn ids(records: impl IntoIterator<Item = Record>) -> BTreeSet<RecordId> {
    let all: Vec<_> = records.into_iter().map(|record| record.id).collect();
    let count = all.len();
    let set: BTreeSet<_> = all.into_iter().collect();
    assert_eq!(set.len(), count, "no record is found twice");
    set
}

/// Compares queries of an index with the list.
fn compare(places: &Spatial, list: &List, queries: usize, random: &mut Random) {
    let system = places.coordinates();
    let geometries: Vec<_> = (0..queries).map(|_| random.geometry(system)).collect();
    for predicate in Predicate::ALL {
        let many = places.find_many(predicate, &geometries).unwrap();
        assert_eq!(many.len(), queries);
        for (query, found) in geometries.iter().zip(many) {
            let prepared = Prepared::new(query);
            let holds = |(_, geometry): &&(Record, Prepared)| predicate.holds(geometry, &prepared);
            let expected = ids(list.iter().filter(holds).map(|(record, _)| record.clone()));
            assert_eq!(ids(found), expected, "{predicate:?} {query}");
        }
    }
    for query in &geometries {
        compare_distances(places, list, query, random);
    }
}

fn compare_distances(places: &Spatial, list: &List, query: &Geometry, random: &mut Random) {
    let prepared = Prepared::new(query);
    for metric in [Metric::Planar, places.metric()] {
        let measured = |(record, geometry): &(Record, Prepared)| {
            (metric.distance(geometry, &prepared).unwrap(), record.id.clone())
        };
        let mut all: Vec<_> = list.iter().map(measured).collect();
        all.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
        let limit = all[random.below(40) as usize].0;
        let within: Vec<_> = all.iter().filter(|(distance, _)| *distance <= limit).cloned().collect();
        let flat = |found: Vec<(Record, f64)>| -> Vec<(f64, RecordId)> {
            found.into_iter().map(|(record, distance)| (distance, record.id)).collect()
        };
        assert_eq!(flat(places.find_within(query, limit, metric).unwrap()), within, "{query} {limit}");
        let count = random.below(30) as usize;
        let options = NearestOptions::new(count, metric);
        let cut = flat(places.nearest_to(query, &options).unwrap());
        let distances = |found: &[(f64, RecordId)]| found.iter().map(|one| one.0).collect::<Vec<_>>();
        assert_eq!(distances(&cut), distances(&all[..count]), "{query} {count}");
        let last = if count == 0 { -1.0 } else { all[count - 1].0 };
        let tied: Vec<_> = all.iter().filter(|(distance, _)| *distance <= last).cloned().collect();
        let options = NearestOptions { ties: Ties::All, ..options };
        assert_eq!(flat(places.nearest_to(query, &options).unwrap()), tied, "{query} {count}");
        let options = NearestOptions { count: 35, distance_max: limit, ..options };
        let near = within.iter().filter(|(distance, _)| *distance <= all[34].0).cloned().collect::<Vec<_>>();
        assert_eq!(flat(places.nearest_to(query, &options).unwrap()), near, "{query} at most {limit}");
    }
}

fn fill(places: &Spatial, list: &List) {
    places.put_many(list.iter().map(|(record, _)| record.clone())).unwrap();
}

#[test]
fn queries_are_those_of_a_list_in_place() {
    let scratch = SpatialPool::new();
    let systems = [CoordinateSystem::Planar, CoordinateSystem::Degrees, CoordinateSystem::Unstated];
    for (system, kind) in systems.into_iter().zip([IdKind::Text, IdKind::Number, IdKind::Number]) {
        let random = &mut Random(system as u64 + 1);
        let places = create(&scratch, &format!("places-{}", system as u64), kind, system);
        let list = records(500, kind, system, random);
        fill(&places, &list);
        compare(&places, &list, 40, random);
    }
}

#[test]
fn queries_are_those_of_a_list_by_message() {
    let scratch = SpatialPool::new();
    let random = &mut Random(7);
    let places = create(&scratch, "places", IdKind::Text, CoordinateSystem::Degrees);
    let list = records(300, IdKind::Text, CoordinateSystem::Degrees, random);
    let by_message = scratch.by(SearchMode::Message, "places");
    served(&places, &ServeOptions::default(), || {
        fill(&places, &list);
        compare(&by_message, &list, 15, random);
    });
    assert!(by_message.search_stats().by_message > 100);
}

#[test]
fn queries_are_those_of_a_list_over_tcp() {
    let coordinates = CoordinateSystem::Planar;
    let config = RTree::new().ids(IdKind::Number).coordinates(coordinates);
    served_over_tcp(&config, |_, open| {
        let (places, random) = (open(SearchMode::Auto), &mut Random(8));
        let list = records(300, IdKind::Number, coordinates, random);
        fill(&places, &list);
        compare(&places, &list, 10, random);
    });
}

#[test]
fn empty_geometries_are_near_nothing_and_equal_each_other() {
    let scratch = SpatialPool::new();
    let places = create(&scratch, "places", IdKind::Number, CoordinateSystem::Planar);
    let empty: Geometry = "POLYGON EMPTY".parse().unwrap();
    let at = |x: f64| Rectangle::point([x, 0.0]).unwrap();
    for number in 0..4 {
        let payload = contents(&empty.to_wkb(), "");
        places.put(Record { id: number.into(), bounds: at(number as f64), payload }).unwrap();
    }
    places.put(Record { id: 9.into(), bounds: at(50.0), payload: Vec::new() }).unwrap();
    let origin = Geometry::point([0.0, 0.0]).unwrap();
    let nearest = places.nearest_to(&origin, &NearestOptions::new(2, Metric::Planar)).unwrap();
    assert_eq!(nearest.iter().map(|(record, at)| (&record.id, *at)).collect::<Vec<_>>(), [(&9.into(), 50.0)]);
    assert_eq!(places.find(Predicate::Intersects, &origin).unwrap(), []);
    assert_eq!(places.find(Predicate::Disjoint, &origin).unwrap().len(), 5);
    assert_eq!(places.find(Predicate::Equals, &empty).unwrap().len(), 4);
    assert_eq!(places.find(Predicate::Intersects, &empty).unwrap(), []);
    assert_eq!(places.find_within(&empty, f64::INFINITY, Metric::Planar).unwrap(), []);
    assert_eq!(places.find_within(&origin, f64::INFINITY, Metric::Planar).unwrap().len(), 1);
}

#[test]
fn payloads_without_a_usable_geometry_are_errors_that_name_the_record() {
    let scratch = SpatialPool::new();
    let places = create(&scratch, "places", IdKind::Text, CoordinateSystem::Planar);
    let point = Geometry::point([1.0, 1.0]).unwrap();
    let bounds = Rectangle::point([1.0, 1.0]).unwrap();
    let mut damaged = point.to_wkb();
    damaged.truncate(9);
    for (payload, why) in [
        (b"a text of its own".to_vec(), "has no geometry: the payload is not a geometry with attributes"),
        (contents(&damaged, "{}"), "has a damaged geometry"),
        (
            contents(&Geometry::point([1.0, 1.5]).unwrap().to_wkb(), ""),
            "has the rectangle 1,1,1,1, which does not contain its geometry",
        ),
    ] {
        places.put(Record { id: "oak".into(), bounds, payload }).unwrap();
        let refused = places.find(Predicate::Intersects, &point).unwrap_err();
        assert!(matches!(refused, Error::Geometry { .. }) && refused.exit_code() == 8);
        let text = refused.to_string();
        assert!(text.contains(&format!("/places: the record oak {why}")), "{text}");
        assert!(places.nearest_to(&point, &NearestOptions::new(1, Metric::Planar)).is_err());
    }
    places.put(Record { id: "oak".into(), bounds, payload: contents(&point.to_wkb(), "{}") }).unwrap();
    assert_eq!(places.find(Predicate::Equals, &point).unwrap().len(), 1);
}

#[test]
fn arguments_that_do_not_fit_the_index_are_refused() {
    let scratch = SpatialPool::new();
    let plane = create(&scratch, "plane", IdKind::Number, CoordinateSystem::Planar);
    let degrees = create(&scratch, "degrees", IdKind::Number, CoordinateSystem::Degrees);
    let plain = create(&scratch, "plain", IdKind::Repeated, CoordinateSystem::Unstated);
    let refused = |done: Result<Vec<(Record, f64)>, Error>| done.unwrap_err().to_string();
    let point = Geometry::point([1.0, 1.0]).unwrap();
    assert!(refused(plane.find_within(&point, 1.0, Metric::Sphere)).contains("need an index of degrees"));
    for distance in [-1.0, f64::NAN] {
        assert!(refused(plane.find_within(&point, distance, Metric::Planar)).contains("give 0 or more"));
        let options = NearestOptions { distance_max: distance, ..NearestOptions::new(1, Metric::Planar) };
        assert!(refused(plane.nearest_to(&point, &options)).contains("maximum distance"));
    }
    let outside = Geometry::point([181.0, 0.0]).unwrap();
    let text = degrees.find(Predicate::Intersects, &outside).unwrap_err().to_string();
    assert!(text.contains("the bounding box of the geometry is 181,0,181,0"), "{text}");
    assert!(plain.find(Predicate::Intersects, &point).unwrap_err().to_string().contains("without records"));
    let joined = plane.join(&degrees, Predicate::Intersects, |_, _| ControlFlow::Continue(()));
    assert!(joined.unwrap_err().to_string().contains("the coordinate system is planar; those of"));
}

/// The pairs that a join finds, each once.
fn pairs(one: &Spatial, other: &Spatial, predicate: Predicate) -> BTreeSet<(RecordId, RecordId)> {
    let (mut pairs, mut count) = (BTreeSet::new(), 0);
    let joined = one.join(other, predicate, |one, other| {
        pairs.insert((one.id.clone(), other.id.clone()));
        count += 1;
        ControlFlow::Continue(())
    });
    joined.unwrap();
    assert_eq!(pairs.len(), count, "no pair is found twice");
    pairs
}

fn expected_pairs(one: &List, other: &List, predicate: Predicate) -> BTreeSet<(RecordId, RecordId)> {
    let pairs = one.iter().flat_map(|one| other.iter().map(move |other| (one, other)));
    let pairs = pairs.filter(|(one, other)| predicate.holds(&one.1, &other.1));
    pairs.map(|(one, other)| (one.0.id.clone(), other.0.id.clone())).collect()
}

#[test]
fn joins_are_those_of_two_lists() {
    let scratch = SpatialPool::new();
    for system in [CoordinateSystem::Planar, CoordinateSystem::Degrees] {
        let random = &mut Random(30 + system as u64);
        let make = |name: &str, kind, count, random: &mut Random| {
            let index = create(&scratch, &format!("{name}-{}", system as u64), kind, system);
            let list = records(count, kind, system, random);
            fill(&index, &list);
            (index, list)
        };
        let (many, many_list) = make("many", IdKind::Text, 700, random);
        let (few, few_list) = make("few", IdKind::Number, 30, random);
        let (some, some_list) = make("some", IdKind::Number, 200, random);
        for predicate in Predicate::ALL {
            let expected = expected_pairs(&many_list, &few_list, predicate);
            assert_eq!(pairs(&many, &few, predicate), expected, "{predicate:?}");
            let expected = expected_pairs(&few_list, &many_list, predicate);
            assert_eq!(pairs(&few, &many, predicate), expected, "{predicate:?}");
            let expected = expected_pairs(&many_list, &some_list, predicate);
            assert_eq!(pairs(&many, &some, predicate), expected, "{predicate:?}");
        }
        assert_eq!(
            pairs(&some, &some, Predicate::Equals),
            expected_pairs(&some_list, &some_list, Predicate::Equals)
        );
    }
}

#[test]
fn large_indexes_are_joined_in_batches_and_a_join_ends_when_its_caller_breaks() {
    const POINTS: u64 = 10_000;
    let scratch = SpatialPool::new();
    let plain = create(&scratch, "points", IdKind::Repeated, CoordinateSystem::Planar);
    let squares = create(&scratch, "squares", IdKind::Number, CoordinateSystem::Planar);
    let random = &mut Random(40);
    let mut at = || [random.below(1000) as f64 / 10.0, -5.0 + random.below(1000) as f64 / 10.0];
    let items: Vec<_> = (0..POINTS).map(|id| Item { bounds: Rectangle::point(at()).unwrap(), id }).collect();
    let square = |id: u64, [x, y]: [f64; 2]| {
        let bounds = Rectangle::new([x, y], [x + 1.0, y + 1.0]).unwrap();
        Record { id: id.into(), bounds, payload: Vec::new() }
    };
    let boxes: Vec<_> = (0..5_000).map(|id| square(id, at())).collect();
    plain.bulk_load(&items, 0.7).unwrap();
    squares.bulk_load_records(boxes.clone(), 0.7).unwrap();
    let mut expected = BTreeSet::new();
    for square in &boxes {
        let inside = items.iter().filter(|item| square.bounds.contains(&item.bounds));
        expected.extend(inside.map(|item| (square.id.clone(), RecordId::Number(item.id))));
    }
    assert!(expected.len() > 4_000);
    assert_eq!(pairs(&squares, &plain, Predicate::Covers), expected);
    let swapped: BTreeSet<_> = pairs(&plain, &squares, Predicate::CoveredBy);
    assert_eq!(swapped.into_iter().map(|(one, other)| (other, one)).collect::<BTreeSet<_>>(), expected);
    for predicate in [Predicate::Covers, Predicate::Disjoint] {
        let mut count = 0;
        let joined = squares.join(&plain, predicate, |_, _| {
            count += 1;
            if count == 7 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        joined.unwrap();
        assert_eq!(count, 7);
    }
}

#[test]
fn many_searches_return_the_results_of_each_in_order() {
    let scratch = SpatialPool::new();
    let plain = create(&scratch, "points", IdKind::Repeated, CoordinateSystem::Planar);
    let point = |id: u64| Rectangle::point([id as f64, 0.0]).unwrap();
    plain.bulk_load(&(0..1000).map(|id| Item { bounds: point(id), id }).collect::<Vec<_>>(), 0.7).unwrap();
    let queries: Vec<_> = (0..1100).map(|id| Query::intersecting(point(id))).collect();
    for count in [0, 1, 100, 1100] {
        let found = plain.search_many(&queries[..count]).unwrap();
        let ids: Vec<Vec<u64>> =
            found.iter().map(|items| items.iter().map(|item| item.id).collect()).collect();
        let expected = (0..count as u64).map(|id| if id < 1000 { vec![id] } else { vec![] });
        assert_eq!(ids, expected.collect::<Vec<_>>());
    }
}
