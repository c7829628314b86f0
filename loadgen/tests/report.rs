//! The report from simulated data: its JSON, its claims, its page.

mod common;

use common::contract::holds_keys;
use common::simulated::{Behaviour, report};
use loadgen::report::contract::Report;
use loadgen::report::table;
use loadgen::{commands, html};

const GOOD: Behaviour = Behaviour { seed: 7, anticipatory_stall_us: 0 };

/// The contract, word for word: every key must be there, whatever else is.
const CONTRACT: &str = include_str!("contract.json");

#[test]
fn json_keeps_the_contract() {
    let json = serde_json::to_value(report(GOOD)).expect("plain data");
    holds_keys(&serde_json::from_str(CONTRACT).expect("the contract is JSON"), &json, "report");
    // What the contract writes as {} has the keys of its neighbour.
    let modes = &json["runs"][1]["modes"];
    for mode in ["reactive", "no_rolls"] {
        for key in modes["anticipatory"].as_object().expect("an object").keys() {
            assert!(modes[mode].get(key).is_some(), "{mode}.{key}");
        }
    }
    let back: Report = serde_json::from_value(json).expect("reads what it wrote");
    assert_eq!(back.claims, report(GOOD).claims);
}

#[test]
fn a_good_cluster_passes_every_claim() {
    let report = report(GOOD);
    assert!(commands::all_hold(&report), "{}", table::render(&report));
    let run = &report.runs[2];
    assert!(run.modes.anticipatory.rolls_measured >= 30);
    assert_eq!(run.modes.no_rolls.rolls, 0);
    assert!(run.modes.reactive.silence.append.p_value.is_some_and(|p| p < 1e-6));
}

#[test]
fn the_same_data_give_the_same_report() {
    let text = |report: &Report| serde_json::to_string(report).expect("plain data");
    assert_eq!(text(&report(GOOD)), text(&report(GOOD)));
}

#[test]
fn a_roll_that_costs_five_milliseconds_is_caught() {
    let report = report(Behaviour { seed: 8, anticipatory_stall_us: 5_000 });
    let failed: Vec<&str> = report.claims.iter().filter(|c| !c.holds).map(|c| c.name.as_str()).collect();
    assert!(failed.contains(&"append_roll_not_felt") && failed.contains(&"tail_roll_not_felt"), "{failed:?}");
    assert!(html::render(&report).contains("<h1>A roll is felt</h1>"));
}

/// "Not felt" must not be said by a run that could not have felt anything. A roll that it did feel is told all the same.
#[test]
fn a_run_that_sees_no_stalls_or_too_few_rolls_is_inconclusive() {
    let expect = |rolls| loadgen::report::claims::Expectations { rolls, allow_late: false };
    let open = |found: &Report, rolls| -> Vec<(String, Option<u64>)> {
        let claims = loadgen::report::claims::judge(found, expect(rolls));
        claims.into_iter().filter(|c| c.inconclusive && !c.holds).map(|c| (c.name, c.metad_rtt_ms)).collect()
    };
    let good = report(GOOD);
    assert_eq!(open(&good, 30), []);
    // Too few rolls, anywhere: all three claims, at each round trip where there is something to compare with.
    assert_eq!(open(&good, 1_000).len(), 3 * 2 + 2);
    // Reactive rolls are not told from chance at one round trip.
    let mut blind = good.clone();
    blind.runs[0].modes.reactive.silence.append.p_value = Some(0.4);
    let at_0 = |name: &str| (name.to_owned(), Some(0));
    let grows = |ms| ("anticipatory_boundary_does_not_grow".to_owned(), Some(ms));
    assert_eq!(open(&blind, 30), [at_0("append_roll_not_felt"), grows(20), grows(60)]);
    blind.claims = loadgen::report::claims::judge(&blind, expect(30));
    assert!(!commands::all_hold(&blind));
    let (text, page) = (table::render(&blind), html::render(&blind));
    assert!(text.contains("inconclusive  [0 ms] append_roll_not_felt") && text.contains("none fails."), "{text}");
    assert!(page.contains("<h1>Whether a roll is felt, this run cannot tell</h1>"));
    // What is seen is seen.
    let felt = report(Behaviour { seed: 8, anticipatory_stall_us: 5_000 });
    let claims = loadgen::report::claims::judge(&felt, expect(1_000));
    assert!(claims.iter().any(|c| c.name == "append_roll_not_felt" && !c.holds && !c.inconclusive));
}

#[test]
fn lost_records_and_late_generators_fail() {
    let mut found = report(GOOD);
    found.runs[0].modes.no_rolls.verdict.lost = 1;
    found.environment.generator_late_share = 0.02;
    let expect = |allow_late| loadgen::report::claims::Expectations { rolls: 30, allow_late };
    let failed = |allow_late| -> Vec<String> {
        let claims = loadgen::report::claims::judge(&found, expect(allow_late));
        claims.into_iter().filter(|c| !c.holds).map(|c| c.name).collect()
    };
    assert_eq!(failed(false), ["generator_on_time", "verified_no_rolls"]);
    assert_eq!(failed(true), ["verified_no_rolls"]);
}

#[test]
fn an_unexplained_or_constant_reactive_stall_fails() {
    let mut found = report(GOOD);
    found.runs[2].modes.reactive.stall.measured.p50_us = found.runs[0].modes.reactive.stall.measured.p50_us;
    let expect = loadgen::report::claims::Expectations { rolls: 30, allow_late: false };
    let claims = loadgen::report::claims::judge(&found, expect);
    let failed: Vec<&str> = claims.iter().filter(|c| !c.holds).map(|c| c.name.as_str()).collect();
    assert_eq!(failed, ["reactive_stall_explained", "reactive_stall_grows"]);
}

#[test]
fn the_page_stands_alone_and_shows_everything() {
    let report = report(GOOD);
    let page = html::render(&report);
    for outside in ["http://", "https://", "src=", "@import", "url(", "<script", "<link", "href="] {
        assert!(!page.contains(outside), "the page refers to something outside: {outside}");
    }
    assert_eq!(page.matches("<svg").count(), 3 * 3 + 2, "three pictures a round trip, two over all");
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    assert!(!page.contains("NaN") && !page.contains("inf"), "every position is a number");
    assert!(page.contains("<h1>A roll is not felt</h1>"));
    // Kept for people to look at, beside the other build products.
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("sample-report.html");
    std::fs::write(path, page).expect("written");
}

#[test]
fn a_report_of_nothing_still_makes_a_page() {
    let page = html::render(&Report::default());
    assert!(page.contains("Nothing was judged") && !page.contains("NaN"));
}

#[test]
fn the_table_says_it_in_words() {
    let text = table::render(&report(GOOD));
    for expected in ["Metadata round trip 60 ms", "anticipatory rolls", "not told from chance", "felt", "claims hold."]
    {
        assert!(text.contains(expected), "{expected} in\n{text}");
    }
    assert!(text.lines().all(|l| l.trim_end() == l));
}
