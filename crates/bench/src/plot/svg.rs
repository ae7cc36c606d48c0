//! SVG documents of scenes. Text remains text, so that it can be searched and copied.

use std::fmt::Write as _;

use super::font::Weight;
use super::scene::{Align, Color, Scene, Shape, Text};

/// Renders a scene as a document.
pub(super) fn render(scene: &Scene) -> String {
    let (width, height) = (scene.width, scene.height);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" font-family=\"Roboto, Helvetica, Arial, sans-serif\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
    );
    for shape in &scene.shapes {
        write_shape(&mut svg, shape).expect("writing to a string does not fail");
    }
    svg.push_str("</svg>\n");
    svg
}

fn write_shape(svg: &mut String, shape: &Shape) -> std::fmt::Result {
    match shape {
        Shape::Rectangle { x, y, width, height, color } => {
            let color = hex(*color);
            writeln!(
                svg,
                "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{width:.2}\" height=\"{height:.2}\" fill=\"{color}\"/>"
            )
        }
        Shape::Line { from, to, width, color } => writeln!(
            svg,
            "<line x1=\"{:.2}\" y1=\"{:.2}\" x2=\"{:.2}\" y2=\"{:.2}\" stroke=\"{}\" stroke-width=\"{width}\"/>",
            from.0,
            from.1,
            to.0,
            to.1,
            hex(*color)
        ),
        Shape::Text(text) => write_text(svg, text),
    }
}

fn write_text(svg: &mut String, text: &Text) -> std::fmt::Result {
    let anchor = match text.align {
        Align::Start => "start",
        Align::Middle => "middle",
        Align::End => "end",
    };
    let weight = match text.weight {
        Weight::Regular => "400",
        Weight::Bold => "700",
    };
    let (x, y, size, color) = (text.x, text.y, text.size, hex(text.color));
    writeln!(
        svg,
        "<text x=\"{x:.2}\" y=\"{y:.2}\" font-size=\"{size}\" font-weight=\"{weight}\" \
         text-anchor=\"{anchor}\" fill=\"{color}\">{}</text>",
        escaped(&text.line)
    )
}

fn hex(color: Color) -> String {
    format!("#{:02x}{:02x}{:02x}", color.0, color.1, color.2)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
