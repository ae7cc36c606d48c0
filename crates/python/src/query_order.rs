//! The order in which a batch of queries runs: neighbours follow each other, so that they find the nodes that they
//! share in the processor's caches.

use farwood::spatial::Rectangle;

/// Bits of a coordinate in a place on the curve.
const BITS: u32 = 16;

/// The positions of the rectangles in the order of a Z-curve through their centres.
pub(crate) fn along_curve(rectangles: &[Rectangle]) -> Vec<usize> {
    let centres: Vec<[f64; 2]> = rectangles.iter().map(centre).collect();
    let [horizontal, vertical] = [0, 1].map(|axis| Axis::of(centres.iter().map(|centre| centre[axis])));
    let place = |at: &usize| {
        let [x, y] = centres[*at];
        spread(horizontal.cell(x)) | spread(vertical.cell(y)) << 1
    };
    let mut positions: Vec<usize> = (0..rectangles.len()).collect();
    positions.sort_by_cached_key(place);
    positions
}

fn centre(rectangle: &Rectangle) -> [f64; 2] {
    let ([x0, y0], [x1, y1]) = (rectangle.min(), rectangle.max());
    [f64::midpoint(x0, x1), f64::midpoint(y0, y1)]
}

/// The range of a coordinate.
struct Axis {
    least: f64,
    cells_per_unit: f64,
}

impl Axis {
    fn of(coordinates: impl Iterator<Item = f64>) -> Self {
        let (least, greatest) = coordinates
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), at| (least.min(at), most.max(at)));
        let cells = f64::from((1 << BITS) - 1);
        Self { least, cells_per_unit: cells / (greatest - least).max(f64::MIN_POSITIVE) }
    }

    fn cell(&self, coordinate: f64) -> u32 {
        ((coordinate - self.least) * self.cells_per_unit) as u32
    }
}

/// Inserts a zero before each of the lowest 16 bits.
fn spread(bits: u32) -> u32 {
    let bits = (bits | bits << 8) & 0x00ff_00ff;
    let bits = (bits | bits << 4) & 0x0f0f_0f0f;
    let bits = (bits | bits << 2) & 0x3333_3333;
    (bits | bits << 1) & 0x5555_5555
}
