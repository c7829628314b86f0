//! What happened, a line an event: off unless asked for, since lines cost more than the events.

use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceMode {
    Off,
    /// Only the hash of the lines.
    Hash,
    /// Lines to standard output, and the hash.
    Print,
}

pub struct Trace {
    mode: TraceMode,
    line: String,
    hash: u64,
}

impl Trace {
    pub fn new(mode: TraceMode) -> Self {
        Trace { mode, line: String::new(), hash: 0xcbf2_9ce4_8422_2325 }
    }

    pub fn on(&self) -> bool {
        self.mode != TraceMode::Off
    }

    pub fn say(&mut self, now: u64, what: fmt::Arguments<'_>) {
        use fmt::Write;
        self.line.clear();
        write!(self.line, "{:>9}.{:03} {what}", now / 1000, now % 1000).expect("a string takes everything");
        for byte in self.line.bytes().chain([b'\n']) {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        if self.mode == TraceMode::Print {
            println!("{}", self.line);
        }
    }

    /// FNV-1a over all lines.
    pub fn hash(&self) -> u64 {
        self.hash
    }
}

/// A line of the trace, formatted only when somebody wants it.
macro_rules! trace {
    ($world:expr, $($arg:tt)*) => {
        if $world.trace.on() {
            let now = $world.now;
            $world.trace.say(now, format_args!($($arg)*));
        }
    };
}
pub(crate) use trace;
