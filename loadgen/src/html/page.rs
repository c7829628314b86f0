//! The page around the pictures: what was found, in words and figures, and how it was taken.

use super::figures::{close_up, growth, percentiles, silence, timeline};
use super::svg::escape;
use crate::report::claims::SIGNIFICANCE;
use crate::report::contract::{Claim, Mode, ModeReport, Report, Run, Silence, Split};
use crate::report::table;
use crate::report::words;
use std::fmt::Write;

const STYLE: &str = include_str!("style.css");

/// The whole page for a `roll` report.
pub fn render(report: &Report) -> String {
    let mut page = String::new();
    let _ = write!(
        page,
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>Seamlog: is a roll felt?</title><style>{STYLE}</style></head><body><main>"
    );
    header(&mut page, report);
    over_time(&mut page, report);
    close_ups(&mut page, report);
    silences(&mut page, report);
    growths(&mut page, report);
    curves(&mut page, report);
    figures_table(&mut page, report);
    claims(&mut page, &report.claims);
    method(&mut page, report);
    environment(&mut page, report);
    page.push_str("</main></body></html>\n");
    page
}

fn header(page: &mut String, report: &Report) {
    let failed = report.claims.iter().filter(|c| !c.holds).count();
    let title = if report.runs.is_empty() || report.claims.is_empty() {
        "Nothing was judged"
    } else if failed == 0 {
        "A roll is not felt"
    } else if report.claims.iter().any(|c| !c.holds && !c.inconclusive && c.name.ends_with("not_felt")) {
        "A roll is felt"
    } else if report.claims.iter().any(|c| c.inconclusive) {
        "Whether a roll is felt, this run cannot tell"
    } else {
        "Not all that was claimed holds"
    };
    let _ = write!(page, "<p class=\"over\">Seamlog load report</p><h1>{title}</h1>");
    let c = &report.config;
    let _ = write!(
        page,
        "<p class=\"lead\">The same load, {} records of {} a second, on one cluster in three modes: \
         <b class=\"none\">without rolls</b>, with <b class=\"reactive\">reactive</b> rolls, where a successor is sought only once a \
         segment is full, and with <b class=\"anticipatory\">anticipatory</b> rolls, where it stands ready before.</p>",
        c.rate_per_s,
        words::bytes(c.record_bytes),
    );
    let tally = table::tally(&report.claims);
    let (class, text) = match failed {
        0 => ("holds", format!("{tally}.")),
        _ => ("fails", format!("{tally}; see below.")),
    };
    let _ = write!(page, "<p class=\"{class}\">{text}</p><div class=\"cards\">");
    report.runs.iter().for_each(|run| card(page, run));
    page.push_str("</div>");
}

fn card(page: &mut String, run: &Run) {
    let of = |mode: Mode| words::duration(run.modes.get(mode).silence.append.boundary.p50_us);
    let anticipatory = &run.modes.anticipatory.silence.append;
    let _ = write!(
        page,
        "<div class=\"card\"><div class=\"rtt\">metadata round trip {} ms<br>longest silence between acks, median</div>\
         <div class=\"big reactive\"><span>reactive roll</span><strong>{}</strong></div>\
         <div class=\"big anticipatory\"><span>anticipatory roll</span><strong>{}</strong></div>\
         <div class=\"big none\"><span>away from rolls</span><strong>{}</strong></div>\
         <div class=\"chance\">{}</div></div>",
        run.metad_rtt_ms,
        of(Mode::Reactive),
        of(Mode::Anticipatory),
        words::duration(anticipatory.placebo.p50_us),
        in_words(anticipatory),
    );
}

fn in_words(silence: &Silence) -> String {
    let p = escape(&words::p_value(silence.p_value));
    match silence.p_value {
        None => "Nothing to compare.".to_owned(),
        Some(value) if value > SIGNIFICANCE => {
            format!("An anticipatory roll cannot be told from chance ({p}).")
        }
        Some(_) => {
            format!("An anticipatory roll differs from chance by {} ({p}).", words::difference(silence.median_diff_us))
        }
    }
}

fn section(page: &mut String, title: &str, text: &str) {
    let _ = write!(page, "<h2>{title}</h2><p class=\"note\">{text}</p>");
}

fn legend(page: &mut String) {
    page.push_str("<div class=\"legend\">");
    for mode in Mode::ALL {
        let _ = write!(page, "<span class=\"{}\">{}</span>", super::figures::class(mode), mode.words());
    }
    page.push_str("</div>");
}

fn figure(page: &mut String, svg: &str, caption: &str) {
    let _ = write!(page, "<figure>{svg}<figcaption>{caption}</figcaption></figure>");
}

