//! Explains an object to its consumer, from what the workspace shows: the object, the events about it, the bindings.
//!
//! Pure. Whatever could not be read is named, and nothing is concluded from it.

use jiff::Timestamp;
use serde_json::Value;

use super::events::{Reason as Told, refusals_in};
use crate::publish::advice::for_consumer;
use crate::publish::marks::FINALIZER;
use crate::publish::pause::{Pause, PauseProblem, WriteDirection};
use crate::publish::synced::GenerationReport;
use hawser_runtime::cluster::connection::FIELD_MANAGER;
use hawser_sync::Code;
use hawser_sync::reason::Class;
use kube_lang::object::Object;
use told::{Event, LatestResult};

/// The code for what the workspace does not show.
const NOT_REPORTED: &str = "NotReported";
/// Only the provider can find out more.
const ASK_PROVIDER: &str = "explain the object with hawser explain and the agent's kubeconfigs, or set spec.synced so that each change is reported";

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
    /// What blocks the object, why it is in sync, or what is known of it.
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
        let events = told::about(&self.object, self.events.as_deref().unwrap_or_default());
        let latest = LatestResult::among(&events, self.last_change(), now);
        let latest = latest.as_ref();
        let report = GenerationReport::of(&self.object);
        let report = report.as_ref();
        let mut found: Vec<ConsumerFinding> = Vec::new();
        found.extend(self.unbound());
        found.extend(self.deletion());
        found.extend(self.refusals(latest, report));
        let pause = self.pause(&events, latest, report, now);
        let has_pause = pause.is_some();
        // What does not tell whether the object is in sync.
        let mut open = Vec::new();
        match pause {
            Some((true, holds)) => found.push(holds),
            Some((false, pause)) => open.push(pause),
            None => {}
        }
        found.extend(self.acceptance());
        let reported = self.reported(report);
        let is_known = |one: &ConsumerFinding| found.iter().any(|other| other.code == one.code);
        let reported = reported.filter(|one| !is_known(one));
        found.extend(reported);
        open.extend(self.outdated(latest, report, has_pause));
        let (in_sync, cause) = if found.is_empty() {
            match self.seen(report) {
                Some(seen) => (Some(true), seen),
                None if open.is_empty() => {
                    (None, self.no_problem(latest).unwrap_or_else(unreported))
                }
                None => (None, open.remove(0)),
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
        found.extend(open);
        found.extend(self.notes(&events));
        ConsumerAnswer {
            in_sync,
            cause,
            also: found,
            unknown: self.unknown(),
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

    /// Whether a report is about the current generation.
    fn is_current(&self, report: &GenerationReport) -> bool {
        Some(report.generation) == self.generation()
    }

    /// Whether the service has what the object says now.
    fn is_synced(&self, report: &GenerationReport) -> bool {
        self.is_current(report) && report.status == "True"
    }

    /// The refusals that the service reported last, unless it has seen this generation since.
    fn refusals(
        &self,
        latest: Option<&LatestResult<'_>>,
        report: Option<&GenerationReport>,
    ) -> Vec<ConsumerFinding> {
        let Some(event) = latest.filter(|event| event.is(Told::Refused)) else {
            return Vec::new();
        };
        let is_over = |report: &GenerationReport| self.is_synced(report) && event.is_before(report);
        if report.is_some_and(is_over) {
            return Vec::new();
        }
        let since = event.since.to_string();
        let since = Some(&*since);
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

    /// A refusal or a pause that the service does not report any more.
    fn outdated(
        &self,
        latest: Option<&LatestResult<'_>>,
        report: Option<&GenerationReport>,
        has_pause: bool,
    ) -> Option<ConsumerFinding> {
        let event = latest.filter(|event| event.is_outdated)?;
        if report.is_some_and(|report| self.is_current(report) && event.is_before(report)) {
            return None;
        }
        let last = event.last;
        let text = match event.reason {
            Told::Refused => format!(
                "the service refused an earlier state of the object at {last}; it has reported nothing since"
            ),
            _ if has_pause => return None,
            _ => format!(
                "the service was paused for the object at {last}; it has reported nothing since"
            ),
        };
        let found = ConsumerFinding::new(NOT_REPORTED, Class::Waiting, text);
        Some(found.provider(ASK_PROVIDER))
    }

    /// The pause in force, and whether it is known that a change waits for its end.
    fn pause(
        &self,
        events: &[Event<'_>],
        latest: Option<&LatestResult<'_>>,
        report: Option<&GenerationReport>,
        now: Timestamp,
    ) -> Option<(bool, ConsumerFinding)> {
        let event = latest.filter(|event| event.is(Told::Paused));
        let is_reported = report.is_some_and(|report| {
            let is_paused = report.status == "False" && report.reason == Code::Paused.as_str();
            is_paused && self.is_current(report)
        });
        let is_synced = report.is_some_and(|report| self.is_synced(report));
        let holds = !is_synced && (event.is_some() || is_reported);
        if let Some(text) = self.pause_in_workspace(events, now) {
            let open = if holds || is_synced {
                ""
            } else {
                "; whether a change waits cannot be known from here"
            };
            let found = ConsumerFinding::of(Code::Paused, format!("{text}{open}"));
            let found = ConsumerFinding {
                provider: None,
                ..found
            };
            return Some((holds, found));
        }
        let since = event?.since.to_string();
        let text = "the provider has paused the service for this object. The service takes the latest change when the pause ends, and the workspace does not show when";
        let found = ConsumerFinding::of(Code::Paused, text).since(Some(&since));
        let found = ConsumerFinding {
            advice: None,
            ..found
        };
        Some((holds, found))
    }

    /// The pause of the object that the service does not ignore, or that of its binding.
    fn pause_in_workspace(&self, events: &[Event<'_>], now: Timestamp) -> Option<String> {
        let in_force = |pause: &Pause| {
            let ways = [WriteDirection::Spec, WriteDirection::Status];
            ways.iter().any(|way| pause.holds(*way, now))
        };
        let of = |object: &Object| Pause::of(object).ok().flatten().filter(in_force);
        let mut told = events.iter().map(|event| event.reason);
        let is_ignored = told.any(|reason| reason == Told::PauseIgnored);
        let own = of(&self.object).filter(|_| !is_ignored);
        if let Some(pause) = own {
            return Some(format!("the object is paused {pause}"));
        }
        let serving = self.serving().unwrap_or_default();
        serving.into_iter().find_map(|binding| {
            let (name, pause) = (binding.name(), of(binding)?);
            Some(format!("the APIBinding {name} is paused {pause}"))
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
            .advice("wait a moment. If nothing changes, ask the provider which objects it serves, and which labels its filters want");
        Some(
            found.provider(
                "check that an agent runs, that the PublishedResource has neither the mode Plan nor disabled synchronization, and that its filters do not leave the object out",
            ),
        )
    }

    /// The report on the generation, unless it says that all is well.
    fn reported(&self, report: Option<&GenerationReport>) -> Option<ConsumerFinding> {
        let report = report.filter(|_| !self.object.in_deletion())?;
        if !self.is_current(report) {
            let text =
                "the last report of the service is about an earlier generation of the object";
            return Some(ConsumerFinding::of(Code::Working, text));
        }
        let since = Some(&*report.since);
        match &*report.status {
            "True" => None,
            "Unknown" => {
                let code = Code::named(&report.reason);
                // Nothing else is reported as unknown.
                let code = code.filter(|code| code.class() == Class::Retry);
                let code = code.unwrap_or(Code::NotSeen);
                Some(ConsumerFinding::of(code, report.message.clone()).since(since))
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

    /// The report that the service has what the object says now.
    fn seen(&self, report: Option<&GenerationReport>) -> Option<ConsumerFinding> {
        let report = report.filter(|report| self.is_synced(report))?;
        let found = ConsumerFinding::of(Code::InStep, report.message.clone());
        Some(found.since(Some(&report.since)))
    }

    /// The last event, if it is about the object as it is now. It does not prove that the service stored the change.
    fn no_problem(&self, latest: Option<&LatestResult<'_>>) -> Option<ConsumerFinding> {
        let carried = [Told::Placed, Told::Synced, Told::StatusSynced];
        let event = latest.filter(|event| carried.contains(&event.reason))?;
        // Events have no generation. The first one is the only one there was, or nobody has changed the object since.
        let is_current =
            self.generation() == Some(1) || self.last_change().is_some_and(|at| at < event.last);
        let text = "the service reported no problem after the last change of the object";
        let found = ConsumerFinding::new("NoProblemReported", Class::Waiting, text);
        let found = found.since(Some(&event.last.to_string()));
        is_current.then(|| found.provider(ASK_PROVIDER))
    }

    /// The time of the last change by anybody but the agent, without subresources.
    fn last_change(&self) -> Option<Timestamp> {
        let fields = self.object.as_value()["metadata"]["managedFields"].as_array()?;
        let others = fields.iter().filter(|one| {
            one["manager"] != FIELD_MANAGER
                && one["subresource"].as_str().unwrap_or_default().is_empty()
        });
        let times = others.filter_map(|one| one["time"].as_str()?.parse::<Timestamp>().ok());
        times.max()
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
            notes.push(note.since(Some(&event.first.to_string())));
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
    ConsumerFinding::new(NOT_REPORTED, Class::Waiting, text).provider(ASK_PROVIDER)
}

mod bindings;
#[cfg(test)]
mod tests;
mod told;
