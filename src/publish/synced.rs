//! Whether the service has seen the current generation of a consumer's object: as a condition in the status of the
//! object, or in annotations.
//!
//! A report refers to one generation, so a report on an earlier one is not wrong, only outdated. It is `True` once the
//! copy has the content of this generation and, by default, its controller has reported that it observed the copy.
//! Later changes of the copy by the service do not matter. The time of the last transition and the last report are kept
//! in memory too, so consumers cannot set either; after a restart, those of the object count.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::marks;
use super::problem::Problem;
use super::projection::Types;
use super::types::{SyncedSpec, SyncedWhen};
use hawser_sync::reason::Class;
use hawser_sync::{Code, Effect, Key, Outcome, Request, Step};
use kube_lang::object::Object;
use kube_schema::field::Path;
use kube_schema::schema::Schema;

/// The values of `status` in a condition.
const STATUSES: [&str; 3] = [TRUE, FALSE, UNKNOWN];
const TRUE: &str = "True";
const FALSE: &str = "False";
const UNKNOWN: &str = "Unknown";
/// The reasons of reports that follow from no problem, and their messages.
const COPIED: (&str, &str) = ("Copied", "the service has this generation of the object");
const OBSERVED: (&str, &str) = (
    "Observed",
    "the service has observed this generation of the object",
);
const NOT_OBSERVED: (&str, &str) = (
    "NotObserved",
    "the service has not reported that it observed this generation of the object",
);

/// The way of reporting, compiled from `spec.synced`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SyncedRules {
    when: SyncedWhen,
    condition: Option<ConditionPlace>,
}

/// The condition in the status of consumers' objects.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ConditionPlace {
    type_: String,
    /// Whether the schema accepts a status that has conditions only.
    stands_alone: bool,
}

/// The knowledge of the agent beside the objects.
#[derive(Clone, Copy, Debug)]
pub struct SyncedContext {
    /// The last report of this process on the object.
    pub last: Option<LastReport>,
    /// The time of the pass.
    pub now: Timestamp,
}

/// The last report on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastReport {
    generation: i64,
    status: &'static str,
    since: Timestamp,
}

/// A report on one generation of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Report {
    generation: i64,
    status: &'static str,
    reason: &'static str,
    message: &'static str,
}

/// A report, as its consumer finds it on the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GenerationReport {
    pub generation: i64,
    pub status: String,
    pub reason: String,
    pub message: String,
    pub since: String,
}

impl GenerationReport {
    /// The report in the annotation or in a condition. Only the owner knows the type of the condition, so it is known by
    /// its words.
    pub fn of(object: &Object) -> Option<Self> {
        if let Some(text) = object.annotation(marks::SYNCED) {
            let report: Value = serde_json::from_str(text).ok()?;
            return Self::read(&report, "generation", "since");
        }
        let conditions = object.as_value()["status"]["conditions"].as_array()?;
        let found = conditions
            .iter()
            .filter_map(|one| Self::read(one, "observedGeneration", "lastTransitionTime"));
        found.into_iter().find(|report| {
            let words = (&*report.reason, &*report.message);
            let of_code = Code::named(words.0).is_some_and(|code| code.sentence() == words.1);
            of_code || [COPIED, OBSERVED, NOT_OBSERVED].contains(&words)
        })
    }

    fn read(report: &Value, generation: &str, since: &str) -> Option<Self> {
        let text = |field: &str| report[field].as_str().map(str::to_owned);
        Some(Self {
            generation: report[generation].as_i64()?,
            status: text("status")?,
            reason: text("reason")?,
            message: text("message")?,
            since: text(since)?,
        })
    }
}

impl SyncedRules {
    pub fn compile(given: &SyncedSpec, types: &Types, problems: &mut Vec<Problem>) -> Self {
        let field = "spec.synced.condition";
        let is_allowed = |one: char| one.is_ascii_alphanumeric() || "-_./".contains(one);
        let condition = match &given.condition {
            None => None,
            Some(type_) if type_.is_empty() || !type_.chars().all(is_allowed) => {
                let message = "a condition type consists of letters, digits, '-', '_', '.' and '/'";
                problems.push(Problem::new(field, message));
                None
            }
            Some(type_) => {
                let schema = types.remote_status_schema.as_ref();
                let place = ConditionPlace::in_schema(type_, schema);
                let place = place.filter(|_| types.remote_status);
                if place.is_none() {
                    let message = "the status in workspaces has no place for this condition: the agent writes annotations instead";
                    problems.push(Problem::new(field, message).warning().with_hint(
                        "the schema needs status.conditions with type, status, reason, message, lastTransitionTime and observedGeneration, and a status subresource",
                    ));
                }
                place
            }
        };
        Self {
            when: given.when.unwrap_or_default(),
            condition,
        }
    }

    /// The status of an object with the condition, for the write that brings the status of the copy. While the copy is
    /// not current, a condition that the object has stays.
    pub fn in_status(
        &self,
        status: Option<Arc<Value>>,
        (source, copy): (&Object, &Object),
        current: bool,
        context: &SyncedContext,
    ) -> Option<Arc<Value>> {
        let Some(place) = &self.condition else {
            return status;
        };
        let condition = if current {
            let report = self.judge(source, Some(copy), Ok(()), context);
            report.map(|report| place.condition(&report, self.since(source, &report, context)))
        } else {
            place.found(source).cloned()
        };
        match condition {
            None => status,
            Some(condition) => place.with(status, condition),
        }
    }

