//! The font of the charts: a subset of Roboto with Latin letters; `assets/` has its licence.

use std::sync::LazyLock;

use ttf_parser::{Face, GlyphId};

static REGULAR: LazyLock<Face<'static>> =
    LazyLock::new(|| face(include_bytes!("../../assets/Roboto-Regular-subset.ttf")));
static BOLD: LazyLock<Face<'static>> =
    LazyLock::new(|| face(include_bytes!("../../assets/Roboto-Bold-subset.ttf")));

fn face(bytes: &'static [u8]) -> Face<'static> {
    Face::parse(bytes, 0).expect("the included font is valid")
}

/// The weight of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weight {
    Regular,
    Bold,
}

impl Weight {
    fn face(self) -> &'static Face<'static> {
        match self {
            Weight::Regular => &REGULAR,
            Weight::Bold => &BOLD,
        }
    }
}

/// Width of a text in pixels; `size` is in pixels per em.
pub(super) fn width(text: &str, size: f64, weight: Weight) -> f64 {
    text.chars()
        .map(|letter| advance(weight.face(), glyph(weight.face(), letter)) * scale(size, weight))
        .sum()
}

/// A glyph, and the offset of its origin from the start of the text in pixels.
pub(super) struct PlacedGlyph {
    pub(super) x: f64,
    pub(super) glyph: GlyphId,
}

/// The glyphs of a text in order.
pub(super) fn place(text: &str, size: f64, weight: Weight) -> Vec<PlacedGlyph> {
    let (face, mut x) = (weight.face(), 0.0);
    let mut placed = Vec::new();
    for letter in text.chars() {
        let glyph = glyph(face, letter);
        placed.push(PlacedGlyph { x, glyph });
        x += advance(face, glyph) * scale(size, weight);
    }
    placed
}

/// Draws the outline of a glyph in font units (y grows upwards).
pub(super) fn outline(glyph: GlyphId, weight: Weight, builder: &mut dyn ttf_parser::OutlineBuilder) {
    // A space has no outline, which is not an error.
    let _ = weight.face().outline_glyph(glyph, builder);
}

/// Pixels per font unit.
pub(super) fn scale(size: f64, weight: Weight) -> f64 {
    size / f64::from(weight.face().units_per_em())
}

/// The glyph of a letter; letters that the font lacks are the font's empty box.
fn glyph(face: &Face<'_>, letter: char) -> GlyphId {
    face.glyph_index(letter).unwrap_or(GlyphId(0))
}

fn advance(face: &Face<'_>, glyph: GlyphId) -> f64 {
    f64::from(face.glyph_hor_advance(glyph).unwrap_or(0))
}
