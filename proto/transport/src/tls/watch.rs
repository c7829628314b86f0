//! Notices new certificate, key and CA files and takes them, with no restart. Old ones stay when the new ones are no good:
//! loudly, and counted.
//!
//! Whoever replaces the files need not do it at once: they are taken when they were the same at two looks in a row.

use super::{Check, Files, Loaded, TlsError, TlsMaterial, TlsPaths};
use crate::metrics::Registry;
use arc_swap::ArcSwap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How often the files are looked at. New ones hold after two looks.
pub const LOOK_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
struct Counts {
    reloads: AtomicU64,
    failures: AtomicU64,
}

/// A look-out for new certificates. It ends with the last configuration, endpoint or channel made of the material.
#[derive(Clone)]
pub struct CertWatch {
    tls: TlsMaterial,
    counts: Arc<Counts>,
}

impl CertWatch {
    /// Begins to look at `paths`, from which `tls` was loaded, every [`LOOK_EVERY`]. Must be called inside a tokio runtime.
    pub fn start(tls: &TlsMaterial, paths: &TlsPaths) -> CertWatch {
        CertWatch::start_at(tls, paths, LOOK_EVERY)
    }

    /// The same, at another pace.
    pub fn start_at(tls: &TlsMaterial, paths: &TlsPaths, every: Duration) -> CertWatch {
        let counts = Arc::new(Counts::default());
        let watcher = Watcher {
            loaded: Arc::downgrade(&tls.loaded),
            paths: paths.clone(),
            counts: Arc::clone(&counts),
            last: None,
            complained: None,
        };
        tokio::spawn(watcher.run(every));
        CertWatch { tls: tls.clone(), counts }
    }

    /// Times that new files were taken.
    pub fn reloads(&self) -> u64 {
        self.counts.reloads.load(Ordering::Relaxed)
    }

    /// Times that new files were no good; once for each content.
    pub fn failures(&self) -> u64 {
        self.counts.failures.load(Ordering::Relaxed)
    }

    /// Shows `tls_reloads`, `tls_reload_failures` and `tls_certificate_expires_in_seconds`. Once per registry.
    pub fn show(&self, registry: &Registry) {
        let reloads = registry.counter("tls_reloads", "Times that new certificate files were taken");
        let failures = registry.counter("tls_reload_failures", "Times that new certificate files were no good");
        let left = registry.gauge("tls_certificate_expires_in_seconds", "Until this process's certificate expires");
        let (tls, counts) = (self.tls.clone(), Arc::clone(&self.counts));
        registry.on_scrape(move || {
            reloads.inc_by(counts.reloads.load(Ordering::Relaxed).saturating_sub(reloads.get()));
            failures.inc_by(counts.failures.load(Ordering::Relaxed).saturating_sub(failures.get()));
            left.set(tls.expires_at() - unix_seconds());
        });
    }
}

fn unix_seconds() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// What a look found: the files, or why they cannot be read.
type Found = Result<Files, String>;

struct Watcher {
    loaded: Weak<ArcSwap<Loaded>>,
    paths: TlsPaths,
    counts: Arc<Counts>,
    last: Option<Found>,
    /// What was complained about: said once.
    complained: Option<Found>,
}

impl Watcher {
    async fn run(mut self, every: Duration) {
        let mut looks = tokio::time::interval(every);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            if self.loaded.strong_count() == 0 {
                return;
            }
            let paths = self.paths.clone();
            // The files are small, and may lie on a slow disk all the same.
            let read = tokio::task::spawn_blocking(move || Files::read(&paths)).await;
            match read {
                Ok(found) => self.look(found),
                Err(stopping) if stopping.is_cancelled() => return,
                Err(panic) => std::panic::resume_unwind(panic.into_panic()),
            }
        }
    }

    fn look(&mut self, found: Result<Files, TlsError>) {
        let found: Found = found.map_err(|error| error.to_string());
        let Some(loaded) = self.loaded.upgrade() else { return };
        if found.as_ref().is_ok_and(|files| *files == loaded.load().files) {
            self.last = None;
            self.complained = None;
            return;
        }
        // Still being written, perhaps.
        let settled = self.last.as_ref() == Some(&found);
        self.last = Some(found.clone());
        if !settled {
            return;
        }
        let taken = match &found {
            Ok(files) => Loaded::make(&self.paths, files.clone(), Check::Trust)
                .map(|fresh| loaded.store(Arc::new(fresh)))
                .map_err(|error| error.to_string()),
            Err(why) => Err(why.clone()),
        };
        let days = (loaded.load().expires_at - unix_seconds()) / 86_400;
        match taken {
            Ok(()) => {
                self.counts.reloads.fetch_add(1, Ordering::Relaxed);
                tracing::info!(cert = %self.paths.cert.display(), days, "new certificates hold for new connections");
            }
            // Tried at each look, since what is not valid yet may become it; told once.
            Err(why) if self.complained.as_ref() != Some(&found) => {
                self.complained = Some(found);
                self.counts.failures.fetch_add(1, Ordering::Relaxed);
                tracing::error!(%why, days, "the new certificates are not taken; the old ones stay, for so many days at most");
            }
            Err(_) => {}
        }
    }
}
