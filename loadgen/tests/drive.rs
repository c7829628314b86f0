//! The commands against a synthetic target, in real time: what is acked comes back, and each fault is found.

mod common;

use common::synthetic::{Fault, Synthetic};
use loadgen::commands::bench::{self, BenchSettings};
use loadgen::commands::replay::{self, ReplaySettings};
use loadgen::commands::roll::{self, RollSettings, RoundTrips};
use loadgen::measure::analyse;
use loadgen::measure::window::WindowShape;
use loadgen::report::contract::{Environment, Report};
use loadgen::rtt::RttFile;
use loadgen::target::TopicSpec;

fn spec(segment_bytes: u64) -> TopicSpec {
    TopicSpec {
        replicas: 3,
        ack_quorum: 2,
        ack: "durable".to_owned(),
        anticipation: "soft".to_owned(),
        placement: "balanced".to_owned(),
        segment_bytes,
    }
}

/// Small windows, so that a test takes seconds.
fn roll_settings() -> RollSettings {
    let shape = WindowShape { before_us: 10_000, after_us: 40_000, calm_us: 5_000 };
    RollSettings {
        rate_per_s: 1_000,
        record_bytes: 256,
        segment_bytes: 352 * 400,
        rolls: 3,
        block_us: 2_000_000,
        settle_us: 100_000,
        warm_up_us: 600_000,
        producers: 2,
        consumers: 1,
        replicas: 3,
        ack_quorum: 2,
        ack: "durable".to_owned(),
        placement: "balanced".to_owned(),
        anticipation: "soft".to_owned(),
        poisson: false,
        allow_late: true,
        run_name: "test".to_owned(),
        analysis: analyse::Settings { shape, placebos_without_rolls: 10, ..analyse::Settings::default() },
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn roll_compares_three_modes_at_two_round_trips() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("rtt");
    std::fs::write(&path, "7\n").expect("written");
    let target = Synthetic::new(Some(path.clone()), None);
    let round_trips = RoundTrips::Set(RttFile::open(Some(&path)).expect("opened"), vec![0, 25]);
    let report = roll::run(&target, &roll_settings(), &round_trips, Environment::default()).await.expect("runs");
    drop(round_trips);
    assert_eq!(std::fs::read_to_string(&path).expect("read"), "7\n", "the round trip is put back");
    assert_eq!(report.runs.len(), 2);
    for run in &report.runs {
        for mode in loadgen::report::contract::Mode::ALL {
            let m = run.modes.get(mode);
            assert!(m.verdict.clean() && m.verdict.records_acked > 1_000, "{mode:?}: {:?}", m.verdict);
            assert_eq!(m.verdict.records_acked, m.verdict.records_read);
            assert_eq!(m.errors_seen_by_application, 0, "{:?}", m.errors);
            assert_eq!(m.rolls_measured >= 3, mode.rolls(), "{mode:?}: {}", m.rolls_measured);
            assert!(!m.placebo_append_us.is_empty() && !m.placebo_tail_us.is_empty());
        }
    }
    // The stall of a synthetic reactive roll is 4 ms and four round trips.
    let stall = |run: usize| report.runs[run].modes.reactive.stall.measured.p50_us as i64;
    assert!(stall(1) - stall(0) > 75_000, "{} then {}", stall(0), stall(1));
    let unfelt = report.runs[1].modes.anticipatory.silence.append.boundary.p50_us;
    assert!(unfelt * 3 < stall(1) as u64, "{unfelt} beside {}", stall(1));
    assert_eq!(report.environment.data_round_trip_us, 250);
}

async fn verdict_with(fault: Fault) -> Report {
    let settings = BenchSettings {
        topic: "t".to_owned(),
        spec: spec(1 << 20),
        record_bytes: 128,
        producers: 1,
        consumers: 1,
        window: 8,
        duration_us: 200_000,
        settle_us: 20_000,
        rate_per_s: Some(500),
        poisson_seed: Some(3),
        allow_late: true,
    };
    bench::run(&Synthetic::new(None, Some(fault)), &settings, Environment::default()).await.expect("runs")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bench_finds_each_fault() {
    for fault in [Fault::Lose(20), Fault::Duplicate(20), Fault::Swap(20), Fault::Corrupt(20), Fault::Refuse(20)] {
        let report = verdict_with(fault).await;
        let found = report.bench.as_ref().expect("a bench");
        let v = found.verdict;
        let errors = found.errors_seen_by_application;
        let counts = (v.lost, v.duplicated, v.out_of_order, v.gaps, v.corrupt, errors);
        let want = match fault {
            Fault::Lose(_) => (1, 0, 0, 1, 0, 0),
            Fault::Duplicate(_) => (0, 1, 0, 0, 0, 0),
            Fault::Swap(_) => (0, 0, 1, 0, 0, 0),
            Fault::Corrupt(_) => (1, 0, 0, 0, 1, 1),
            Fault::Refuse(_) => (0, 0, 0, 0, 0, 1),
        };
        assert_eq!(counts, want, "{fault:?}");
        assert!(!loadgen::commands::all_hold(&report), "{fault:?} fails the run");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bench_measures_both_loops() {
    let report = verdict_with(Fault::Lose(u64::MAX)).await;
    let bench = report.bench.as_ref().expect("a bench");
    assert!(loadgen::commands::all_hold(&report), "{}", bench::render(&report, bench));
    assert!(report.throughput.records_per_s > 500.0, "8 in flight at less than a millisecond each");
    assert!(bench.append.count > 50 && bench.tail.count == bench.append.count);
    assert!(bench.append.p50_us >= 400, "no record is faster than the target");
}

fn replay_settings(input: std::path::PathBuf) -> ReplaySettings {
    ReplaySettings { input, topic: "r".to_owned(), spec: spec(40_000), record_bytes: 1_000, window: 32, min_rolls: 10 }
}

fn input(bytes: usize) -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("input");
    let content: Vec<u8> = (0..bytes).map(|i| (i * 31 + i / 977) as u8).collect();
    std::fs::write(&path, content).expect("written");
    (dir, path)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replay_brings_a_file_back_and_appends_to_what_is_there() {
    let (_dir, path) = input(512_345);
    let target = Synthetic::new(None, None);
    for round in 0..2 {
        let settings = replay_settings(path.clone());
        let report = replay::run(&target, &settings, Environment::default()).await.expect("runs");
        let found = report.replay.as_ref().expect("a replay");
        assert!(loadgen::commands::all_hold(&report), "round {round}: {}", replay::render(&report, found));
        assert!(found.identical && found.rolls >= 10);
        assert_eq!((found.records, found.output_bytes), (513, 512_345));
        assert_eq!(found.input_crc32c, found.output_crc32c);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replay_names_the_first_byte_that_differs() {
    let (_dir, path) = input(100_000);
    let target = Synthetic::new(None, Some(Fault::Corrupt(7)));
    let settings = ReplaySettings { min_rolls: 0, ..replay_settings(path) };
    let report = replay::run(&target, &settings, Environment::default()).await.expect("runs");
    let found = report.replay.as_ref().expect("a replay");
    assert_eq!((found.identical, found.first_difference), (false, Some(7_999)));
    assert!(!loadgen::commands::all_hold(&report));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replay_of_an_empty_file_and_of_none() {
    let (dir, path) = input(0);
    let target = Synthetic::new(None, None);
    let settings = ReplaySettings { min_rolls: 0, ..replay_settings(path) };
    let report = replay::run(&target, &settings, Environment::default()).await.expect("runs");
    assert!(report.replay.is_some_and(|r| r.identical && r.records == 0));
    let missing = replay_settings(dir.path().join("missing"));
    let error = replay::run(&target, &missing, Environment::default()).await.expect_err("no such file");
    assert!(error.to_string().contains("missing"));
}

#[tokio::test]
async fn settings_that_leave_no_room_for_placebo_are_refused() {
    let settings = RollSettings { segment_bytes: 16_384, ..roll_settings() };
    let target = Synthetic::new(None, None);
    let error = roll::run(&target, &settings, &RoundTrips::AsIs, Environment::default())
        .await
        .expect_err("too small a segment");
    assert!(error.to_string().contains("--segment-bytes"));
}
