//! Explains an object to its consumer, from what the workspace shows: the object, the events about it, the bindings.
//!
//! Pure. Whatever could not be read is named, and nothing is concluded from it.

use std::cmp::Reverse;

use jiff::Timestamp;
use serde_json::Value;

use super::events::{COMPONENT, Reason as Told, refusals_in};
use crate::publish::advice::for_consumer;
use crate::publish::marks::FINALIZER;
use crate::publish::pause::{Pause, PauseProblem, WriteDirection};
use crate::publish::synced::GenerationReport;
use hawser_runtime::cluster::connection::FIELD_MANAGER;
use hawser_sync::Code;
use hawser_sync::reason::Class;
use kube_lang::object::Object;

/// What was read in a workspace; an error is why it could not be.
pub struct WorkspaceView {
    pub object: Object,
    /// The plural of its kind.
    pub resource: String,
    /// The namespace of the object; `None` if the object has none.
    pub namespace: Option<Result<Object, String>>,
    /// The events about objects of this name.
    pub events: Result<Vec<Value>, String>,
    pub bindings: Result<Vec<Object>, String>,
}

/// What a consumer may know.
#[derive(Debug, PartialEq, Eq)]
pub struct ConsumerAnswer {
    /// `None` if it cannot be known from the workspace.
    pub in_sync: Option<bool>,
    /// What blocks the object, or why it counts as in sync.
    pub cause: ConsumerFinding,
    /// What else was found, the worst first.
    pub also: Vec<ConsumerFinding>,
    /// What could not be found out.
    pub unknown: Vec<String>,
}

/// One thing that was found.
#[derive(Debug, PartialEq, Eq)]
pub struct ConsumerFinding {
    pub code: &'static str,
    pub class: Class,
    pub text: String,
    pub since: Option<String>,
    /// What the consumer can do.
    pub advice: Option<&'static str>,
    /// What only the provider can do.
    pub provider: Option<&'static str>,
}

/// An event about the object.
struct Event<'a> {
    reason: Told,
    message: &'a str,
    first: String,
    last: String,
    /// The version of the event: times have seconds only.
    version: Option<u64>,
}

impl ConsumerFinding {
    fn new(code: &'static str, class: Class, text: impl Into<String>) -> Self {
        Self {
            code,
            class,
            text: text.into(),
            since: None,
            advice: None,
            provider: None,
        }
    }

    fn of(code: Code, text: impl Into<String>) -> Self {
        let advice = for_consumer(code);
        Self {
            advice: advice.consumer,
            provider: advice.provider,
            ..Self::new(code.as_str(), code.class(), text)
        }
    }

    fn since(self, since: Option<&str>) -> Self {
        let since = since.map(str::to_owned);
        Self { since, ..self }
    }

    fn advice(self, advice: &'static str) -> Self {
        Self {
            advice: Some(advice),
            ..self
        }
    }

    fn provider(self, provider: &'static str) -> Self {
        Self {
            provider: Some(provider),
            ..self
        }
    }
}

impl WorkspaceView {
    /// What a consumer may know of the object.
    pub fn explain(&self, now: Timestamp) -> ConsumerAnswer {
        let events = self.events();
        let latest = events.iter().find(|event| event.reason.is_result());
        let report = GenerationReport::of(&self.object);
        let evidence = self.evidence(latest, report.as_ref());
        let mut found = Vec::new();
        found.extend(self.deletion());
        found.extend(self.unbound());
        found.extend(self.refusals(latest, report.as_ref()));
        let pause = self.pause(latest, now);
        let (holds, pauses) = match pause {
            Some(pause) if evidence.is_none() => (Some(pause), None),
            pause => (None, pause),
        };
        found.extend(holds);
        found.extend(self.acceptance());
        found.extend(self.reported(report.as_ref()));
        let mut also: Vec<_> = pauses.into_iter().collect();
        also.extend(self.notes(&events));
        let (in_sync, cause) = if found.is_empty() {
            match evidence {
                Some(evidence) => (Some(true), evidence),
                None => (None, unreported()),
            }
        } else {
            let cause = found.remove(0);
            let in_sync = match cause.class {
                Class::Settled => Some(true),
                Class::Retry => None,
                Class::Working | Class::Waiting | Class::Refused => Some(false),
            };
            (in_sync, cause)
        };
        found.extend(also);
        ConsumerAnswer {
            in_sync,
            cause,
            also: found,
            unknown: self.unknown(),
        }
    }

