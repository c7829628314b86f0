//! `loadgen verify`: clients write down what they did and were told over many rolls, and through faults if asked; then
//! everything is read back and the history is judged.

use crate::clock::Clock;
use crate::commands::CommandError;
use crate::commands::progress::Progress;
use crate::commands::rolls::Rolls;
use crate::commands::verify_report::{self, Ran};
use crate::record::RecordMaker;
use crate::report::contract::{Environment, Report};
use crate::target::{Observed, TopicSpec};
use crate::verify::faults::{Dev, Director, Kind, Played};
use crate::verify::follow::Goal;
use crate::verify::live::{Live, until};
use crate::verify::{Errors, ask, follow, produce, read_back};
use seam_history::{Fault, History, Limits};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The history of rolls is asked for this often, as the cluster remembers a bounded number.
const HISTORY_PERIOD: Duration = Duration::from_secs(2);
/// The same, while rolls are waited for.
const ROLLS_PERIOD: Duration = Duration::from_millis(200);
/// Load between two faults, and before the first.
const BETWEEN_FAULTS: Duration = Duration::from_millis(700);
/// How often a restless tail leaves and comes back.
const RESTLESS: Duration = Duration::from_secs(2);
/// The clients that ask for the ends.
const ASKERS: u32 = 2;

/// Settings of `loadgen verify`; the command line explains each.
#[derive(Clone, Debug)]
pub struct VerifySettings {
    pub topic: String,
    pub spec: TopicSpec,
    pub record_bytes: u64,
    /// Over all producers.
    pub rate_per_s: u64,
    pub producers: u32,
    /// Of `producers`.
    pub impatient: u32,
    pub deadline: Duration,
    pub impatient_deadline: Duration,
    pub tails: u32,
    /// Load, at least.
    pub duration: Duration,
    pub rounds: u32,
    pub faults: Vec<Kind>,
    pub pause: Duration,
    pub patience: Duration,
    pub limits: Limits,
    /// Where the history is kept.
    pub history: Option<PathBuf>,
}

/// The clients at work, and what ends them.
struct Clients {
    producers: Vec<JoinHandle<produce::Produced>>,
    tails: Vec<JoinHandle<follow::Followed>>,
    askers: Vec<JoinHandle<ask::Asked<seam_history::Query>>>,
    chains: JoinHandle<ask::Asked<seam_history::Chain>>,
    stop_producers: watch::Sender<bool>,
    stop_asking: watch::Sender<bool>,
    goal: watch::Sender<Option<Goal>>,
}

/// `dev`: the local cluster that faults are played on; not needed without faults.
pub async fn run<T: Observed>(
    target: &Arc<T>,
    settings: &VerifySettings,
    clock: Clock,
    dev: Option<Dev>,
    environment: Environment,
) -> Result<Report, CommandError> {
    let topic = &settings.topic;
    let create = CommandError::target(format!("creating topic {topic}"));
    target.create_topic(topic, &settings.spec).await.map_err(create)?;
    let live = Arc::new(Live::new(settings.tails as usize));
    let clients = start(target, settings, clock, &live).await?;
    let steps = settings.faults.len() as u64 * u64::from(settings.rounds);
    let progress = Progress::new(steps.max(1));
    let mut rolls = Rolls::default();
    let director = dev.map(|dev| Director {
        target: Arc::clone(target),
        dev,
        topic: topic.clone(),
        clock,
        live: Arc::clone(&live),
        patience: settings.patience,
        pause: settings.pause,
    });
    let begun_us = clock.now_us();
    let played = tokio::select! {
        played = play(settings, director.as_ref(), &live, &progress) => played,
        () = keep_history(&**target, topic, &mut rolls, &live, &progress) => unreachable!("it goes on for ever"),
    };
    let least = Duration::from_micros(begun_us) + settings.duration;
    tokio::select! {
        () = tokio::time::sleep_until(clock.at(u64::try_from(least.as_micros()).unwrap_or(u64::MAX)).into()) => {}
        () = keep_history(&**target, topic, &mut rolls, &live, &progress) => {}
    }
    progress.say("more rolls".to_owned());
    await_rolls(&**target, topic, &mut rolls, settings).await;
    progress.say("reading everything back".to_owned());
    let (mut history, errors, unanswered) = finish(&**target, settings, clock, clients).await;
    let what = format!("reading the rolls of {topic}");
    rolls.settle(&**target, topic).await.map_err(CommandError::target(what))?;
    history.faults = played.iter().map(span).collect();
    keep(settings, &history)?;
    progress.say("judging".to_owned());
    let ran = Ran { settings, history: &history, played: &played, rolls: &rolls, errors: &errors, unanswered };
    Ok(verify_report::report(&ran, environment, clock))
}

async fn start<T: Observed>(
    target: &Arc<T>,
    settings: &VerifySettings,
    clock: Clock,
    live: &Arc<Live>,
) -> Result<Clients, CommandError> {
    let topic = &settings.topic;
    let (stop_producers, stop_asking) = (watch::Sender::new(false), watch::Sender::new(false));
    let goal = watch::Sender::new(None);
    let maker = Arc::new(RecordMaker::new(settings.record_bytes as usize));
    let mut producers = Vec::new();
    for client in 1..=settings.producers {
        let patient = client > settings.impatient;
        let deadline = if patient { settings.deadline } else { settings.impatient_deadline };
        let open = CommandError::target(format!("opening a producer of {topic}"));
        let producer = target.hurried(topic, deadline).await.map_err(open)?;
        let rate_per_s = settings.rate_per_s as f64 / f64::from(settings.producers);
        let plan = produce::Plan { client, rate_per_s, deadline, patient };
        let (maker, live, stop) = (Arc::clone(&maker), Arc::clone(live), stop_producers.subscribe());
        producers.push(tokio::spawn(produce::run(clock, producer, plan, maker, live, stop)));
    }
    let tails = (0..settings.tails).map(|index| {
        // The first stays, the others come and go.
        let restless = (index > 0).then_some(RESTLESS * index);
        let plan = follow::Plan { client: index + 1, index: index as usize, restless };
        let (target, live) = (Arc::clone(target), Arc::clone(live));
        tokio::spawn(follow::run(target, topic.clone(), clock, plan, live, goal.subscribe()))
    });
    let askers = (1..=ASKERS).map(|client| {
        tokio::spawn(ask::ends(Arc::clone(target), topic.clone(), clock, client, stop_asking.subscribe()))
    });
    let chains = tokio::spawn(ask::chains(Arc::clone(target), topic.clone(), clock, stop_asking.subscribe()));
    let (tails, askers) = (tails.collect(), askers.collect());
    Ok(Clients { producers, tails, askers, chains, stop_producers, stop_asking, goal })
}

