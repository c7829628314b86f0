//! A process's metrics. Asking twice for one name gives the same metric, so that a restarted part goes on counting.

use parking_lot::Mutex;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

type Labels = Vec<(String, String)>;
type OnScrape = Box<dyn Fn() + Send + Sync>;

/// A gauge for fractions and seconds.
pub type FloatGauge = Gauge<f64, AtomicU64>;

#[derive(Clone, Debug)]
struct Buckets(Vec<f64>);

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}

enum Known {
    Counter(Family<Labels, Counter>),
    Gauge(Family<Labels, Gauge>),
    FloatGauge(Family<Labels, FloatGauge>),
    Histogram(Family<Labels, Histogram, Buckets>),
}

struct Inner {
    registry: prometheus_client::registry::Registry,
    known: BTreeMap<String, Known>,
}

/// The metrics of a process. Clones share one state.
#[derive(Clone)]
pub struct Registry {
    inner: Arc<Mutex<Inner>>,
    on_scrape: Arc<Mutex<Vec<OnScrape>>>,
}

macro_rules! metric {
    ($(#[$doc:meta])* $name:ident, $with:ident, $kind:ident, $metric:ty) => {
        $(#[$doc])*
        ///
        /// # Panics
        /// If the name is taken by a metric of another kind: a mistake in the program.
        pub fn $name(&self, name: &str, help: &str) -> $metric {
            self.$with(name, help, &[])
        }

        /// The same, one per label values. Keep the values few.
        pub fn $with(&self, name: &str, help: &str, labels: &[(&str, &str)]) -> $metric {
            let mut inner = self.inner.lock();
            let Inner { registry, known } = &mut *inner;
            let known = known.entry(name.to_owned()).or_insert_with(|| {
                let family = Family::default();
                registry.register(name, help, Family::clone(&family));
                Known::$kind(family)
            });
            let Known::$kind(family) = known else {
                panic!("metric {name} is registered as another kind");
            };
            family.get_or_create_owned(&owned(labels))
        }
    };
}

impl Registry {
    /// An empty registry; every name is given `prefix` and an underscore (`seam_segd` makes `seam_segd_appends_total`).
    pub fn new(prefix: &str) -> Registry {
        let registry = prometheus_client::registry::Registry::with_prefix(prefix);
        Registry { inner: Arc::new(Mutex::new(Inner { registry, known: BTreeMap::new() })), on_scrape: Arc::default() }
    }

    metric! {
        /// A number that only grows. Shown as `<name>_total`.
        counter, counter_with, Counter, Counter
    }
    metric! {
        /// A whole number that goes up and down.
        gauge, gauge_with, Gauge, Gauge
    }
    metric! {
        /// A fraction that goes up and down.
        float_gauge, float_gauge_with, FloatGauge, FloatGauge
    }

    /// A distribution over the upper bounds `buckets`, ascending. The first caller of a name fixes its buckets.
    pub fn histogram(&self, name: &str, help: &str, buckets: &[f64]) -> Histogram {
        self.histogram_with(name, help, buckets, &[])
    }

    /// The same, one per label values.
    ///
    /// # Panics
    /// If the name is taken by a metric of another kind: a mistake in the program.
    pub fn histogram_with(&self, name: &str, help: &str, buckets: &[f64], labels: &[(&str, &str)]) -> Histogram {
        let mut inner = self.inner.lock();
        let Inner { registry, known } = &mut *inner;
        let known = known.entry(name.to_owned()).or_insert_with(|| {
            let family = Family::new_with_constructor(Buckets(buckets.to_vec()));
            registry.register(name, help, family.clone());
            Known::Histogram(family)
        });
        let Known::Histogram(family) = known else {
            panic!("metric {name} is registered as another kind");
        };
        family.get_or_create_owned(&owned(labels))
    }

    /// Runs `refresh` before each `/metrics`: the place to set gauges from state that is costly to follow. It must not
    /// block.
    pub fn on_scrape(&self, refresh: impl Fn() + Send + Sync + 'static) {
        self.on_scrape.lock().push(Box::new(refresh));
    }

    /// All metrics in the OpenMetrics text format.
    pub fn render(&self) -> String {
        for refresh in self.on_scrape.lock().iter() {
            refresh();
        }
        let mut text = String::new();
        encode(&mut text, &self.inner.lock().registry).expect("writing to a String does not fail");
        text
    }
}

fn owned(labels: &[(&str, &str)]) -> Labels {
    labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_asked_twice_is_one_metric() {
        let registry = Registry::new("seam_test");
        registry.counter("appends", "Appends acked").inc_by(2);
        registry.counter("appends", "Appends acked").inc();
        registry.counter_with("errors", "Errors sent", &[("code", "fenced")]).inc();
        registry.histogram("roll_seconds", "Rolls", &[0.1, 1.0]).observe(0.5);
        let depth = registry.gauge("depth", "Queue depth");
        registry.on_scrape(move || {
            depth.set(7);
        });
        let text = registry.render();
        for line in [
            "seam_test_appends_total 3",
            "seam_test_errors_total{code=\"fenced\"} 1",
            "seam_test_depth 7",
            "seam_test_roll_seconds_bucket{le=\"1.0\"} 1",
        ] {
            assert!(text.lines().any(|have| have == line), "no line {line:?} in\n{text}");
        }
        assert_eq!(text.matches("# HELP seam_test_appends ").count(), 1, "{text}");
    }
}
