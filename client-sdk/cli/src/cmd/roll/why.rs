//! Why a roll was announced and switched when it was, in words.

use crate::units;
use seamlog::{RollAnnouncement, RollRecord, RollRecovery};

/// Which soft mark was chosen, and why.
pub fn announced(roll: &RollRecord) -> String {
    let Some(told) = &roll.announced else { return "not announced: nobody asked for a successor".to_owned() };
    let amount = |n: u64| amount(&told.cause, n);
    match told.cause.as_str() {
        "operator" => return format!("asked for by hand, at {} of {}", amount(told.fill), amount(told.hard)),
        "drain" => {
            return format!("one of its nodes is drained: asked for at {} of {}", amount(told.fill), amount(told.hard));
        }
        "replica-lost" => {
            return format!("a replica was lost: asked for at {} of {}", amount(told.fill), amount(told.hard));
        }
        _ => {}
    }
    let mark = format!("announced at {} of {}, soft mark {}", amount(told.fill), amount(told.hard), amount(told.mark));
    format!("{mark}: {}", basis(told))
}

fn basis(told: &RollAnnouncement) -> String {
    let lead = amount(&told.cause, told.lead);
    let latency = micros(told.roll_latency_us);
    let product = if told.cause == "age" {
        format!("{latency} of roll latency x {}", told.safety)
    } else {
        format!("{}/s x {latency} of roll latency x {}", amount(&told.cause, told.rate_per_s), told.safety)
    };
    let floor = "the least lead, a tenth of it";
    match told.basis.as_str() {
        "lead" => format!("{lead} before the hard cap, for {product}"),
        "floor" => format!("{floor}; {product} asks for {lead} only"),
        "unmeasured" if told.hard.saturating_sub(told.mark) > told.lead => {
            format!("no roll was measured yet, so {floor}; {product} (assumed) asks for {lead} only")
        }
        "unmeasured" => format!("no roll was measured yet: {lead} before the hard cap, for {product} (assumed)"),
        "at-open" => "anticipation = at-open: as soon as the segment was open".to_owned(),
        "off" => "anticipation = off: not before the hard cap".to_owned(),
        other => format!("basis {other}"),
    }
}

/// Why the head switched, and who had to wait.
pub fn switched(roll: &RollRecord) -> String {
    let due = match roll.switched_by.as_str() {
        "" => return String::new(),
        "bytes" | "records" => "switched at the hard cap".to_owned(),
        "age" => "switched at the maximum age".to_owned(),
        "operator" | "drain" | "replica-lost" => "switched as soon as a successor was ready".to_owned(),
        other => format!("switched by {other}"),
    };
    let ready = if roll.not_ready {
        format!("no successor was ready then: {} written past it", units::bytes_rough(roll.overrun_bytes))
    } else {
        "a ready successor stood by".to_owned()
    };
    format!("{due}; {ready}; {} appends waited", roll.appends_waited)
}

/// Why the old primary was given up.
pub fn recovered(recovery: &RollRecovery) -> String {
    let cause = match recovery.cause.as_str() {
        "silent" => "its primary's node fell silent",
        "session-broken" => "its primary's node lost its session with metad and opened no other",
        "restarted" => "its primary's process was restarted",
        "disk-failed" => "its primary's disk failed",
        "stalled" => "it made no progress, by complaint",
        _ => "the metad leader that knew why is gone",
    };
    format!(
        "recovered: {cause}; epoch {}, {} replicas promised, {} records copied",
        recovery.epoch, recovery.promised, recovery.copied_records
    )
}

fn amount(cause: &str, n: u64) -> String {
    match cause {
        "records" => format!("{n} records"),
        "age" => units::millis(n),
        _ => units::bytes_rough(n),
    }
}

/// Milliseconds with three digits behind the point.
pub fn micros(us: u64) -> String {
    format!("{}.{:03} ms", us / 1000, us % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(cause: &str, basis: &str) -> RollAnnouncement {
        RollAnnouncement {
            cause: cause.to_owned(),
            basis: basis.to_owned(),
            hard: 1 << 20,
            mark: 900 << 10,
            fill: 901 << 10,
            lead: 60 << 10,
            rate_per_s: 1 << 20,
            roll_latency_us: 20_000,
            safety: 3,
        }
    }

    fn why(cause: &str, basis: &str) -> String {
        announced(&RollRecord { announced: Some(told(cause, basis)), ..RollRecord::default() })
    }

    #[test]
    fn each_mark_says_where_it_comes_from() {
        for (cause, basis, part) in [
            ("bytes", "lead", "before the hard cap, for 1.0 MiB/s x 20.000 ms of roll latency x 3"),
            ("bytes", "floor", "the least lead, a tenth of it; 1.0 MiB/s"),
            ("bytes", "unmeasured", "no roll was measured yet, so the least lead"),
            ("bytes", "at-open", "at-open"),
            ("bytes", "off", "not before the hard cap"),
            ("records", "lead", "records before the hard cap"),
            ("age", "floor", "ms of roll latency x 3 asks for"),
            ("operator", "floor", "by hand"),
            ("drain", "floor", "drained"),
            ("replica-lost", "floor", "a replica was lost"),
        ] {
            let text = why(cause, basis);
            assert!(text.contains(part), "{cause} {basis}: {text}");
        }
    }
}