async fn play<T: Observed>(
    settings: &VerifySettings,
    director: Option<&Director<T>>,
    live: &Live,
    progress: &Progress,
) -> Vec<Played> {
    let mut all = Vec::new();
    let Some(director) = director else { return all };
    until(settings.patience, || live.acked.load(Ordering::Relaxed) > 0).await;
    for round in 1..=settings.rounds {
        for kind in &settings.faults {
            // Not always at the same place between two rolls.
            tokio::time::sleep(BETWEEN_FAULTS + Duration::from_millis(rand::random::<u64>() % 700)).await;
            progress.say(format!("{kind}, round {round} of {}", settings.rounds));
            let played = director.play(*kind).await;
            let broken = !played.failures.is_empty() && played.whole_us.is_none();
            all.push(played);
            progress.step(1);
            if broken {
                // Nothing that follows would say anything.
                return all;
            }
        }
    }
    all
}

/// Goes on until it is dropped.
async fn keep_history<T: Observed>(target: &T, topic: &str, rolls: &mut Rolls, live: &Live, progress: &Progress) {
    loop {
        if let Err(error) = rolls.update(target, topic).await {
            tracing::debug!(%error, "the history of rolls could not be read; it is asked for again");
        }
        tracing::debug!("{} acked", live.acked.load(Ordering::Relaxed));
        progress.tick(live.acked.load(Ordering::Relaxed), rolls.between(0, u64::MAX).len());
        tokio::time::sleep(HISTORY_PERIOD).await;
    }
}

/// Loads on until as many rolls as are wanted are recorded, within patience: slow machines need longer than others.
async fn await_rolls<T: Observed>(target: &T, topic: &str, rolls: &mut Rolls, settings: &VerifySettings) {
    let deadline = Instant::now() + settings.patience;
    while (rolls.between(0, u64::MAX).len() as u64) < settings.limits.rolls_min && Instant::now() < deadline {
        if let Err(error) = rolls.update(target, topic).await {
            tracing::debug!(%error, "the history of rolls could not be read; it is asked for again");
        }
        tokio::time::sleep(ROLLS_PERIOD).await;
    }
}

/// The producers first, then those who ask, then the tails up to the end; at last the final read.
async fn finish<T: Observed>(
    target: &T,
    settings: &VerifySettings,
    clock: Clock,
    clients: Clients,
) -> (History, Errors, u64) {
    let topic = &settings.topic;
    let (mut history, mut errors, mut unanswered) = (History::default(), Errors::default(), 0);
    clients.stop_producers.send_replace(true);
    for producer in clients.producers {
        let produced = producer.await.expect("a producer does not panic");
        history.sessions.push(produced.session);
        errors.merge(produced.errors);
    }
    clients.stop_asking.send_replace(true);
    for asker in clients.askers {
        let asked = asker.await.expect("an asker does not panic");
        history.queries.extend(asked.answers);
        unanswered += asked.unanswered;
    }
    let told = clients.chains.await.expect("an asker does not panic");
    (history.chains, unanswered) = (told.answers, unanswered + told.unanswered);
    match ask::chain_once(target, topic, clock).await {
        Ok(chain) => history.chains.push(chain),
        Err(error) => errors.add(format!("the chain at the end: {error}")),
    }
    let acked = history.sessions.iter().flat_map(|session| &session.appends).filter_map(|append| append.acked());
    let mut end = acked.max().map_or(0, |last| last + 1);
    let mut start = 0;
    match ask::end_once(target, topic, clock, 0).await {
        Ok(query) => {
            (start, end) = (query.earliest, end.max(query.latest));
            history.queries.push(query);
        }
        Err(error) => errors.add(format!("the end of the range, at the end: {error}")),
    }
    clients.goal.send_replace(Some(Goal { end, by: tokio::time::Instant::now() + settings.patience }));
    for tail in clients.tails {
        let followed = tail.await.expect("a tail does not panic");
        history.tails.push(followed.tail);
        errors.merge(followed.errors);
        unanswered += followed.unopened;
    }
    history.final_read = read_back::run(target, topic, clock, (start, end), settings.patience, &mut errors).await;
    (history, errors, unanswered)
}

fn span(played: &Played) -> Fault {
    let from_us = played.signal.sent_us;
    Fault { kind: played.kind.name().to_owned(), from_us, until_us: played.whole_us.unwrap_or(u64::MAX) }
}

fn keep(settings: &VerifySettings, history: &History) -> Result<(), CommandError> {
    let Some(path) = &settings.history else { return Ok(()) };
    let what = path.display().to_string();
    let file = std::fs::File::create(path).map_err(CommandError::file(what.clone()))?;
    let written = serde_json::to_writer(std::io::BufWriter::new(file), history);
    written.map_err(|error| CommandError::file(what)(error.into()))
}
