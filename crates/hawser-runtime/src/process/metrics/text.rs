//! Metrics that many tasks update and few read, and their text format (0.0.4).
//!
//! Knows no metric by name. A family has one number for each set of label values that was ever used. There are few of
//! them, so they are found by comparison, without a lock that writers wait for.

use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

/// Beyond this number, sets of label values share one. No family should come near.
const MOST_SERIES: usize = 2000;

/// The label value of the shared set.
const TOO_MANY: &str = "other";

/// The name of a metric.
#[derive(Clone, Copy, Debug)]
pub struct Name {
    pub text: &'static str,
    pub help: &'static str,
    pub labels: &'static [&'static str],
    /// The bounds of the buckets of a histogram, ascending.
    pub bounds: &'static [f64],
}

impl Name {
    /// The name of a metric whose buckets, if it has any, are durations.
    pub const fn new(
        text: &'static str,
        help: &'static str,
        labels: &'static [&'static str],
    ) -> Self {
        Self {
            text,
            help,
            labels,
            bounds: SECONDS,
        }
    }
}

/// A value that can be updated and written.
pub trait Number {
    /// Starts at zero.
    fn new(name: &Name) -> Self;
    const TYPE: &'static str;
    fn write(&self, out: &mut String, name: &Name, values: &[String]) -> fmt::Result;
}

/// A counter.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

/// A gauge.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

/// A histogram.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [f64],
    /// Not cumulative; the last bucket is beyond all bounds.
    buckets: Box<[AtomicU64]>,
    sum: AtomicU64,
}

/// Bounds in seconds, from a hop within a data centre to an unacceptable wait.
pub const SECONDS: &[f64] = &[
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 30.0, 300.0,
];

/// One metric with all sets of values of its labels.
pub struct MetricFamily<N> {
    name: Name,
    series: RwLock<Vec<(Vec<String>, Arc<N>)>>,
}

// === impl Family ===

impl<N: Number> MetricFamily<N> {
    pub fn new(name: Name) -> Self {
        let family = Self::unused(name);
        if name.labels.is_empty() {
            family.of(&[]);
        }
        family
    }

    /// A metric that is not exported before it is used, whatever its labels.
    pub fn unused(name: Name) -> Self {
        Self {
            name,
            series: RwLock::default(),
        }
    }

    /// The number with these label values, in the order of the labels.
    pub fn of(&self, values: &[&str]) -> Arc<N> {
        debug_assert_eq!(values.len(), self.name.labels.len(), "{}", self.name.text);
        if let Some(known) = find(&self.series.read(), values) {
            return known;
        }
        let mut series = self.series.write();
        let others = vec![TOO_MANY; values.len()];
        let values = if series.len() < MOST_SERIES {
            values
        } else {
            &others
        };
        if let Some(known) = find(&series, values) {
            return known;
        }
        let number = Arc::new(N::new(&self.name));
        let values = values.iter().map(|&value| value.to_owned()).collect();
        series.push((values, Arc::clone(&number)));
        number
    }

    /// Removes the number with these label values.
    pub fn remove(&self, values: &[&str]) {
        self.series.write().retain(|(known, _)| known != values);
    }

    pub fn write(&self, out: &mut String) -> fmt::Result {
        let Name {
            text: name, help, ..
        } = self.name;
        let mut series = self.series.read().clone();
        if series.is_empty() {
            return Ok(());
        }
        series.sort_by(|(a, _), (b, _)| a.cmp(b));
        writeln!(out, "# HELP {name} {help}\n# TYPE {name} {}", N::TYPE)?;
        for (values, number) in series {
            number.write(out, &self.name, &values)?;
        }
        Ok(())
    }
}

fn find<N>(series: &[(Vec<String>, Arc<N>)], values: &[&str]) -> Option<Arc<N>> {
    let (_, number) = series.iter().find(|(known, _)| known == values)?;
    Some(Arc::clone(number))
}

// === impl Counter ===

impl Counter {
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// Sets a count that is kept elsewhere.
    pub fn reach(&self, count: u64) {
        self.0.fetch_max(count, Ordering::Relaxed);
    }
}

impl Number for Counter {
    const TYPE: &'static str = "counter";

    fn new(_: &Name) -> Self {
        Self::default()
    }

    fn write(&self, out: &mut String, name: &Name, values: &[String]) -> fmt::Result {
        let number = self.0.load(Ordering::Relaxed);
        writeln!(
            out,
            "{}{} {number}",
            name.text,
            Labels(name.labels, values, None)
        )
    }
}

// === impl Gauge ===

impl Gauge {
    pub fn set(&self, number: f64) {
        self.0.store(number.to_bits(), Ordering::Relaxed);
    }
}

impl Number for Gauge {
    const TYPE: &'static str = "gauge";

    fn new(_: &Name) -> Self {
        Self::default()
    }

    fn write(&self, out: &mut String, name: &Name, values: &[String]) -> fmt::Result {
        let number = f64::from_bits(self.0.load(Ordering::Relaxed));
        writeln!(
            out,
            "{}{} {number}",
            name.text,
            Labels(name.labels, values, None)
        )
    }
}

// === impl Histogram ===

impl Histogram {
    pub fn observe(&self, number: f64) {
        let bucket = self.bounds.partition_point(|bound| *bound < number);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        let add = |sum| Some((f64::from_bits(sum) + number).to_bits());
        // It is always said what to store.
        let _ = self
            .sum
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }
}

impl Number for Histogram {
    const TYPE: &'static str = "histogram";

    fn new(name: &Name) -> Self {
        Self {
            bounds: name.bounds,
            buckets: (0..=name.bounds.len()).map(|_| AtomicU64::new(0)).collect(),
            sum: AtomicU64::new(0),
        }
    }

    fn write(&self, out: &mut String, name: &Name, values: &[String]) -> fmt::Result {
        let mut count = 0;
        for (index, bucket) in self.buckets.iter().enumerate() {
            count += bucket.load(Ordering::Relaxed);
            let bound = self.bounds.get(index);
            let bound = bound.map_or("+Inf".to_owned(), f64::to_string);
            let labels = Labels(name.labels, values, Some(&bound));
            writeln!(out, "{}_bucket{labels} {count}", name.text)?;
        }
        let labels = Labels(name.labels, values, None);
        let sum = f64::from_bits(self.sum.load(Ordering::Relaxed));
        writeln!(out, "{}_sum{labels} {sum}", name.text)?;
        writeln!(out, "{}_count{labels} {count}", name.text)
    }
}

/// Labels with their values, and the bound of a bucket.
struct Labels<'a>(&'a [&'a str], &'a [String], Option<&'a str>);

impl fmt::Display for Labels<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(names, values, bound) = self;
        let mut before = '{';
        let values = values.iter().map(String::as_str);
        let bound = bound.map(|bound| ("le", bound));
        for (name, value) in names.iter().copied().zip(values).chain(bound) {
            write!(f, "{before}{name}=\"")?;
            for char in value.chars() {
                match char {
                    '\\' => f.write_str("\\\\")?,
                    '"' => f.write_str("\\\"")?,
                    '\n' => f.write_str("\\n")?,
                    char => f.write_char(char)?,
                }
            }
            f.write_char('"')?;
            before = ',';
        }
        if before == ',' {
            f.write_char('}')
        } else {
            Ok(())
        }
    }
}