    /// The write that is due at the end of a pass, and the report that it makes.
    pub fn step(
        &self,
        (key, source): (&Key, &Object),
        outcome: &Outcome,
        copy: Option<&Object>,
        context: &SyncedContext,
    ) -> (Option<Step>, Option<LastReport>) {
        let state = if outcome.current {
            Ok(())
        } else {
            Err(outcome.reason.code)
        };
        if source.is_fragment() {
            return (None, None);
        }
        let Some(report) = self.judge(source, copy, state, context) else {
            return (None, None);
        };
        let since = self.since(source, &report, context);
        let request = match &self.condition {
            Some(place) => place.write(key, source, place.condition(&report, since)),
            None => annotate(key, source, &report.annotations(source, copy, since)),
        };
        let last = LastReport {
            generation: report.generation,
            status: report.status,
            since,
        };
        (request.map(reported), Some(last))
    }

    /// The report on the generation of the source; `None` if the last one stays.
    fn judge(
        &self,
        source: &Object,
        copy: Option<&Object>,
        state: Result<(), Code>,
        context: &SyncedContext,
    ) -> Option<Report> {
        let generation = source.as_value()["metadata"]["generation"].as_i64()?;
        if source.in_deletion() {
            return None;
        }
        let stored = || {
            let (of, status, _) = self.stored(source)?;
            (of == generation).then_some(status)
        };
        let report = |status, reason, message| Report {
            generation,
            status,
            reason,
            message,
        };
        let Err(code) = state else {
            let was_observed = || match context.last {
                Some(last) => last.generation == generation && last.status == TRUE,
                None => stored() == Some(TRUE),
            };
            let is_observed = match (self.when, copy) {
                (SyncedWhen::Copied, _) => {
                    return Some(report(TRUE, COPIED.0, COPIED.1));
                }
                (SyncedWhen::Observed, Some(copy)) => {
                    let observed = observed(copy);
                    observed.is_some()
                        && (observed >= copy.as_value()["metadata"]["generation"].as_i64()
                            || was_observed())
                }
                (SyncedWhen::Observed, None) => false,
            };
            return Some(if is_observed {
                report(TRUE, OBSERVED.0, OBSERVED.1)
            } else {
                report(FALSE, NOT_OBSERVED.0, NOT_OBSERVED.1)
            });
        };
        let status = match code.class() {
            Class::Settled | Class::Working => return None,
            // That a server does not answer says nothing about what is already known of a generation.
            Class::Retry if stored().is_some() => return None,
            Class::Retry => UNKNOWN,
            Class::Waiting | Class::Refused => FALSE,
        };
        Some(report(status, code.as_str(), code.sentence()))
    }

    /// The generation, the status and the time of the report on an object.
    fn stored(&self, source: &Object) -> Option<(i64, &'static str, Timestamp)> {
        let (report, generation, since): (Value, _, _) = if let Some(place) = &self.condition {
            let condition = place.found(source)?.clone();
            (condition, "observedGeneration", "lastTransitionTime")
        } else {
            let text = source.annotation(marks::SYNCED)?;
            (serde_json::from_str(text).ok()?, "generation", "since")
        };
        let status = STATUSES.iter().find(|one| report["status"] == **one)?;
        let since = report[since].as_str()?.parse().ok()?;
        Some((report[generation].as_i64()?, status, since))
    }

    /// The time since which a report has its status.
    fn since(&self, source: &Object, report: &Report, context: &SyncedContext) -> Timestamp {
        let last = context.last.map(|last| (last.status, last.since));
        let before = last.or_else(|| {
            let (_, status, since) = self.stored(source)?;
            Some((status, since))
        });
        match before {
            Some((status, since)) if status == report.status => since,
            _ => context.now,
        }
    }
}

impl Report {
    /// The annotations that differ from this report. The generations are those at the time of the report.
    fn annotations(
        &self,
        source: &Object,
        copy: Option<&Object>,
        since: Timestamp,
    ) -> Map<String, Value> {
        let mut changes = Map::new();
        let found = source.annotation(marks::SYNCED);
        let found: Option<Value> = found.and_then(|text| serde_json::from_str(text).ok());
        let mut wanted = json!({
            "generation": self.generation, "status": self.status, "reason": self.reason,
            "message": self.message, "since": time(since),
        });
        for (field, value) in [
            (
                "copyGeneration",
                copy.map(|copy| &copy.as_value()["metadata"]["generation"]),
            ),
            (
                "copyObservedGeneration",
                copy.and_then(observed).map(Value::from).as_ref(),
            ),
        ] {
            if let Some(value) = value.filter(|value| !value.is_null()) {
                wanted[field] = value.clone();
            }
        }
        let says_so = |found: &Value| {
            ["generation", "status", "reason", "message", "since"]
                .iter()
                .all(|field| found[*field] == wanted[*field])
        };
        if !found.as_ref().is_some_and(says_so) {
            changes.insert(marks::SYNCED.into(), wanted.to_string().into());
        }
        let generation = self.generation.to_string();
        let claims = source.annotation(marks::SYNCED_GENERATION) == Some(&*generation);
        if claims != (self.status == TRUE) {
            let value = if claims {
                Value::Null
            } else {
                generation.into()
            };
            changes.insert(marks::SYNCED_GENERATION.into(), value);
        }
        changes
    }
}

