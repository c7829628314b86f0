//! The pictures, one file each. All take the report and give one SVG; a mode has the same colour in all of them.

pub mod close_up;
pub mod growth;
pub mod percentiles;
pub mod silence;
pub mod timeline;

use super::scale::{Scale, tick_label};
use super::svg::{Anchor, Svg};
use crate::report::contract::Mode;

/// Width of a picture that takes the whole column.
pub const WIDTH: f64 = 1080.0;

/// The class that colours a mode.
pub fn class(mode: Mode) -> &'static str {
    match mode {
        Mode::NoRolls => "none",
        Mode::Reactive => "reactive",
        Mode::Anticipatory => "anticipatory",
    }
}

/// A plotting area within a picture.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    pub left: f64,
    pub top: f64,
    pub right: f64,
    pub bottom: f64,
}

impl Frame {
    /// Horizontal grid lines with durations at the left.
    pub fn latency_grid(&self, svg: &mut Svg, y: &Scale) {
        for tick in y.ticks() {
            let at = y.at(tick);
            svg.line("grid", (self.left, at), (self.right, at));
            svg.text("tick", (self.left - 8.0, at + 4.0), Anchor::End, &tick_label(tick));
        }
    }

    /// A base line with a label under each tick.
    pub fn bottom_axis(&self, svg: &mut Svg, x: &Scale, ticks: &[f64], label: impl Fn(f64) -> String) {
        svg.line("axis", (self.left, self.bottom), (self.right, self.bottom));
        for tick in ticks {
            let at = x.at(*tick);
            svg.line("axis", (at, self.bottom), (at, self.bottom + 4.0));
            svg.text("tick", (at, self.bottom + 17.0), Anchor::Middle, &label(*tick));
        }
    }
}
