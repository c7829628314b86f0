//! A progress bar on a terminal; nothing at all where stderr is not one.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;

/// A bar of `steps` steps.
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    pub fn new(steps: u64) -> Self {
        let on_terminal = std::io::stderr().is_terminal();
        let target = if on_terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(steps), target);
        let style = ProgressStyle::with_template("{bar:32} {pos:>4}/{len} {elapsed} left {eta}  {prefix} {msg}");
        bar.set_style(style.expect("the template is well formed"));
        bar.enable_steady_tick(std::time::Duration::from_millis(250));
        Progress { bar }
    }

    /// For tests: never drawn.
    pub fn hidden() -> Self {
        Progress { bar: ProgressBar::hidden() }
    }

    pub fn say(&self, text: String) {
        tracing::debug!("{text}");
        self.bar.set_message(text);
    }

    /// How far a run is, beside what was said last.
    pub fn tick(&self, acked: u64, rolls: usize) {
        self.bar.set_prefix(format!("{acked} acked, {rolls} rolls"));
    }

    pub fn step(&self, by: u64) {
        self.bar.inc(by);
    }

    /// More to do than was thought.
    pub fn extend(&self, by: u64) {
        self.bar.inc_length(by);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