    /// The events of the service, the latest first. If nothing tells which is the latest, the worst counts as such.
    fn events(&self) -> Vec<Event<'_>> {
        let all = self.events.as_deref().unwrap_or_default();
        let own = all.iter().filter(|event| self.is_own(event));
        let mut events: Vec<_> = own.filter_map(Event::read).collect();
        events.sort_by_key(|event| Reverse((event.last.clone(), event.version, event.reason)));
        events
    }

    fn is_own(&self, event: &Value) -> bool {
        let component = &event["source"]["component"];
        if *component != COMPONENT && event["reportingComponent"] != COMPONENT {
            return false;
        }
        let about = &event["involvedObject"];
        match about["uid"].as_str().filter(|uid| !uid.is_empty()) {
            Some(uid) => self.object.uid() == Some(uid),
            None => about["kind"] == self.object.kind() && about["name"] == self.object.name(),
        }
    }

    fn field(&self, name: &str) -> Option<&str> {
        self.object.as_value()["metadata"][name].as_str()
    }

    fn generation(&self) -> Option<i64> {
        self.object.as_value()["metadata"]["generation"].as_i64()
    }

    fn deletion(&self) -> Option<ConsumerFinding> {
        if !self.object.in_deletion() {
            return None;
        }
        let since = self.field("deletionTimestamp");
        if self.object.has_finalizer(FINALIZER) {
            let text = "the object is being deleted, and the service has not yet deleted its copy";
            return Some(ConsumerFinding::of(Code::WaitingForDeletion, text).since(since));
        }
        let others: Vec<_> = self.object.finalizers().collect();
        let text = format!(
            "the service has let go of the object; other finalizers keep it: {}",
            others.join(", ")
        );
        let found = ConsumerFinding::of(Code::Gone, text).since(since);
        Some(found.advice("wait for the controllers of these finalizers, or remove the finalizers"))
    }

    /// The refusals that the service reported last, unless it has seen this generation since.
    fn refusals(
        &self,
        latest: Option<&Event<'_>>,
        report: Option<&GenerationReport>,
    ) -> Vec<ConsumerFinding> {
        let Some(event) = latest.filter(|event| event.reason == Told::Refused) else {
            return Vec::new();
        };
        let is_over = |report: &GenerationReport| {
            report.status == "True"
                && Some(report.generation) == self.generation()
                && report.since > event.last
        };
        if report.is_some_and(is_over) {
            return Vec::new();
        }
        let since = Some(&*event.first);
        let mut found: Vec<_> = refusals_in(event.message)
            .into_iter()
            .map(|refusal| {
                let found = ConsumerFinding::of(refusal.code, refusal.sentence).since(since);
                if refusal.needs_claim {
                    let found = ConsumerFinding {
                        provider: None,
                        ..found
                    };
                    return found.advice("accept the permission claim in the APIBinding");
                }
                found
            })
            .collect();
        if found.is_empty() {
            // Another agent words it otherwise.
            let other = ConsumerFinding::new(Told::Refused.as_str(), Class::Refused, event.message);
            let other = other.since(since).advice("do what the message says");
            found.push(other.provider("find the reason in the log of the agent"));
        }
        found
    }

    /// The pause that is in force.
    fn pause(&self, latest: Option<&Event<'_>>, now: Timestamp) -> Option<ConsumerFinding> {
        let in_force = |pause: &Pause| {
            let ways = [WriteDirection::Spec, WriteDirection::Status];
            ways.iter().any(|way| pause.holds(*way, now))
        };
        let of = |object: &Object| Pause::of(object).ok().flatten().filter(in_force);
        let own = of(&self.object).map(|pause| format!("the object is paused {pause}"));
        let bound = || {
            let serving = self.serving().unwrap_or_default();
            serving.into_iter().find_map(|binding| {
                let pause = of(binding)?;
                Some(format!(
                    "the APIBinding {} is paused {pause}",
                    binding.name()
                ))
            })
        };
        if let Some(text) = own.or_else(bound) {
            let found = ConsumerFinding::of(Code::Paused, text);
            return Some(ConsumerFinding {
                provider: None,
                ..found
            });
        }
        let event = latest.filter(|event| event.reason == Told::Paused)?;
        let text = "the service is paused for this object";
        let found = ConsumerFinding::of(Code::Paused, text).since(Some(&event.first));
        Some(ConsumerFinding {
            advice: None,
            ..found
        })
    }

    fn acceptance(&self) -> Option<ConsumerFinding> {
        if self.object.in_deletion() || self.object.has_finalizer(FINALIZER) {
            return None;
        }
        let text = "the service has not accepted the object";
        let found = ConsumerFinding::new("NotAccepted", Class::Waiting, text);
        let found = found.since(self.field("creationTimestamp"));
        let found = found
            .advice("wait a moment. If nothing changes, ask the provider which objects it serves");
        Some(
            found.provider(
                "check that an agent runs, and that its filters do not leave the object out",
            ),
        )
    }

    /// The report on the generation, unless it says that all is well.
    fn reported(&self, report: Option<&GenerationReport>) -> Option<ConsumerFinding> {
        let report = report.filter(|_| !self.object.in_deletion())?;
        if Some(report.generation) != self.generation() {
            let text =
                "the last report of the service is about an earlier generation of the object";
            return Some(ConsumerFinding::of(Code::Working, text));
        }
        let since = Some(&*report.since);
        match &*report.status {
            "True" => None,
            "Unknown" => {
                let found = ConsumerFinding::of(Code::NotSeen, report.message.clone());
                Some(found.since(since))
            }
            _ => {
                if let Some(code) = Code::named(&report.reason) {
                    let found = ConsumerFinding::of(code, report.message.clone());
                    return Some(found.since(since));
                }
                let waiting = Class::Waiting;
                let found = ConsumerFinding::new("NotObserved", waiting, report.message.clone());
                let found = found.since(since).advice("wait for the service");
                Some(found.provider("check the controller of the service"))
            }
        }
    }

    /// The proof that the service has what the object says now.
    fn evidence(
        &self,
        latest: Option<&Event<'_>>,
        report: Option<&GenerationReport>,
    ) -> Option<ConsumerFinding> {
        let in_step = |text: &str, since: &str| {
            let found = ConsumerFinding::of(Code::InStep, text).since(Some(since));
            Some(found)
        };
        if let Some(report) = report {
            let is_current = Some(report.generation) == self.generation();
            return if is_current && report.status == "True" {
                in_step(&report.message, &report.since)
            } else {
                None
            };
        }
        let carried = [Told::Placed, Told::Synced, Told::StatusSynced];
        let event = latest.filter(|event| carried.contains(&event.reason))?;
        // Events have no generation. The first one is the only one there was, or nobody has changed the object since.
        let is_current =
            self.generation() == Some(1) || self.last_change().is_some_and(|at| at < event.last);
        let text = "the service reported no problem after the last change of the object";
        is_current.then(|| in_step(text, &event.last)).flatten()
    }

    /// The time of the last change by anybody but the agent, without subresources.
    fn last_change(&self) -> Option<String> {
        let fields = self.object.as_value()["metadata"]["managedFields"].as_array()?;
        let others = fields.iter().filter(|one| {
            one["manager"] != FIELD_MANAGER
                && one["subresource"].as_str().unwrap_or_default().is_empty()
        });
        let times = others.filter_map(|one| one["time"].as_str());
        times.max().map(str::to_owned)
    }

    /// What does not block the object, but is worth knowing.
    fn notes(&self, events: &[Event<'_>]) -> Vec<ConsumerFinding> {
        let mut notes = Vec::new();
        let not_read = |problem: &PauseProblem| format!("the pause is ignored: {problem}");
        let incomplete = Pause::of(&self.object).err().as_ref().map(not_read);
        let told = |reason| events.iter().find(|event| event.reason == reason);
        let ignored = told(Told::PauseIgnored).map(|event| event.message.to_owned());
        let has_pause = !matches!(Pause::of(&self.object), Ok(None));
        if let Some(text) = incomplete.or(ignored).filter(|_| has_pause) {
            let note = ConsumerFinding::new(Told::PauseIgnored.as_str(), Class::Refused, text);
            notes.push(note.advice("correct the annotations syncagent.kcp.io/pause-…"));
        }
        if let Some(event) = told(Told::StatusMissing) {
            let note = ConsumerFinding::of(Code::StatusNotServed, event.message);
            notes.push(note.since(Some(&event.first)));
        }
        let missing = self.missing_claims();
        if !missing.is_empty() {
            let text = format!(
                "the workspace does not accept the permission claims on {}",
                missing.join(", ")
            );
            let note = ConsumerFinding::new("ClaimsNotAccepted", Class::Refused, text);
            notes.push(note.advice("accept the permission claims in the APIBinding"));
        }
        if let Some(Ok(namespace)) = &self.namespace
            && namespace.in_deletion()
        {
            let since = namespace.as_value()["metadata"]["deletionTimestamp"].as_str();
            let text = "the namespace of the object is being deleted";
            notes.push(
                ConsumerFinding::new("NamespaceTerminating", Class::Waiting, text).since(since),
            );
        }
        notes
    }

    fn unknown(&self) -> Vec<String> {
        let mut unknown = Vec::new();
        match &self.events {
            Err(why) => unknown.push(format!(
                "what the service reports, because the events cannot be read: {why}"
            )),
            Ok(_) if self.missing_claims().iter().any(|claim| claim == "events") => {
                let text = "what the service reports, because the workspace does not accept the permission claim on events";
                unknown.push(text.to_owned());
            }
            Ok(_) => {}
        }
        if let Err(why) = &self.bindings {
            unknown.push(format!(
                "whether the API is bound, because the APIBindings cannot be read: {why}"
            ));
        }
        if let Some(Err(why)) = &self.namespace {
            unknown.push(format!(
                "whether the namespace is being deleted, because it cannot be read: {why}"
            ));
        }
        unknown
    }
}

/// Neither a problem nor its absence is reported.
fn unreported() -> ConsumerFinding {
    let text = "the service does not report whether it has the latest change of the object";
    let found = ConsumerFinding::new("NotReported", Class::Settled, text);
    found.provider("explain the object with its own rights, or set spec.synced, so that each change is reported")
}

impl<'a> Event<'a> {
    /// An event of an agent; `None` for those of others.
    fn read(event: &'a Value) -> Option<Self> {
        let reason = event["reason"].as_str()?;
        let reason = Told::ALL.into_iter().find(|one| one.as_str() == reason)?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let made =
            || text(&event["eventTime"]).or_else(|| text(&event["metadata"]["creationTimestamp"]));
        let first = text(&event["firstTimestamp"]).or_else(made)?;
        let last = text(&event["series"]["lastObservedTime"])
            .or_else(|| text(&event["lastTimestamp"]))
            .or_else(made)?;
        Some(Self {
            reason,
            message: event["message"].as_str().unwrap_or_default(),
            first,
            last,
            version: event["metadata"]["resourceVersion"]
                .as_str()
                .and_then(|version| version.parse().ok()),
        })
    }
}

mod bindings;
#[cfg(test)]
mod tests;
