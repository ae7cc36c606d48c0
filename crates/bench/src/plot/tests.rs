//! Tests of the charts: their contents, and that the picture is not empty. `FARWOOD_CHART_OUT` names a folder to which
//! the charts are written for inspection.

use tiny_skia::Pixmap;

use super::*;
use crate::record::tests::{peer, sample};

fn records() -> Vec<Record> {
    vec![Record { peer: None, machine: crate::record::machine::Machine::here(), ..sample() }, peer()]
}

fn show(name: &str, bytes: &[u8]) {
    if let Some(folder) = std::env::var_os("FARWOOD_CHART_OUT") {
        std::fs::write(std::path::Path::new(&folder).join(name), bytes).unwrap();
    }
}

#[test]
fn the_svg_names_everything_that_it_shows() {
    let svg = svg(&records()).unwrap();
    show("two.svg", svg.as_bytes());
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    for text in [
        "sherman",
        "lmdb",
        "operations per second",
        "microseconds",
        ">get<",
        ">scan<",
        ">all<",
        ">0.95<",
        ">1.19<",
    ] {
        assert!(svg.contains(text), "{text}");
    }
    // The first record has five kinds and their sum, the second two kinds and their sum; both appear in two panels and
    // in the legend.
    assert_eq!(svg.matches("#0072b2").count(), 6 * 2 + 1);
    assert_eq!(svg.matches("#e69f00").count(), 3 * 2 + 1);
}

#[test]
fn the_png_shows_the_same_scene() {
    let png = png(&records()).unwrap();
    show("two.png", &png);
    let picture = Pixmap::decode_png(&png).unwrap();
    assert_eq!((picture.width(), picture.height()), (1920, 1440));
    let share = |color: Color| {
        let (red, green, blue) = (color.0, color.1, color.2);
        let same = picture.pixels().iter().filter(|p| (p.red(), p.green(), p.blue()) == (red, green, blue));
        same.count() as f64 / picture.pixels().len() as f64
    };
    assert!(share(SERIES[0]) > 0.03 && share(SERIES[1]) > 0.01, "bars");
    assert!(share(INK) > 0.002, "text");
    assert!(share(Color(255, 255, 255)) > 0.5);
}

#[test]
fn one_record_of_one_kind_and_an_empty_one_are_drawn() {
    let mut one = records().remove(0);
    one.by_operation = crate::record::ByOperation { get: one.by_operation.get, ..Default::default() };
    show("one.png", &png(std::slice::from_ref(&one)).unwrap());
    assert!(!svg(&[one]).unwrap().contains(">all<"));
    let empty = svg(&[Record::default()]).unwrap();
    assert!(!empty.contains("NaN") && !empty.contains("inf"), "{empty}");
}

#[test]
fn too_many_records_are_refused_and_markup_is_escaped() {
    assert!(png(&[]).unwrap_err().to_string().contains("1 to 6"));
    assert!(svg(&vec![sample(); 7]).is_err());
    let odd = Record { workload: "<&>".to_owned(), ..sample() };
    assert!(svg(&[odd]).unwrap().contains("&lt;&amp;&gt;"));
}

#[test]
fn axes_have_round_numbers() {
    for (step, round) in [(0.3, 0.5), (1.0, 1.0), (1.1, 2.0), (2.2, 2.5), (7.0, 10.0), (0.0, 1.0)] {
        assert!((round_step(step) - round).abs() < 1e-9, "{step}");
    }
    assert_eq!([tick_rate(2.5), tick_rate(0.04), tick_rate(1e-4)], ["2.5 M", "40 k", "100"]);
    assert_eq!([tick_microseconds(-1), tick_microseconds(0), tick_microseconds(4)], ["0.1", "1", "10,000"]);
}
