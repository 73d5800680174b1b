//! The events of the service about an object, and what they still tell.

use std::cmp::Reverse;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::super::events::{COMPONENT, Reason as Told};
use crate::publish::synced::GenerationReport;
use kube_lang::object::Object;

/// The agent repeats the event of a refusal or of a pause every ten minutes, and checks the object more often.
const REPEATED_WITHIN: SignedDuration = SignedDuration::from_mins(15);

/// An event about the object.
pub(super) struct Event<'a> {
    pub(super) reason: Told,
    pub(super) message: &'a str,
    pub(super) first: Timestamp,
    pub(super) last: Timestamp,
    /// What else tells which of two events is later: `last` has whole seconds only.
    tie: LaterBy,
}

/// The version of an event, the time of its creation, and the number of its occurrences.
type LaterBy = (Option<u64>, Option<Timestamp>, Option<u64>);

/// The result of a pass that the service reported last.
pub(super) struct LatestResult<'a> {
    pub(super) reason: Told,
    pub(super) message: &'a str,
    /// The time since which every reported result is the same.
    pub(super) since: Timestamp,
    pub(super) last: Timestamp,
    /// A refusal or a pause that may have ended without an event.
    pub(super) is_outdated: bool,
}

/// The events of the service about an object, the latest first. If nothing tells which is the latest, the worst counts
/// as such.
pub(super) fn about<'a>(object: &Object, events: &'a [Value]) -> Vec<Event<'a>> {
    let own = events.iter().filter(|event| is_own(event, object));
    let mut events: Vec<_> = own.filter_map(Event::read).collect();
    events.sort_by_key(|event| Reverse((event.last, event.tie, event.reason)));
    events
}

fn is_own(event: &Value, object: &Object) -> bool {
    let component = &event["source"]["component"];
    if *component != COMPONENT && event["reportingComponent"] != COMPONENT {
        return false;
    }
    let about = &event["involvedObject"];
    match about["uid"].as_str().filter(|uid| !uid.is_empty()) {
        Some(uid) => object.uid() == Some(uid),
        None => about["kind"] == object.kind() && about["name"] == object.name(),
    }
}

impl<'a> Event<'a> {
    /// An event of an agent; `None` for those of others.
    fn read(event: &'a Value) -> Option<Self> {
        let reason = event["reason"].as_str()?;
        let reason = Told::ALL.into_iter().find(|one| one.as_str() == reason)?;
        let time = |value: &Value| value.as_str()?.parse::<Timestamp>().ok();
        let made =
            || time(&event["eventTime"]).or_else(|| time(&event["metadata"]["creationTimestamp"]));
        let first = time(&event["firstTimestamp"]).or_else(made)?;
        let last = time(&event["series"]["lastObservedTime"])
            .or_else(|| time(&event["lastTimestamp"]))
            .or_else(made)?;
        let version = event["metadata"]["resourceVersion"].as_str();
        let version = version.and_then(|version| version.parse().ok());
        Some(Self {
            reason,
            message: event["message"].as_str().unwrap_or_default(),
            first,
            last,
            tie: (version, made(), event["count"].as_u64()),
        })
    }
}

impl<'a> LatestResult<'a> {
    /// The latest result among these events of an object, which was last changed at this time.
    pub(super) fn among(
        events: &[Event<'a>],
        last_change: Option<Timestamp>,
        now: Timestamp,
    ) -> Option<Self> {
        let mut results = events.iter().filter(|event| event.reason.is_result());
        let newest = results.next()?;
        let is_same =
            |event: &&Event<'_>| (event.reason, event.message) == (newest.reason, newest.message);
        let repeated = results.take_while(is_same).map(|event| event.first);
        let since = repeated.fold(newest.first, Ord::min);
        let is_repeated = matches!(newest.reason, Told::Refused | Told::Paused);
        let is_old = || now.duration_since(newest.last) > REPEATED_WITHIN;
        let was_changed = || last_change.is_some_and(|at| at > newest.last);
        Some(Self {
            reason: newest.reason,
            message: newest.message,
            since,
            last: newest.last,
            is_outdated: is_repeated && (is_old() || was_changed()),
        })
    }

    /// Whether a report has its status since this event. Events have seconds only.
    pub(super) fn is_before(&self, report: &GenerationReport) -> bool {
        let since = report.since.parse::<Timestamp>();
        since.is_ok_and(|since| since >= self.last)
    }

    /// Whether the service still reports this, as far as events tell.
    pub(super) fn is(&self, reason: Told) -> bool {
        self.reason == reason && !self.is_outdated
    }
}
