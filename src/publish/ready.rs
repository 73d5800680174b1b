//! The conditions `Ready`, `Authorized` and `Planned` of a published resource, and its plan, derived from the known
//! facts.
//!
//! | reason | status | meaning |
//! |---|---|---|
//! | `Pending` | Unknown | the agent has not processed it yet |
//! | `Planning` | False | nothing is written, as configured; `Planned` and the plan say what would be |
//! | `KindNotFound` | False | the service cluster does not serve the kind |
//! | `DiscoveryFailed`, `NoAnswer` | False | a server does not respond; retried |
//! | `DefinitionNotUsable` | False | the CRD, or the model of the kind, cannot be published |
//! | `ProjectionInvalid` | False | the requested versions or names do not fit the CRD |
//! | `Forbidden` | False | the agent lacks a right to create the schema |
//! | `SchemaRefused` | False | kcp refused the schema |
//! | `RulesInvalid` | False | naming, filters, mutations or related resources are invalid; the API is published anyway |
//! | `NotExported` | False | the export could not be written, or its content conflicts |
//! | `DeletionsHeld` | False | deletions wait for an approval |
//! | `NotWatched` | False | objects, or objects that they depend on, cannot be listed or watched on one of the sides |
//! | `MissingRights` | False | a request of the agent was refused |
//! | `NoWorkspaces` | True | published; no workspace has bound it |
//! | `SynchronizationDisabled` | True | published; objects are not synchronized, as configured |
//! | `Synchronizing` | True | published, and objects are synchronized |

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::pause::Pause;
use super::problem::Problem;
use super::types::{PlanStatus, PlannedWrites};
use hawser_runtime::controller::HeldDeletions;
use kube_lang::object::merge_patch;

/// The types of the conditions.
pub const READY: &str = "Ready";
pub const AUTHORIZED: &str = "Authorized";
pub const PLANNED: &str = "Planned";

/// The number of problems of one sort in the message; further ones are counted.
const MAX_SHOWN: usize = 5;
/// The longest message, in bytes.
const LONGEST: usize = 4096;

/// The known facts about a published resource.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// The generation that the facts refer to.
    pub generation: i64,
    pub schema: SchemaFact,
    /// Problems and warnings of the rules.
    pub rules: Vec<Problem>,
    /// The problems that keep it from being exported as requested.
    pub export: Vec<String>,
    pub synchronization: SynchronizationFact,
    pub held: Option<HeldDeletions>,
    /// The requests that were refused, such as `delete secrets on the service cluster`.
    pub missing_rights: BTreeSet<String>,
    /// Kinds that workspaces do not let the agent write, with the number of workspaces.
    pub unaccepted: BTreeMap<String, usize>,
    /// The rights that the agent lacks, as the servers say; `None` if they have not said it.
    pub lacking: Option<Vec<String>>,
    /// The number of copies of workspaces that no longer bind the API, by workspace.
    pub orphans: BTreeMap<String, usize>,
    /// The number of objects whose writes another writer undoes.
    pub contested: usize,
    /// The number of objects with changes that a pause holds.
    pub paused: usize,
    /// The pause of all objects, or why its annotations are none.
    pub pause: Option<Result<Pause, String>>,
    /// Kinds of related objects that are not served.
    pub unserved: Vec<String>,
    /// Kinds that cannot be listed on the service cluster; nothing is synchronized before.
    pub unseen: Vec<String>,
    /// Kinds that could not be watched for a while.
    pub unwatched_kinds: BTreeSet<String>,
    /// Warnings that block nothing.
    pub warnings: Vec<String>,
    pub plan: PlanFact,
}

