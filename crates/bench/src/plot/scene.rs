//! Scenes: rectangles, lines and text in drawing order.

use super::font::{self, Weight};

/// A colour: red, green, blue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Color(pub(super) u8, pub(super) u8, pub(super) u8);

impl Color {
    /// White on dark colours, near black on light ones.
    pub(super) fn contrast(self) -> Color {
        let light = 299 * u32::from(self.0) + 587 * u32::from(self.1) + 114 * u32::from(self.2);
        if light > 140_000 { Color(0x1f, 0x29, 0x37) } else { Color(0xff, 0xff, 0xff) }
    }
}

/// The alignment of a text relative to its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Align {
    Start,
    Middle,
    End,
}

/// A shape. Lengths are in pixels of the SVG; y grows downwards.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    Rectangle { x: f64, y: f64, width: f64, height: f64, color: Color },
    Line { from: (f64, f64), to: (f64, f64), width: f64, color: Color },
    Text(Text),
}

/// A line of text; `y` is its baseline.
#[derive(Clone, Debug)]
pub(super) struct Text {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) size: f64,
    pub(super) weight: Weight,
    pub(super) align: Align,
    pub(super) color: Color,
    pub(super) line: String,
}

/// A picture on a white background.
#[derive(Debug)]
pub(super) struct Scene {
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) shapes: Vec<Shape>,
}

impl Scene {
    pub(super) fn new(width: f64, height: f64) -> Scene {
        Scene { width, height, shapes: Vec::new() }
    }

    pub(super) fn rectangle(&mut self, x: f64, y: f64, width: f64, height: f64, color: Color) {
        self.shapes.push(Shape::Rectangle { x, y, width, height, color });
    }

    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), width: f64, color: Color) {
        self.shapes.push(Shape::Line { from, to, width, color });
    }

    /// Draws a text and returns its width.
    #[expect(clippy::too_many_arguments, reason = "callers set all properties of a text")]
    pub(super) fn text(
        &mut self,
        x: f64,
        y: f64,
        size: f64,
        weight: Weight,
        align: Align,
        color: Color,
        text: String,
    ) -> f64 {
        let width = font::width(&text, size, weight);
        self.shapes.push(Shape::Text(Text { x, y, size, weight, align, color, line: text }));
        width
    }

    /// Draws a left-aligned text, truncated with an ellipsis if it is wider than `width`.
    pub(super) fn text_within(&mut self, x: f64, y: f64, size: f64, color: Color, text: &str, width: f64) {
        let mut cut = text.to_owned();
        while font::width(&cut, size, Weight::Regular) > width && !cut.is_empty() {
            let kept = cut.trim_end_matches('…').chars().count() - 1;
            cut = text.chars().take(kept).collect::<String>() + "…";
        }
        self.text(x, y, size, Weight::Regular, Align::Start, color, cut);
    }
}
