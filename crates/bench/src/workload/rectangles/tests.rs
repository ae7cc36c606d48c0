//! Tests of rectangles: their distributions are those of the paper.

use std::sync::Arc;

use super::*;

#[test]
fn rectangles_are_small_and_uniform_and_depend_on_the_seed_only() {
    let items = RectangleSource::Uniform(20_000).items(7).unwrap();
    assert_eq!(items, RectangleSource::Uniform(20_000).items(7).unwrap());
    assert_ne!(items, RectangleSource::Uniform(20_000).items(8).unwrap());
    let edge = |item: &Item, axis: usize| item.bounds.max()[axis] - item.bounds.min()[axis];
    for axis in 0..2 {
        assert!(items.iter().all(|item| (0.0..=EDGE_MAX * 1.001).contains(&edge(item, axis))));
        let mean = items.iter().map(|item| edge(item, axis)).sum::<f64>() / items.len() as f64;
        assert!((mean - EDGE_MAX / 2.0).abs() < EDGE_MAX / 50.0, "{mean}");
        let lower = items.iter().filter(|item| item.bounds.min()[axis] < 0.25).count();
        assert!(lower.abs_diff(5_000) < 300, "{lower}");
    }
    assert!(items.iter().map(|item| item.id).eq(0..20_000));
}

#[test]
fn the_power_law_is_the_papers() {
    let mut generator = Generator::for_client(1, 1);
    let drawn: Vec<f64> = (0..30_000).map(|_| by_power_law(&mut generator, POWER_LAW_SCALES)).collect();
    assert!(drawn.iter().all(|&scale| scale > 1e-5 * 0.999 && scale <= 1e-2 * 1.001));
    // The share below t is (t^0.01 - a^0.01) / (b^0.01 - a^0.01): nearly even over the logarithm.
    for t in [1e-4_f64, 1e-3] {
        let share = drawn.iter().filter(|&&scale| scale <= t).count() as f64 / drawn.len() as f64;
        let at = |x: f64| x.powf(0.01);
        let wanted = (at(t) - at(1e-5)) / (at(1e-2) - at(1e-5));
        assert!((share - wanted).abs() < 0.01, "{t}: {share}, not {wanted}");
    }
}

fn stream(mix: SpatialMix, scale: Scale, client: u64) -> RequestStream {
    RequestStream::new((mix, scale), Arc::from([]), (client, 4), 1_000, 9)
}

#[test]
fn a_tenth_of_a_mix_is_inserts_with_unique_numbers_away_from_the_middle() {
    let mut ids = Vec::new();
    for client in 0..4 {
        let mut stream = stream(SpatialMix::Mixed, Scale::Edge(1e-5), client);
        for _ in 0..5_000 {
            let RectangleRequest::Insert(item) = stream.next_request() else { continue };
            ids.push(item.id);
            let [x, y] = item.bounds.min();
            assert!((0.0..=1.0).contains(&x) && (0.0..=1.0).contains(&y), "{}", item.bounds);
        }
    }
    assert!(ids.len().abs_diff(2_000) < 200, "{}", ids.len());
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert!(ids.len() == count && ids[0] >= 1_000);
    let searches = (0..1_000).all(|_| {
        matches!(stream(SpatialMix::Search, Scale::PowerLaw, 0).next_request(), RectangleRequest::Search(_))
    });
    assert!(searches);
}

#[test]
fn scales_are_parsed_and_others_are_refused() {
    assert_eq!("0.00001".parse::<Scale>().unwrap(), Scale::Edge(1e-5));
    assert_eq!("power-law".parse::<Scale>().unwrap(), Scale::PowerLaw);
    assert_eq!(Scale::Edge(0.01).to_string(), "0.01");
    for text in ["0", "-1", "2", "NaN", "large"] {
        assert!(text.parse::<Scale>().unwrap_err().to_string().contains("--scale"), "{text}");
    }
}

#[test]
fn a_file_of_rectangles_is_read_and_a_bad_row_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.csv");
    std::fs::write(&file, "x1,y1,x2,y2\n0,1,2,3\n\n4 5 6 7 name\n-1\t-1\t-1\t-1\n").unwrap();
    let items = read_file(&file, 10).unwrap();
    assert_eq!(items.len(), 3);
    assert_eq!((items[1].id, items[1].bounds), (1, Rectangle::new([4.0, 5.0], [6.0, 7.0]).unwrap()));
    assert_eq!(read_file(&file, 2).unwrap().len(), 2);
    for (bad, named) in
        [("0,1,2,3\n3,0,1,1\n", "row 2"), ("0,1,2,3\n1,1,NaN,2\n", "finite"), ("", "no rectangle")]
    {
        std::fs::write(&file, bad).unwrap();
        let refused = read_file(&file, 10).unwrap_err().to_string();
        assert!(refused.contains(named), "{refused}");
    }
}
