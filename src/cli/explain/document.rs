//! What is explained, as a document.

use serde_json::{Value, json};

use super::report::{Attempts, due_json, known_reason, reason_json};
use crate::publish::advice::advice;
use crate::publish::agent::explain::{Explained, Leader, ResourceProblem};
use crate::publish::drift;
use hawser_sync::Reason;

/// The content of the output.
pub(super) struct Findings {
    pub(super) explained: Vec<Explained>,
    /// What the running agent knows of these objects.
    pub(super) attempts: Attempts,
    /// `None` if only the page shows that an agent runs.
    pub(super) leader: Option<Leader>,
    pub(super) problems: Vec<ResourceProblem>,
    /// The warning that another agent was probably meant.
    pub(super) other_agents: Option<String>,
}

pub(super) fn machine(findings: &Findings) -> Value {
    let with_attempts = |(number, explained): (usize, &Explained)| {
        let attempts = findings.attempts.of(number);
        let mut object = with_reason(explained, &known_reason(explained.reason(), attempts));
        object["attempts"] = json!(attempts);
        object
    };
    let objects = findings.explained.iter().enumerate();
    let objects: Vec<_> = objects.map(with_attempts).collect();
    let leader = match &findings.leader {
        Some(Leader::Present { identity, renewed }) => {
            json!({"identity": identity, "renewedSecondsAgo": renewed.as_secs()})
        }
        Some(Leader::Missing) | None => Value::Null,
        Some(Leader::Unknown(why)) => json!({"problem": why}),
    };
    let problems = findings.problems.iter().map(|problem| {
        let ResourceProblem {
            name,
            condition,
            message,
        } = problem;
        json!({"publishedResource": name, "condition": condition, "message": message})
    });
    json!({
        "objects": objects,
        "leader": leader,
        "pageProblem": findings.attempts.problem,
        "problems": problems.collect::<Vec<_>>(),
        "warning": findings.other_agents,
    })
}

/// An object, and what the agent would do about it.
pub(crate) fn as_json(explained: &Explained) -> Value {
    with_reason(explained, &explained.reason())
}

fn with_reason(explained: &Explained, reason: &Reason) -> Value {
    let links = explained.links.iter().map(|link| {
        json!({
            "relatedEntry": link.entry,
            "reason": reason_json(&link.reason, advice),
            "copy": link.copy.as_ref().map(ToString::to_string),
            "foundBy": link.found_by,
        })
    });
    let drift = explained.drift.iter().map(|field| {
        let by = field.by.as_ref().map(|by| {
            json!({
                "manager": by.manager,
                "operation": by.operation,
                "subresource": by.subresource,
                "time": by.time,
            })
        });
        json!({"path": drift::path(field), "mode": drift::mode(field.mode), "changedBy": by})
    });
    let filters = explained.filters.iter().map(|filter| {
        json!({"field": filter.field, "selector": filter.selector, "matches": filter.matches})
    });
    let mut reason = reason_json(reason, advice);
    if explained.left_alone().is_some() {
        reason["advice"] = Value::Null;
    }
    let object = &explained.object;
    json!({
        "object": {
            "kind": object.kind.kind,
            "namespace": object.namespace.as_deref(),
            "name": &*object.name,
            "cluster": &*object.cluster,
            "path": explained.path,
        },
        "publishedResource": explained.published_resource,
        "inStep": explained.is_in_step(),
        "reason": reason,
        "pauses": explained.pauses,
        "notSynced": explained.not_synced.as_ref().map(|why| {
            json!({"why": why.to_string(), "advice": why.advice()})
        }),
        "filters": filters.collect::<Vec<_>>(),
        "state": explained.state.as_ref().map(ToString::to_string).filter(|_| explained.has_state),
        "drift": drift.collect::<Vec<_>>(),
        "links": links.collect::<Vec<_>>(),
        "due": due_json(&explained.due),
    })
}