fn over_time(page: &mut String, report: &Report) {
    section(
        page,
        "Latency over time",
        "Each point is the slowest record due in 40 ms; the shade reaches down to the median. All three modes share one \
         scale. A flag and a thin line mark each roll; dotted lines mark where blocks of load were put end to end, since the \
         three modes took turns.",
    );
    let domain = timeline::domain(report);
    for run in &report.runs {
        let _ = write!(page, "<h3>metadata round trip {} ms</h3>", run.metad_rtt_ms);
        figure(page, &timeline::draw(run, domain), "Append latency, from the moment a record was due to its ack.");
    }
}

fn close_ups(page: &mut String, report: &Report) {
    section(
        page,
        "A roll seen close",
        "Every roll laid over the others, with the first record of the successor at 0. The bold line is the median, the dashed \
         one 90 %, and the shade reaches up to the slowest record of all rolls.",
    );
    let domain = timeline::domain(report);
    for run in &report.runs {
        let _ = write!(page, "<h3>metadata round trip {} ms</h3>", run.metad_rtt_ms);
        let first = |mode: Mode| words::duration(run.modes.get(mode).first_append.p50_us);
        let caption = format!(
            "Append latency by the time the record was due. The first record of the successor took {} in reactive and {} in \
             anticipatory rolls (medians); a record away from rolls took {}.",
            first(Mode::Reactive),
            first(Mode::Anticipatory),
            words::duration(run.modes.anticipatory.append.steady.p50_us),
        );
        figure(page, &close_up::draw(run, domain), &caption);
    }
}

fn silences(page: &mut String, report: &Report) {
    section(
        page,
        "Silence at rolls beside placebo",
        "For each roll, the longest time in its window in which nothing was acked, or delivered. Rings show the same for \
         windows of equal length at random times away from rolls: what chance alone does. The bar is the median.",
    );
    let domain = silence::domain(report);
    for run in &report.runs {
        let _ = write!(page, "<h3>metadata round trip {} ms</h3>", run.metad_rtt_ms);
        let caption = "p is the chance of samples at least this different if a roll made no difference \
                       (Mann-Whitney U, two-sided). Above 0.05 the two cannot be told apart.";
        figure(page, &silence::draw(run, domain), caption);
    }
}

fn growths(page: &mut String, report: &Report) {
    section(
        page,
        "What a slow metadata tier costs",
        "A reactive roll waits for every one of these phases, and most of them cross the metadata round trip. An anticipatory \
         roll went through them before the segment was full.",
    );
    figure(page, &growth::draw(report), "Medians over the rolls of each round trip.");
}

fn curves(page: &mut String, report: &Report) {
    section(
        page,
        "Percentiles",
        "How slow the slowest records are: to the right, ever rarer ones. All measured records, at rolls and away from them.",
    );
    legend(page);
    figure(page, &percentiles::draw(report), "Latency over the share of records that were at least as fast.");
}

fn figures_table(page: &mut String, report: &Report) {
    section(page, "The figures", "Medians and 99th percentiles; differences with their 95 % bootstrap interval.");
    let kinds: [(&str, Part); 2] = [
        ("append, from due to ack", |m| (&m.append, &m.silence.append)),
        ("tail, from due to delivery", |m| (&m.tail, &m.silence.tail)),
    ];
    for (name, part) in kinds {
        let _ = write!(
            page,
            "<h3>{name}</h3><div class=\"scroll\"><table><tr><th>round trip</th><th>mode</th><th class=\"n\">rolls</th>\
             <th class=\"n\">p50</th><th class=\"n\">p99</th><th class=\"n\">p99 at rolls</th><th class=\"n\">silence at rolls</th>\
             <th class=\"n\">placebo</th><th class=\"n\">difference</th><th class=\"n\">chance</th></tr>"
        );
        for run in &report.runs {
            Mode::ALL.into_iter().for_each(|mode| figures_row(page, run, mode, part));
        }
        page.push_str("</table></div>");
    }
}

type Part = fn(&ModeReport) -> (&Split, &Silence);

fn figures_row(page: &mut String, run: &Run, mode: Mode, part: Part) {
    let report = run.modes.get(mode);
    let (latency, silence) = part(report);
    let (low, high) = silence.median_diff_ci95_us;
    let difference =
        format!("{} ({} to {})", words::difference(silence.median_diff_us), words::signed(low), words::signed(high));
    let at_rolls = |text: String| if mode.rolls() { escape(&text) } else { "–".to_owned() };
    let cells = [
        report.rolls_measured.to_string(),
        words::duration(latency.steady.p50_us),
        words::duration(latency.steady.p99_us),
        at_rolls(words::duration(latency.boundary.p99_us)),
        at_rolls(words::duration(silence.boundary.p50_us)),
        words::duration(silence.placebo.p50_us),
        at_rolls(difference),
        at_rolls(words::p_value(silence.p_value)),
    ];
    let class = super::figures::class(mode);
    let _ = write!(page, "<tr><td>{} ms</td><td><b class=\"{class}\">{}</b></td>", run.metad_rtt_ms, mode.words());
    for cell in cells {
        let _ = write!(page, "<td class=\"n\">{cell}</td>");
    }
    page.push_str("</tr>");
}

