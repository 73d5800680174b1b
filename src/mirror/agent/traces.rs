//! The last calls to both clusters, for the page `/debug`. Contains methods, statuses and times of calls, no contents.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::time::Duration;

use http::Method;
use jiff::Timestamp;
use parking_lot::Mutex;

/// The number of calls of a kind that are kept, and of failed ones.
const KEPT: usize = 10;
/// The bounds of the durations that calls are sorted by.
const BOUNDS: [Duration; 6] = [
    Duration::from_millis(1),
    Duration::from_millis(10),
    Duration::from_millis(100),
    Duration::from_secs(1),
    Duration::from_secs(10),
    Duration::from_secs(100),
];

/// The cluster of a call, with cr-syncer's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    Local,
    Remote,
}

impl Location {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Remote => "remote",
        }
    }
}

/// The recorded calls.
#[derive(Default)]
pub struct Traces {
    kinds: Mutex<BTreeMap<(&'static str, String), Kind>>,
}

#[derive(Default)]
struct Kind {
    counts: [u64; BOUNDS.len() + 1],
    failures: u64,
    last: VecDeque<Trace>,
    failed: VecDeque<Trace>,
}

#[derive(Clone)]
struct Trace {
    began: Timestamp,
    took: Duration,
    code: Option<u16>,
}

impl Trace {
    fn has_failed(&self) -> bool {
        self.code.is_none_or(|code| code >= 400)
    }
}

impl Traces {
    pub fn note(&self, location: Location, call: &Method, code: Option<u16>, took: Duration) {
        let began = Timestamp::now();
        let began = began.checked_sub(took).unwrap_or(began);
        let trace = Trace { began, took, code };
        let mut kinds = self.kinds.lock();
        let key = (location.as_str(), call.to_string());
        let kind = kinds.entry(key).or_default();
        let bucket = BOUNDS.iter().position(|bound| took <= *bound);
        kind.counts[bucket.unwrap_or(BOUNDS.len())] += 1;
        if trace.has_failed() {
            kind.failures += 1;
            keep(&mut kind.failed, trace.clone());
        }
        keep(&mut kind.last, trace);
    }

    /// The page. Everything on it is a number or a fixed word: nothing has to be escaped.
    pub fn page(&self) -> String {
        let mut out = String::from(
            "<!DOCTYPE html>\n<html><head><title>hawser mirror</title></head><body>\n\
             <h1>Calls to both clusters</h1>\n<table border=\"1\">\n<tr><th>call</th>",
        );
        // Writing to a text does not fail.
        for bound in BOUNDS {
            let _ = write!(out, "<th>&le; {bound:?}</th>");
        }
        out.push_str("<th>longer</th><th>failed</th></tr>\n");
        let kinds = self.kinds.lock();
        for ((location, method), kind) in &*kinds {
            let _ = write!(out, "<tr><td>{location} {method}</td>");
            for count in kind.counts.iter().chain([&kind.failures]) {
                let _ = write!(out, "<td>{count}</td>");
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</table>\n");
        for ((location, method), kind) in &*kinds {
            for (what, traces) in [("last", &kind.last), ("last failed", &kind.failed)] {
                if traces.is_empty() {
                    continue;
                }
                let _ = writeln!(out, "<h2>{location} {method}, the {what}</h2>\n<pre>");
                for Trace { began, took, code } in traces {
                    let code = code.map_or("no answer".to_owned(), |code| code.to_string());
                    let _ = writeln!(out, "{began}  {took:>12.3?}  {code}");
                }
                out.push_str("</pre>\n");
            }
        }
        out.push_str("</body></html>\n");
        out
    }
}

fn keep(traces: &mut VecDeque<Trace>, trace: Trace) {
    traces.truncate(KEPT - 1);
    traces.push_front(trace);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_calls_are_shown_and_those_that_failed_for_longer() {
        let traces = Traces::default();
        let millis = Duration::from_millis;
        traces.note(Location::Remote, &Method::PUT, Some(409), millis(5));
        traces.note(Location::Remote, &Method::PUT, None, millis(200_000));
        for _ in 0..2 * KEPT {
            traces.note(Location::Remote, &Method::PUT, Some(200), millis(50));
        }
        let page = traces.page();
        let row = "<tr><td>remote PUT</td><td>0</td><td>1</td><td>20</td><td>0</td><td>0</td><td>0</td>\
                   <td>1</td><td>2</td></tr>";
        assert!(page.contains(row), "{page}");
        assert_eq!(page.matches("  200\n").count(), KEPT);
        assert_eq!(page.matches("  409\n").count(), 1);
        assert_eq!(page.matches("  no answer\n").count(), 1);
    }
}
