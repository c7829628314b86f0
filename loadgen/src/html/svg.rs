//! Writing SVG. Colours come from classes, so that the page's style sheet decides them for light and dark.

use std::fmt::{Display, Write};

/// Text that is safe inside elements and attributes.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Where a text hangs on its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

impl Anchor {
    fn name(self) -> &'static str {
        match self {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        }
    }
}

/// A drawing, `width` by `height` of its own units.
pub struct Svg {
    width: f64,
    height: f64,
    label: String,
    body: String,
}

impl Svg {
    /// `label` says what the picture shows to whoever cannot see it.
    pub fn new(width: f64, height: f64, label: &str) -> Self {
        Svg { width, height, label: escape(label), body: String::new() }
    }

    fn push(&mut self, element: impl Display) {
        let _ = write!(self.body, "{element}");
    }

    pub fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        self.push(format_args!(
            "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
        ));
    }

    pub fn rect(&mut self, class: &str, (x, y): (f64, f64), (width, height): (f64, f64), title: &str) {
        let (width, height) = (width.max(0.0), height.max(0.0));
        self.push(format_args!(
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\">"
        ));
        self.title(title);
        self.push("</rect>");
    }

    pub fn circle(&mut self, class: &str, (x, y): (f64, f64), radius: f64, title: &str) {
        self.push(format_args!("<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius:.1}\">"));
        self.title(title);
        self.push("</circle>");
    }

    pub fn text(&mut self, class: &str, (x, y): (f64, f64), anchor: Anchor, text: &str) {
        let (anchor, text) = (anchor.name(), escape(text));
        self.push(format_args!(
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
        ));
    }

    /// A line through the points; nothing for fewer than two.
    pub fn polyline(&mut self, class: &str, points: &[(f64, f64)]) {
        if points.len() > 1 {
            let path = path(points);
            self.push(format_args!("<path class=\"{class}\" d=\"{path}\"/>"));
        }
    }

    /// The area between two lines over the same x.
    pub fn band(&mut self, class: &str, upper: &[(f64, f64)], lower: &[(f64, f64)]) {
        if upper.len() > 1 {
            let back: Vec<(f64, f64)> = lower.iter().rev().copied().collect();
            let outline = format!("{}L{}Z", path(upper), &path(&back)[1..]);
            self.push(format_args!("<path class=\"{class}\" d=\"{outline}\"/>"));
        }
    }

    fn title(&mut self, title: &str) {
        if !title.is_empty() {
            let title = escape(title);
            self.push(format_args!("<title>{title}</title>"));
        }
    }

    pub fn finish(self) -> String {
        let Svg { width, height, label, body } = self;
        format!("<svg viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" aria-label=\"{label}\">{body}</svg>")
    }
}

fn path(points: &[(f64, f64)]) -> String {
    let mut text = String::with_capacity(points.len() * 12);
    for (index, (x, y)) in points.iter().enumerate() {
        let _ = write!(text, "{}{x:.1},{y:.1}", if index == 0 { 'M' } else { 'L' });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped() {
        let mut svg = Svg::new(10.0, 10.0, "a \"b\"");
        svg.text("t", (0.0, 0.0), Anchor::Start, "p < 0.05 & more");
        let text = svg.finish();
        assert!(text.contains("p &lt; 0.05 &amp; more") && text.contains("a &quot;b&quot;"));
    }

    #[test]
    fn a_band_closes() {
        let mut svg = Svg::new(10.0, 10.0, "");
        svg.band("b", &[(0.0, 1.0), (1.0, 1.0)], &[(0.0, 5.0), (1.0, 5.0)]);
        assert!(svg.finish().contains("d=\"M0.0,1.0L1.0,1.0L1.0,5.0L0.0,5.0Z\""));
    }
}