impl ConditionPlace {
    /// The place of a condition of this type; `None` if the schema of the status does not accept it. Without a schema,
    /// everything is assumed to fit.
    fn in_schema(type_: &str, schema: Option<&Value>) -> Option<Self> {
        let stands_alone = match schema {
            None => true,
            Some(whole) => {
                let mut parts = whole.clone();
                // What belongs to other fields of the status is not up to the condition.
                if let Some(parts) = parts.as_object_mut() {
                    for word in ["required", "minProperties", "x-kubernetes-validations"] {
                        parts.remove(word);
                    }
                }
                if !accepts(&parts, type_) {
                    return None;
                }
                accepts(whole, type_)
            }
        };
        Some(Self {
            type_: type_.to_owned(),
            stands_alone,
        })
    }

    fn condition(&self, report: &Report, since: Timestamp) -> Value {
        json!({
            "type": self.type_, "status": report.status, "observedGeneration": report.generation,
            "lastTransitionTime": time(since), "reason": report.reason, "message": report.message,
        })
    }

    fn found<'a>(&self, source: &'a Object) -> Option<&'a Value> {
        let conditions = source.as_value()["status"]["conditions"].as_array()?;
        conditions
            .iter()
            .find(|one| one["type"] == self.type_.as_str())
    }

    /// A status with this condition as the last one, and without others of its type.
    fn with(&self, status: Option<Arc<Value>>, condition: Value) -> Option<Arc<Value>> {
        let mut whole = match status.as_deref() {
            None => Map::new(),
            Some(Value::Object(whole)) => whole.clone(),
            Some(_) => return status,
        };
        let mut conditions = match whole.remove("conditions") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(conditions)) => conditions,
            Some(_) => return status,
        };
        conditions.retain(|one| one["type"] != self.type_.as_str());
        if whole.is_empty() && conditions.is_empty() && !self.stands_alone {
            return status;
        }
        conditions.push(condition);
        whole.insert("conditions".into(), conditions.into());
        Some(Arc::new(whole.into()))
    }

    /// The write of the condition alone; `None` if the object has it.
    fn write(&self, key: &Key, source: &Object, condition: Value) -> Option<Request> {
        if self.found(source) == Some(&condition) {
            return None;
        }
        let before = source.root().get("status").cloned().map(Arc::new);
        let after = self.with(before.clone(), condition)?;
        if before.as_ref() == Some(&after) {
            return None;
        }
        let mut object = source.clone();
        object
            .root_mut()
            .insert("status".into(), Arc::unwrap_or_clone(after));
        Some(Request::ReplaceStatus {
            key: key.clone(),
            object,
        })
    }
}

/// The patch that removes the annotations; `None` if the object has none.
pub fn without_annotations(key: &Key, source: &Object) -> Option<Step> {
    let names = [marks::SYNCED, marks::SYNCED_GENERATION].into_iter();
    let found = names.filter(|name| source.annotation(name).is_some());
    let changes = found.map(|name| (name.to_owned(), Value::Null));
    annotate(key, source, &changes.collect()).map(reported)
}

fn annotate(key: &Key, source: &Object, changes: &Map<String, Value>) -> Option<Request> {
    let uid = source.uid()?;
    (!changes.is_empty()).then(|| Request::Patch {
        key: key.clone(),
        patch: json!({"metadata": {"uid": uid, "annotations": changes}}),
    })
}

fn reported(request: Request) -> Step {
    Step {
        link: None,
        request,
        effect: Effect::Reported,
    }
}

/// The generation of a copy that all controllers which report one have observed.
fn observed(copy: &Object) -> Option<i64> {
    let status = &copy.as_value()["status"];
    status["observedGeneration"].as_i64().or_else(|| {
        let conditions = status["conditions"].as_array()?.iter();
        conditions
            .filter_map(|condition| condition["observedGeneration"].as_i64())
            .min()
    })
}

fn time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Whether the schema of a status accepts, and keeps, a status with nothing but this condition.
fn accepts(status: &Value, type_: &str) -> bool {
    let schema = json!({"type": "object", "properties": {"status": status}});
    let Ok(schema) = Schema::compile(&schema, &Path::Root) else {
        return false;
    };
    STATUSES.iter().all(|status| {
        let mut sample = json!({"status": {"conditions": [{
            "type": type_, "status": status, "observedGeneration": 1,
            "lastTransitionTime": "2030-01-31T18:00:00Z", "reason": "NotObserved", "message": "-",
        }]}});
        schema.prune(&mut sample).is_empty() && schema.validate(&sample, None).is_empty()
    })
}

#[cfg(test)]
mod tests;
