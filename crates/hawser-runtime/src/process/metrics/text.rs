//! Numbers that are counted by many and read by few, and how they are written down (text format 0.0.4).
//!
//! Knows no metric by name. A family holds one number for each set of label values that was ever used; those are
//! few, so they are found by comparing, without a lock that writers wait for.

use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

/// Sets of label values beyond this many share one that says so. Nothing should come near.
const MOST_SERIES: usize = 2000;

/// What is said instead of a label's value once there are too many.
const TOO_MANY: &str = "other";

/// What a metric is called.
#[derive(Clone, Copy, Debug)]
pub struct Name {
    pub text: &'static str,
    pub help: &'static str,
    pub labels: &'static [&'static str],
}

/// What can be counted and written.
pub trait Number {
    /// Starts at zero.
    fn new(name: &Name) -> Self;
    const TYPE: &'static str;
    fn write(&self, out: &mut String, name: &Name, values: &[String]) -> fmt::Result;
}

/// Only ever grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

/// A number as it is now.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

/// How often a duration was how long.
#[derive(Debug)]
pub struct Histogram {
    /// Not summed up; the last one is what is beyond all bounds.
    buckets: [AtomicU64; BOUNDS.len() + 1],
    nanoseconds: AtomicU64,
}

/// Seconds; from a hop in a data centre to what nobody waits for.
pub(crate) const BOUNDS: [f64; 14] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 30.0, 300.0,
];

/// One metric with all sets of values of its labels.
pub struct Family<N> {
    name: Name,
    series: RwLock<Vec<(Vec<String>, Arc<N>)>>,
}

// === impl Family ===

impl<N: Number> Family<N> {
    pub fn new(name: Name) -> Self {
        let family = Self {
            name,
            series: RwLock::default(),
        };
        if name.labels.is_empty() {
            family.of(&[]);
        }
        family
    }

    /// The number with these values of the labels, in their order.
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

    /// Forgets the number with these values.
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
    pub fn observe(&self, took: std::time::Duration) {
        let seconds = took.as_secs_f64();
        let bucket = BOUNDS.iter().position(|bound| seconds <= *bound);
        self.buckets[bucket.unwrap_or(BOUNDS.len())].fetch_add(1, Ordering::Relaxed);
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }
}

impl Number for Histogram {
    const TYPE: &'static str = "histogram";

    fn new(_: &Name) -> Self {
        Self {
            buckets: Default::default(),
            nanoseconds: AtomicU64::new(0),
        }
    }

    fn write(&self, out: &mut String, name: &Name, values: &[String]) -> fmt::Result {
        let mut count = 0;
        for (index, bucket) in self.buckets.iter().enumerate() {
            count += bucket.load(Ordering::Relaxed);
            let bound = BOUNDS.get(index).map_or("+Inf".to_owned(), f64::to_string);
            let labels = Labels(name.labels, values, Some(&bound));
            writeln!(out, "{}_bucket{labels} {count}", name.text)?;
        }
        let labels = Labels(name.labels, values, None);
        let sum = std::time::Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed));
        writeln!(out, "{}_sum{labels} {}", name.text, sum.as_secs_f64())?;
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