/// The plan of a published resource.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum PlanFact {
    /// Not made yet: the stored one stays.
    #[default]
    Pending,
    /// It has none, because the agent writes.
    Unwanted,
    Made(Arc<PlanStatus>),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SchemaFact {
    #[default]
    Pending,
    /// The reason is one of the table above.
    Failed {
        reason: &'static str,
        message: String,
    },
    Published(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SynchronizationFact {
    Disabled,
    /// Nothing is written.
    Planning,
    /// With this many workspaces.
    Enabled(usize),
}

impl Default for SynchronizationFact {
    fn default() -> Self {
        Self::Enabled(0)
    }
}

/// A condition without its times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub condition: &'static str,
    /// `True`, `False` or `Unknown`.
    pub status: &'static str,
    pub reason: &'static str,
    pub message: String,
    pub generation: i64,
}

/// The verdict. The first problem gives the reason; the message has all of them.
pub fn judge(facts: &Facts) -> Verdict {
    let troubles = troubles(facts);
    let (status, reason, mut sentences) = match (troubles.first(), &facts.schema) {
        (Some((reason, _)), _) => {
            let told = troubles.iter().map(|(_, told)| told.clone());
            ("False", *reason, told.collect())
        }
        (None, SchemaFact::Published(schema)) => {
            let (reason, how) = fine(facts.synchronization);
            let told = format!("published as {schema}; {how}");
            ("True", reason, vec![told])
        }
        (None, SchemaFact::Pending | SchemaFact::Failed { .. }) => {
            let told = "the agent is looking for the kind".to_owned();
            ("Unknown", "Pending", vec![told])
        }
    };
    let (_, warnings) = rules(facts);
    if !warnings.is_empty() {
        sentences.push(format!("warning: {}", some(warnings.into_iter())));
    }
    if !facts.unserved.is_empty() {
        let told = some(facts.unserved.iter().cloned());
        sentences.push(format!("related kinds are not served: {told}"));
    }
    let unaccepted = facts.unaccepted.iter().map(|(kind, count)| {
        let (workspaces, their) = match count {
            1 => ("workspace does", "its"),
            _ => ("workspaces do", "their"),
        };
        format!(
            "{count} {workspaces} not let the agent write {kind}: {their} APIBinding has to accept \
             the permission claim"
        )
    });
    sentences.extend(unaccepted);
    sentences.extend(orphans(facts));
    if facts.contested > 0 {
        let objects = match facts.contested {
            1 => "1 object is".to_owned(),
            count => format!("{count} objects are"),
        };
        sentences.push(format!(
            "{objects} not in sync, because another writer undoes each change: see the log"
        ));
    }
    sentences.extend(paused(facts));
    sentences.extend(facts.warnings.iter().cloned());
    Verdict {
        condition: READY,
        status,
        reason,
        message: cut(sentences.join("; ")),
        generation: facts.generation,
    }
}

/// All verdicts: `Authorized` once the servers have said which rights are missing, `Planned` once there is a plan.
pub fn verdicts(facts: &Facts) -> Vec<Verdict> {
    let rights = facts.lacking.as_ref().map(|lacking| {
        let (status, reason, message) = if lacking.is_empty() {
            (
                "True",
                "AllRights",
                "the agent has every right that it needs".to_owned(),
            )
        } else {
            let told = some(lacking.iter().cloned());
            (
                "False",
                "MissingRights",
                format!("the agent may not {told}; see `hawser rbac --check`"),
            )
        };
        Verdict {
            condition: AUTHORIZED,
            status,
            reason,
            message: cut(message),
            generation: facts.generation,
        }
    });
    let plan = match &facts.plan {
        PlanFact::Made(plan) => Some(planned(plan)),
        PlanFact::Pending | PlanFact::Unwanted => None,
    };
    [judge(facts)]
        .into_iter()
        .chain(rights)
        .chain(plan)
        .collect()
}

fn planned(plan: &PlanStatus) -> Verdict {
    let PlannedWrites {
        made,
        changed,
        deleted,
        held,
        refused,
    } = plan.total;
    let mut sentences = vec![format!(
        "the agent would create {made}, change {changed} and delete {deleted} objects, hold {held} deletions, and have \
         {refused} refused"
    )];
    if plan.unplanned > 0 {
        sentences.push(format!("{} objects are not in the plan", plan.unplanned));
    }
    sentences.extend(plan.problems.iter().cloned());
    let (status, reason) = if plan.problems.is_empty() && plan.unplanned == 0 {
        ("True", "Complete")
    } else {
        ("False", "Incomplete")
    };
    Verdict {
        condition: PLANNED,
        status,
        reason,
        message: cut(sentences.join("; ")),
        generation: plan.observed_generation,
    }
}

fn paused(facts: &Facts) -> Vec<String> {
    let mut sentences = Vec::new();
    match &facts.pause {
        Some(Ok(pause)) => sentences.push(format!("paused {pause}")),
        Some(Err(problem)) => sentences.push(format!("the pause is ignored: {problem}")),
        None => {}
    }
    match facts.paused {
        0 => {}
        1 => sentences.push("a pause holds changes of 1 object".to_owned()),
        count => sentences.push(format!("a pause holds changes of {count} objects")),
    }
    sentences
}

fn orphans(facts: &Facts) -> Option<String> {
    let (copies, noun) = match facts.orphans.values().sum() {
        0 => return None,
        1 => (1, "copy is"),
        copies => (copies, "copies are"),
    };
    let of = some(facts.orphans.keys().cloned());
    Some(format!(
        "{copies} {noun} left from workspaces that no longer bind the API: {of}; see `hawser orphans list`"
    ))
}

fn troubles(facts: &Facts) -> Vec<(&'static str, String)> {
    let mut troubles = Vec::new();
    if facts.synchronization == SynchronizationFact::Planning {
        let told = "the agent only plans, as configured: the condition Planned and status.plan say what it would write";
        troubles.push(("Planning", told.to_owned()));
    }
    let published = match &facts.schema {
        SchemaFact::Failed { reason, message } => {
            troubles.push((*reason, message.clone()));
            false
        }
        SchemaFact::Pending => false,
        SchemaFact::Published(_) => true,
    };
    let (mistakes, _) = rules(facts);
    if !mistakes.is_empty() {
        let told = some(mistakes.into_iter());
        let published = if published && troubles.is_empty() {
            "the API is published, but "
        } else {
            ""
        };
        let told = format!("{published}no object can be synchronized: {told}");
        troubles.push(("RulesInvalid", told));
    }
    // Without a schema there is nothing that the export could lack.
    if published && !facts.export.is_empty() {
        troubles.push(("NotExported", some(facts.export.iter().cloned())));
    }
    if let Some(held) = &facts.held {
        let told = format!(
            "{} deletions are held: {}; to approve them, set the annotation {}",
            held.count,
            held.why,
            held.annotation()
        );
        troubles.push(("DeletionsHeld", told));
    }
    if !facts.unseen.is_empty() {
        let told = some(facts.unseen.iter().cloned());
        let told = format!(
            "no object can be synchronized until these can be listed on the service cluster: {told}"
        );
        troubles.push(("NotWatched", told));
    }
    if !facts.unwatched_kinds.is_empty() {
        let told = some(facts.unwatched_kinds.iter().cloned());
        let told = format!(
            "objects are not synchronized while these cannot be watched: {told}; check that the server answers and, \
             in kcp, that the APIExport has the schema or the permission claim"
        );
        troubles.push(("NotWatched", told));
    }
    if !facts.missing_rights.is_empty() {
        let rights = some(facts.missing_rights.iter().cloned());
        let told = format!("the agent may not {rights}: grant it these rights");
        troubles.push(("MissingRights", told));
    }
    troubles
}

fn fine(synchronization: SynchronizationFact) -> (&'static str, String) {
    match synchronization {
        SynchronizationFact::Disabled | SynchronizationFact::Planning => (
            "SynchronizationDisabled",
            "objects are not synchronized, as configured".to_owned(),
        ),
        SynchronizationFact::Enabled(0) => {
            ("NoWorkspaces", "no workspace has bound it yet".to_owned())
        }
        SynchronizationFact::Enabled(1) => {
            ("Synchronizing", "synchronized with 1 workspace".to_owned())
        }
        SynchronizationFact::Enabled(count) => (
            "Synchronizing",
            format!("synchronized with {count} workspaces"),
        ),
    }
}

/// The problems of the rules, and their warnings.
fn rules(facts: &Facts) -> (Vec<String>, Vec<String>) {
    let (mistakes, warnings): (Vec<_>, Vec<_>) = facts.rules.iter().partition(|p| p.is_error());
    let told = |problems: Vec<&Problem>| problems.into_iter().map(in_words).collect();
    (told(mistakes), told(warnings))
}

fn in_words(problem: &Problem) -> String {
    match &problem.hint {
        Some(hint) => format!("{problem} ({hint})"),
        None => problem.to_string(),
    }
}

fn some(told: impl ExactSizeIterator<Item = String>) -> String {
    let more = told.len().saturating_sub(MAX_SHOWN);
    let mut words: Vec<String> = told.take(MAX_SHOWN).collect();
    if more > 0 {
        words.push(format!("and {more} more"));
    }
    words.join(", ")
}

fn cut(mut message: String) -> String {
    if message.len() > LONGEST {
        message.truncate(message.floor_char_boundary(LONGEST));
        message.push('…');
    }
    message
}

/// The merge patch that updates a status; `None` if it is up to date. The time of the last transition changes only with
/// the condition's status; conditions of others stay.
pub fn patch(status: &Value, verdicts: &[Verdict], plan: &PlanFact, now: &str) -> Option<Value> {
    let generation = verdicts.first()?.generation;
    let before = status["conditions"].as_array().cloned();
    let before = before.unwrap_or_default();
    let mut conditions = before.clone();
    if *plan == PlanFact::Unwanted {
        conditions.retain(|one| one["type"] != PLANNED);
    }
    for verdict in verdicts {
        let mut after = json!({
            "type": verdict.condition, "status": verdict.status, "reason": verdict.reason,
            "message": verdict.message, "observedGeneration": verdict.generation,
        });
        let is_it = |one: &&mut Value| one["type"] == verdict.condition;
        let stored = conditions.iter_mut().find(is_it);
        let since = stored
            .as_ref()
            .filter(|stored| stored["status"] == verdict.status)
            .and_then(|stored| stored["lastTransitionTime"].as_str());
        after["lastTransitionTime"] = since.unwrap_or(now).into();
        match stored {
            Some(stored) => *stored = after,
            None => conditions.push(after),
        }
    }
    let plan = plan_patch(&status["plan"], plan);
    if status["observedGeneration"] == generation && conditions == before && plan.is_none() {
        return None;
    }
    let mut patch = json!({"observedGeneration": generation, "conditions": conditions});
    if let Some(plan) = plan {
        patch["plan"] = plan;
    }
    Some(json!({ "status": patch }))
}

/// The part of the patch that updates the plan; `None` if it is up to date.
fn plan_patch(before: &Value, plan: &PlanFact) -> Option<Value> {
    match plan {
        PlanFact::Pending => None,
        PlanFact::Unwanted => (!before.is_null()).then_some(Value::Null),
        PlanFact::Made(plan) => {
            let fields = |plan: &Value| plan.as_object().cloned().unwrap_or_default();
            let diff: Map<String, Value> =
                merge_patch::diff(&fields(before), &fields(&json!(**plan)));
            (!diff.is_empty()).then(|| diff.into())
        }
    }
}

#[cfg(test)]
mod tests;
