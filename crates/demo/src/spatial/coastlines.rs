//! The coastlines that come with the program.

use std::sync::OnceLock;

use farwood_index::catfish::{Item, Rectangle};

/// Segments of the Earth's coastlines; positions are longitude and latitude in degrees.
#[derive(Debug)]
pub struct Coastlines {
    /// Both ends of each segment.
    pub segments: Vec<[[f64; 2]; 2]>,
    /// The bounds of the segments, numbered from 0.
    pub items: Vec<Item>,
}

impl Coastlines {
    /// The coastlines of `data/coastlines.csv`.
    pub fn shipped() -> &'static Coastlines {
        static COAST: OnceLock<Coastlines> = OnceLock::new();
        COAST.get_or_init(|| {
            let rows = include_str!("../../../../data/coastlines.csv");
            let segments: Vec<_> = rows.lines().map(segment).collect();
            let items = (0..).zip(&segments).map(|(id, segment)| Item { bounds: bounds(segment), id });
            Coastlines { items: items.collect(), segments }
        })
    }

    /// Number of segments.
    pub fn len(&self) -> u64 {
        self.items.len() as u64
    }

    /// Whether there are no segments.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

fn segment(row: &str) -> [[f64; 2]; 2] {
    let numbers: Vec<f64> = row.split(',').filter_map(|number| number.parse().ok()).collect();
    let &[x, y, x2, y2] = numbers.as_slice() else {
        panic!("'{row}' of the included coastlines is not a segment")
    };
    [[x, y], [x2, y2]]
}

fn bounds([one, other]: &[[f64; 2]; 2]) -> Rectangle {
    let end = |at: &[f64; 2]| Rectangle::point(*at).expect("the included coastlines are finite");
    end(one).union(&end(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_coastlines_lie_on_the_globe_and_no_segment_reaches_around_it() {
        let coast = Coastlines::shipped();
        assert_eq!(coast.segments.len(), 4_993);
        let globe = Rectangle::new([-180.0, -90.0], [180.0, 90.0]).unwrap();
        for item in &coast.items {
            assert!(globe.contains(&item.bounds) && item.bounds.margin() < 15.0, "{item:?}");
        }
    }
}
