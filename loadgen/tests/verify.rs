//! `loadgen verify` against a synthetic target: what is right passes, each fault is found by its check, and too little
//! happening is told from nothing wrong.

mod common;

use common::contract::holds_keys;
use common::synthetic::{Fault, Synthetic};
use loadgen::clock::Clock;
use loadgen::commands::all_hold;
use loadgen::commands::verify::{self, VerifySettings};
use loadgen::report::contract::{Environment, Report};
use loadgen::report::verify_table;
use loadgen::target::TopicSpec;
use seam_history::{Check, History, Limits};
use std::sync::Arc;
use std::time::Duration;

/// The keys of this command, beside those that all share.
const CONTRACT: &str = include_str!("contract_verify.json");

fn settings() -> VerifySettings {
    VerifySettings {
        topic: "v".to_owned(),
        spec: TopicSpec {
            replicas: 3,
            ack_quorum: 2,
            ack: "durable".to_owned(),
            anticipation: "soft".to_owned(),
            placement: "balanced".to_owned(),
            segment_bytes: 40_000,
        },
        record_bytes: 256,
        rate_per_s: 1_000,
        producers: 2,
        impatient: 0,
        deadline: Duration::from_secs(20),
        impatient_deadline: Duration::from_secs(1),
        tails: 2,
        duration: Duration::from_millis(1_500),
        rounds: 1,
        faults: Vec::new(),
        pause: Duration::ZERO,
        patience: Duration::from_secs(3),
        limits: Limits {
            acks_min: 200,
            rolls_min: 1,
            crossings_min: 1,
            queries_min: 2,
            chains_min: 1,
            ..Limits::default()
        },
        history: None,
    }
}

async fn run(settings: &VerifySettings, fault: Option<Fault>) -> Report {
    let target = Arc::new(Synthetic::new(None, fault));
    verify::run(&target, settings, Clock::start(), None, Environment::default()).await.expect("runs")
}

fn failed(report: &Report) -> Vec<&str> {
    report.claims.iter().filter(|claim| !claim.holds).map(|claim| claim.name.as_str()).collect()
}

fn violated(report: &Report) -> Vec<Check> {
    let rows = &report.verify.as_ref().expect("a verification").checks;
    Check::ALL.into_iter().zip(rows).filter(|(_, row)| row.violations > 0).map(|(check, _)| check).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_correct_log_holds_and_its_history_is_kept() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("history.json");
    let report = run(&VerifySettings { history: Some(path.clone()), ..settings() }, None).await;
    let found = report.verify.as_ref().expect("a verification");
    let json = serde_json::to_value(&report).expect("plain data");
    holds_keys(&serde_json::from_str(CONTRACT).expect("the contract is JSON"), &json, "report");
    let text = verify_table::render(&report, found);
    assert!(all_hold(&report), "{text}");
    assert!(found.records_acked >= 200 && found.records_acked == found.records_read && found.rolls >= 1, "{text}");
    assert!(text.contains("holds  history_is_correct") && text.contains("a producer's order is kept"), "{text}");
    let kept: History = serde_json::from_slice(&std::fs::read(path).expect("kept")).expect("a history");
    assert!(seam_history::check(&kept, &settings().limits).holds(), "judged again, it holds again");
    assert_eq!(kept.final_read.deliveries.len() as u64, found.records_read);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_fault_of_the_log_is_found_by_its_check() {
    for (fault, wanted) in [
        (Fault::Lose(150), vec![Check::Present, Check::Contiguous]),
        (Fault::Duplicate(150), vec![Check::Contiguous]),
        (Fault::Swap(150), vec![Check::Contiguous]),
        (Fault::Corrupt(150), vec![Check::Content, Check::Present, Check::Known]),
    ] {
        let report = run(&settings(), Some(fault)).await;
        assert_eq!(violated(&report), wanted, "{fault:?}: {:?}", report.verify);
        assert_eq!(failed(&report), ["history_is_correct"], "{fault:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_append_is_an_error_and_no_violation() {
    let report = run(&settings(), Some(Fault::Refuse(150))).await;
    assert_eq!((violated(&report), failed(&report)), (Vec::new(), vec!["no_errors"]), "{:?}", report.verify);
    let found = report.verify.expect("a verification");
    assert_eq!((found.figures.failed, found.errors_seen_by_application), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_in_which_too_little_happened_fails() {
    let limits = Limits { rolls_min: 10_000, ..settings().limits };
    let report = run(&VerifySettings { limits, ..settings() }, None).await;
    assert_eq!(failed(&report), ["enough_happened"]);
    let found = report.verify.as_ref().expect("a verification");
    assert_eq!(found.vacuous[0].what, "rolls");
    assert!(verify_table::render(&report, found).contains("proves nothing"));
}
