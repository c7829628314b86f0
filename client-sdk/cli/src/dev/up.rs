//! `seam dev up`: plan, certify, configure, start in order, wait until all is ready, say what to try. If anything fails,
//! the failing log's end is shown and nothing is left running.

use super::cluster::{Cluster, Counts, Role};
use super::config;
use super::daemon::{State, service_program};
use super::down::stop_all;
use super::layout::{Layout, write_atomically};
use super::ready::{self, Progress};
use super::relay::RTT_MS_MAX;
use super::{Dir, every_daemon, ports};
use crate::output::Out;
use crate::units;
use anyhow::{Result, bail};
use clap::Args;
use std::time::Duration;

const DEFAULT: Counts = Counts { metad: 3, segd: 5, router: 2 };
const DEFAULT_DOMAINS: u32 = 3;
const EXAMPLES: &str = "\
Examples:
  seam dev up                              3 metad, 5 segd over 3 failure domains, 2 routers, in ./.seam
  seam dev up --metad-rtt 20ms             metad looks 20 ms away, from its members and from everybody
  seam dev up --metad 1 --segd 3 --router 1 --dir small

A directory with a stopped cluster is started again, with its data.";

/// Start a cluster and return once it is ready.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Up {
    /// metad members, an odd number [default: 3].
    #[arg(long, value_name = "N")]
    metad: Option<u32>,
    /// segd nodes [default: 5].
    #[arg(long, value_name = "N")]
    segd: Option<u32>,
    /// Routers [default: 2].
    #[arg(long, value_name = "N")]
    router: Option<u32>,
    /// Failure domains that the segd nodes are spread over [default: 3].
    #[arg(long, value_name = "N")]
    domains: Option<u32>,
    /// Round trip added to every link of metad, e.g. 20ms; `seam dev rtt` changes it later [default: 0].
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration, allow_hyphen_values = true)]
    metad_rtt: Option<Duration>,
    /// Segment size in the first steps that are suggested; small ones make rolls easy to see.
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes, default_value = "4MiB")]
    segment_bytes_hint: u64,
    /// How long everything may take to be ready.
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration, default_value = "60s", allow_hyphen_values = true)]
    timeout: Duration,
    #[command(flatten)]
    dir: Dir,
}

impl Up {
    /// # Errors
    /// The cluster runs already, a program or port is missing, or it is not ready in time.
    pub async fn run(self, out: &mut Out) -> Result<()> {
        let layout = self.dir.layout()?;
        for role in [Role::Metad, Role::Segd, Role::Router] {
            service_program(role)?;
        }
        check_rtt(self.metad_rtt.unwrap_or_default())?;
        // What is refused leaves nothing behind: it is planned before anything is made.
        let planned = if layout.exists() { None } else { Some(self.plan()?) };
        layout.create()?;
        let lock = layout.lock()?;
        let cluster = self.find_or_save(&layout, planned)?;
        ports::must_be_free(cluster.nodes.iter().flat_map(super::cluster::Node::addresses))?;
        write_rtt(&layout, self.metad_rtt.unwrap_or_default())?;
        config::write_services(&layout, &cluster)?;

        let progress = Progress::new();
        if let Err(error) = self.start(&layout, &cluster, &progress).await {
            progress.say("stopping what was started");
            // The first failure is the one to tell; what is left behind, if anything, comes with it.
            return Err(match stop_all(&layout, &cluster) {
                Ok(_) => error,
                Err(left) => error.context(format!("{left:#}")),
            });
        }
        drop(lock);
        self.tell(&layout, &cluster, &progress, out)
    }

    async fn start(&self, layout: &Layout, cluster: &Cluster, progress: &Progress) -> Result<()> {
        let interrupted = crate::interrupt::interrupted()?;
        let work = async {
            for daemon in every_daemon(layout, cluster) {
                daemon.start()?;
            }
            ready::await_all(layout, cluster, self.timeout, progress).await?;
            config::write_client(layout, cluster)
        };
        tokio::select! {
            done = work => done,
            stopped = interrupted => Err(stopped.into()),
        }
    }

    fn plan(&self) -> Result<Cluster> {
        let counts = Counts {
            metad: self.metad.unwrap_or(DEFAULT.metad),
            segd: self.segd.unwrap_or(DEFAULT.segd),
            router: self.router.unwrap_or(DEFAULT.router),
        };
        Cluster::plan(counts, self.domains.unwrap_or(DEFAULT_DOMAINS))
    }

