//! Data of a whole comparison, drawn from a seed: what a cluster with log-normal latencies and group commit would give.

use loadgen::drive::priority::Priority;
use loadgen::measure::analyse::{Block, ModeData, Settings, analyse};
use loadgen::measure::lateness::Lateness;
use loadgen::measure::sample::Sample;
use loadgen::measure::verify::Verdict;
use loadgen::measure::window::Window;
use loadgen::report::claims::{self, Expectations};
use loadgen::report::contract::{Config, Environment, Mode, Report, Run, SCHEMA, Throughput};
use loadgen::target::Roll;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const SPACING_US: u64 = 2_000;
const PER_SEGMENT: u64 = 430;
const BLOCKS: u64 = 4;
const PER_BLOCK: u64 = 4_500;

/// How the simulated cluster behaves.
#[derive(Clone, Copy, Debug)]
pub struct Behaviour {
    pub seed: u64,
    /// What an anticipatory roll costs, in us; 0 in a good cluster.
    pub anticipatory_stall_us: u64,
}

fn normal(rng: &mut StdRng) -> f64 {
    let (u, v): (f64, f64) = (rng.random_range(f64::MIN_POSITIVE..1.0), rng.random());
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

fn mode_data(mode: Mode, rtt_ms: u64, behaviour: Behaviour) -> ModeData {
    let mut rng = StdRng::seed_from_u64(behaviour.seed ^ (rtt_ms << 8) ^ mode as u64);
    let mut data = ModeData::default();
    let (mut offset, mut at_us, mut busy_until_us) = (0u64, 1_000_000u64, 0u64);
    for _ in 0..BLOCKS {
        let mut block = Block::default();
        let start_us = at_us;
        for _ in 0..PER_BLOCK {
            if mode.rolls() && offset.is_multiple_of(PER_SEGMENT) && offset > 0 {
                let roll = roll(&mut rng, mode, offset, rtt_ms, behaviour);
                busy_until_us = busy_until_us.max(at_us + roll.switch_us.max(behaviour_stall(mode, behaviour)));
                data.rolls.push(roll);
            }
            // Now and then the machine itself pauses.
            if rng.random_bool(0.002) {
                busy_until_us = busy_until_us.max(at_us + rng.random_range(2_000..9_000));
            }
            let service_us = (1_050.0 * (0.22 * normal(&mut rng)).exp()) as u64;
            let done_us = at_us.max(busy_until_us) + service_us;
            let read_us = done_us + (180.0 * (0.3 * normal(&mut rng)).exp()) as u64;
            block.appends.push(Sample { due_us: at_us, done_us, offset, ok: true });
            block.tails.push(Sample { due_us: at_us, done_us: read_us, offset, ok: true });
            offset += 1;
            at_us += SPACING_US;
        }
        block.span = Some(Window { start_us: start_us + 500_000, end_us: at_us - SPACING_US });
        data.blocks.push(block);
        at_us += 30_000_000;
    }
    data.verdict = Verdict { records_acked: offset, records_read: offset, ..Verdict::default() };
    data
}

fn behaviour_stall(mode: Mode, behaviour: Behaviour) -> u64 {
    match mode {
        Mode::Anticipatory => behaviour.anticipatory_stall_us,
        Mode::NoRolls | Mode::Reactive => 0,
    }
}

fn roll(rng: &mut StdRng, mode: Mode, boundary: u64, rtt_ms: u64, behaviour: Behaviour) -> Roll {
    let mut around = |us: u64| (us as f64 * (0.12 * normal(rng)).exp()) as u64;
    let (announce_us, commit_us) = (around(500 + rtt_ms * 1_000), around(2_600 + rtt_ms * 1_000));
    let (open_us, ready_us) = (around(3_100 + rtt_ms * 1_000), around(2_400 + rtt_ms * 1_000));
    let announce_to_ready_us = announce_us + commit_us + open_us + ready_us;
    let reactive = mode == Mode::Reactive;
    Roll {
        segment: boundary / PER_SEGMENT,
        next: boundary / PER_SEGMENT + 1,
        boundary,
        not_ready: reactive,
        appends_waited: if reactive { announce_to_ready_us / SPACING_US } else { 0 },
        announce_us,
        commit_us,
        open_us,
        ready_us,
        slack_us: if reactive { 0 } else { 130_000 },
        switch_us: if reactive { announce_to_ready_us } else { behaviour.anticipatory_stall_us },
        seal_us: around(620),
        begin_us: around(300),
        gate_us: around(540),
        record_us: around(2_500 + rtt_ms * 1_000),
        announce_to_ready_us,
        ..Roll::default()
    }
}

/// A whole report at 0, 20 and 60 ms, judged.
pub fn report(behaviour: Behaviour) -> Report {
    let mut report = Report {
        schema: SCHEMA,
        command: "roll".to_owned(),
        config: Config {
            rate_per_s: 500,
            record_bytes: 1024,
            segment_bytes: 460_800,
            replicas: 3,
            ack_quorum: 2,
            ack: "durable".to_owned(),
            producers: 1,
            consumers: 1,
            duration_s: 402.0,
            placement: "balanced".to_owned(),
            anticipation: "soft".to_owned(),
            arrivals: "fixed".to_owned(),
            seed: behaviour.seed,
        },
        environment: Environment {
            file_system: "ext4".to_owned(),
            fdatasync_p50_us: 164,
            fdatasync_p99_us: 567,
            cores: 2,
            cpu: "simulated processor".to_owned(),
            kernel: "simulated".to_owned(),
            generator_late_share: 0.0012,
            generator: Lateness { records: 162_000, late: 194, worst_us: 4_200 },
            generator_priority: Priority::RealTime,
            durability: "on disk (fdatasync) at 2 of 3 replicas before the ack".to_owned(),
            data_round_trip_us: 240,
            version: "0.1.0".to_owned(),
            started_unix_s: 0,
        },
        throughput: Throughput { records_per_s: 500.0, mib_per_s: 0.488 },
        ..Report::default()
    };
    let settings = Settings { seed: behaviour.seed, ..Settings::default() };
    for rtt_ms in [0, 20, 60] {
        let mut run = Run { metad_rtt_ms: rtt_ms, metadata_call_p50_us: 1_800 + rtt_ms * 1_000, ..Run::default() };
        for mode in Mode::ALL {
            *run.modes.get_mut(mode) = analyse(&mode_data(mode, rtt_ms, behaviour), settings);
        }
        report.runs.push(run);
    }
    report.claims = claims::judge(&report, Expectations { rolls: 30, allow_late: false });
    report
}
