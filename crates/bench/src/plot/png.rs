//! PNG files of scenes: shapes and the outlines of letters, filled with anti-aliasing.

use tiny_skia::{FillRule, Paint, Path, PathBuilder, Pixmap, Rect, Stroke, Transform};
use ttf_parser::OutlineBuilder;

use super::font;
use super::scene::{Align, Color, Scene, Shape, Text};
use crate::{Error, Result};

/// Renders a scene as a file, `zoom` times as large as the scene.
pub(super) fn render(scene: &Scene, zoom: f32) -> Result<Vec<u8>> {
    let size = |length: f64| (length * f64::from(zoom)).round() as u32;
    let pixmap = Pixmap::new(size(scene.width), size(scene.height));
    let mut pixmap = pixmap.ok_or_else(|| Error::Chart("the picture has no size".to_owned()))?;
    pixmap.fill(tiny_skia::Color::WHITE);
    let zoom = Transform::from_scale(zoom, zoom);
    for shape in &scene.shapes {
        draw(&mut pixmap, shape, zoom);
    }
    pixmap.encode_png().map_err(|error| Error::Chart(error.to_string()))
}

fn draw(pixmap: &mut Pixmap, shape: &Shape, zoom: Transform) {
    match shape {
        Shape::Rectangle { x, y, width, height, color } => {
            // An empty rectangle is not drawn.
            if let Some(rect) = Rect::from_xywh(*x as f32, *y as f32, *width as f32, *height as f32) {
                pixmap.fill_rect(rect, &paint(*color), zoom, None);
            }
        }
        Shape::Line { from, to, width, color } => {
            let mut builder = PathBuilder::new();
            builder.move_to(from.0 as f32, from.1 as f32);
            builder.line_to(to.0 as f32, to.1 as f32);
            let stroke = Stroke { width: *width as f32, ..Stroke::default() };
            if let Some(path) = builder.finish() {
                pixmap.stroke_path(&path, &paint(*color), &stroke, zoom, None);
            }
        }
        Shape::Text(text) => draw_text(pixmap, text, zoom),
    }
}

fn draw_text(pixmap: &mut Pixmap, text: &Text, zoom: Transform) {
    let width = font::width(&text.line, text.size, text.weight);
    let start = match text.align {
        Align::Start => text.x,
        Align::Middle => text.x - width / 2.0,
        Align::End => text.x - width,
    };
    if let Some(path) = outlines(text, start) {
        pixmap.fill_path(&path, &paint(text.color), FillRule::Winding, zoom, None);
    }
}

fn outlines(text: &Text, start: f64) -> Option<Path> {
    let mut outliner = Outliner {
        builder: PathBuilder::new(),
        scale: font::scale(text.size, text.weight) as f32,
        origin: (0.0, text.y as f32),
    };
    for placed in font::place(&text.line, text.size, text.weight) {
        outliner.origin.0 = (start + placed.x) as f32;
        font::outline(placed.glyph, text.weight, &mut outliner);
    }
    outliner.builder.finish()
}

fn paint(color: Color) -> Paint<'static> {
    let mut paint = Paint::default();
    paint.set_color_rgba8(color.0, color.1, color.2, 0xff);
    paint
}

/// Converts outlines in font units (y upwards) to paths in pixels (y downwards).
struct Outliner {
    builder: PathBuilder,
    scale: f32,
    origin: (f32, f32),
}

impl Outliner {
    fn at(&self, x: f32, y: f32) -> (f32, f32) {
        (self.origin.0 + x * self.scale, self.origin.1 - y * self.scale)
    }
}

impl OutlineBuilder for Outliner {
    fn move_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.builder.move_to(x, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.builder.line_to(x, y);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let ((x1, y1), (x, y)) = (self.at(x1, y1), self.at(x, y));
        self.builder.quad_to(x1, y1, x, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let ((x1, y1), (x2, y2), (x, y)) = (self.at(x1, y1), self.at(x2, y2), self.at(x, y));
        self.builder.cubic_to(x1, y1, x2, y2, x, y);
    }

    fn close(&mut self) {
        self.builder.close();
    }
}