    /// The stopped cluster the directory holds, or the new one. Its size is part of it: flags that contradict it are refused.
    fn find_or_save(&self, layout: &Layout, planned: Option<Cluster>) -> Result<Cluster> {
        // Made by another command meanwhile, it counts and not the plan.
        if let Some(planned) = planned.filter(|_| !layout.exists()) {
            planned.save(layout)?;
            return Ok(planned);
        }
        let cluster = Cluster::load(layout)?;
        refuse_if_running(layout, &cluster)?;
        let count = |role| u32::try_from(cluster.of(role).count()).unwrap_or(u32::MAX);
        for (flag, asked, there) in [
            ("--metad", self.metad, count(Role::Metad)),
            ("--segd", self.segd, count(Role::Segd)),
            ("--router", self.router, count(Role::Router)),
            ("--domains", self.domains, cluster.domains),
        ] {
            if asked.is_some_and(|asked| asked != there) {
                bail!(
                    "{} holds a stopped cluster made with {flag} {there}: start it without {flag} (then `seam dev scale`), \
                     give another --dir, or begin anew with `seam dev down --wipe`",
                    layout.root().display()
                );
            }
        }
        Ok(cluster)
    }

    fn tell(&self, layout: &Layout, cluster: &Cluster, progress: &Progress, out: &mut Out) -> Result<()> {
        let seconds = progress.elapsed().as_secs_f64();
        let client = layout.client_file();
        if out.is_json() {
            return out.json(&serde_json::json!({
                "dir": layout.root(), "config": client, "ready_s": seconds, "processes": cluster.process_names(),
            }));
        }
        out.line(format!("ready after {seconds:.1} s; settings for clients: {}", client.display()))?;
        out.line("next:")?;
        let usual = std::path::absolute(crate::args::DEFAULT_CONFIG)
            .is_ok_and(|path| path == std::path::absolute(&client).unwrap_or_default());
        if !usual {
            out.line(format!("  export SEAM_CONFIG={}", client.display()))?;
        }
        let size = units::bytes(self.segment_bytes_hint);
        for (command, what) in [
            (format!("seam topic create events --segment-bytes {size}"), "small segments, so that rolls are seen"),
            ("seq 1000000 | seam produce events".to_owned(), "one record a line"),
            ("seam topic describe events".to_owned(), "the chain of segments"),
            ("seam consume events --from earliest --count 5".to_owned(), ""),
            ("loadgen roll --json roll.json --html roll.html".to_owned(), "is a roll felt?"),
            (down_command(layout), "stop; --wipe removes everything"),
        ] {
            let comment = if what.is_empty() { String::new() } else { format!("# {what}") };
            out.line(format!("  {command:<52} {comment}").trim_end())?;
        }
        Ok(())
    }
}

fn down_command(layout: &Layout) -> String {
    let usual = std::path::absolute(".seam").is_ok_and(|path| path == layout.root());
    if usual { "seam dev down".to_owned() } else { format!("seam dev down --dir {}", layout.root().display()) }
}

fn refuse_if_running(layout: &Layout, cluster: &Cluster) -> Result<()> {
    for daemon in every_daemon(layout, cluster) {
        match daemon.state()? {
            State::Stopped | State::Crashed => {}
            State::Running | State::Paused => bail!(
                "a cluster runs in {} ({} is {}): use it, change its size with `seam dev scale`, stop it with \
                 `seam dev down`, or give another --dir",
                layout.root().display(),
                daemon.name,
                daemon.state()?
            ),
        }
    }
    Ok(())
}

/// `seam dev rtt`: the relay takes it within its next look at the file.
///
/// # Errors
/// The directory holds no cluster, or the round trip is out of bounds.
pub fn set_rtt(layout: &Layout, rtt: Duration, out: &mut Out) -> Result<()> {
    Cluster::load(layout)?;
    write_rtt(layout, rtt)?;
    if out.is_json() {
        return out.json(&serde_json::json!({ "metad_rtt_ms": rtt.as_millis() }));
    }
    out.line(format!("metad is now {} ms away", rtt.as_millis()))
}

fn check_rtt(rtt: Duration) -> Result<()> {
    if rtt.as_millis() > u128::from(RTT_MS_MAX) {
        bail!("a round trip of {} ms is more than {RTT_MS_MAX} ms", rtt.as_millis());
    }
    Ok(())
}

fn write_rtt(layout: &Layout, rtt: Duration) -> Result<()> {
    check_rtt(rtt)?;
    write_atomically(&layout.rtt_file(), &format!("{}\n", rtt.as_millis()))
}