fn claims(page: &mut String, claims: &[Claim]) {
    section(page, "What is claimed", "Each judged on the figures of this run alone.");
    let failed = claims.iter().filter(|c| !c.holds).count();
    let (open, summary) = (if failed == 0 { "" } else { " open" }, table::tally(claims));
    let _ = write!(page, "<details{open}><summary>{summary}</summary>");
    page.push_str("<div class=\"scroll\"><table><tr><th></th><th>round trip</th><th>claim</th><th>evidence</th></tr>");
    for claim in claims {
        let (class, word) = match (claim.holds, claim.inconclusive) {
            (true, _) => ("holds", "✓ holds"),
            (false, true) => ("fails", "? inconclusive"),
            (false, false) => ("fails", "✗ fails"),
        };
        let at = claim.metad_rtt_ms.map_or("all".to_owned(), |ms| format!("{ms} ms"));
        let _ = write!(
            page,
            "<tr><td class=\"{class}\">{word}</td><td>{at}</td><td>{}</td><td>{}</td></tr>",
            escape(&claim.name.replace('_', " ")),
            escape(&claim.evidence),
        );
    }
    page.push_str("</table></div></details>");
}

fn method(page: &mut String, report: &Report) {
    section(
        page,
        "How the figures were taken",
        "Open loop: records are due on a schedule that never waits for the cluster, and latency runs from the moment a record was \
         due, so a stall is charged to every record it held up.",
    );
    let e = &report.environment;
    let _ = write!(
        page,
        "<p class=\"note\">The three modes have a topic each on the same cluster and are loaded in turn, in blocks, the order rotated, \
         so that whatever else the machine did fell on all of them alike. The window of a roll runs from 50 ms before the due time of the \
         first record in the successor until 200 ms after it, or until the backlog it caused has drained. Placebo windows are as long, \
         placed at random in the same blocks, away from rolls. Latencies go through an HDR histogram with three digits; silences are \
         exact. Every acked record is compared with what was delivered. The generator itself handed {:.2} % of the records over more \
         than 1 ms late; above 1 % a run fails. No claim rests on a maximum.</p>\
         <p class=\"note\">A difference of medians below one round trip between router and segd ({}, measured on this cluster) is below \
         what the protocol promises and counts as none.</p>",
        e.generator_late_share * 100.0,
        words::duration(e.data_round_trip_us),
    );
}

fn environment(page: &mut String, report: &Report) {
    let (c, e) = (&report.config, &report.environment);
    page.push_str("<h2>Where they were taken</h2><dl>");
    let sync = format!("{} median, {} p99", words::duration(e.fdatasync_p50_us), words::duration(e.fdatasync_p99_us));
    let copies = format!("{} replicas, acked by {}", c.replicas, c.ack_quorum);
    let clients = format!("{} producers, {} consumers, {} arrivals", c.producers, c.consumers, c.arrivals);
    let rows = [
        ("durability at ack", e.durability.clone()),
        ("copies", copies),
        ("file system of the data", e.file_system.clone()),
        ("fdatasync of 4 KiB there", sync),
        ("processor", format!("{}, {} cores for all servers and the load", e.cpu, e.cores)),
        ("kernel", e.kernel.clone()),
        ("segments", format!("{}, placement {}", words::bytes(c.segment_bytes), c.placement)),
        ("clients", clients),
        (
            "throughput",
            format!("{:.0} records/s, {:.2} MiB/s", report.throughput.records_per_s, report.throughput.mib_per_s),
        ),
        ("whole run", format!("{:.0} s, seed {}", c.duration_s, c.seed)),
        (
            "generator",
            format!(
                "{} priority, {:.2} % of the records late",
                e.generator_priority.words(),
                e.generator_late_share * 100.0
            ),
        ),
        ("version", e.version.clone()),
    ];
    for (name, value) in rows {
        let _ = write!(page, "<dt>{name}</dt><dd>{}</dd>", escape(&value));
    }
    page.push_str("</dl><footer>Made by <code>loadgen roll</code>. The page needs nothing but itself.</footer>");
}
