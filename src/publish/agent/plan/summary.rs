//! The summary of a plan, as the status of a published resource shows it. Whatever consumers name and create, it has a
//! bounded size, and no contents of objects.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{ExportChange, ResourceChange, WriteCounts, is_bookkeeping};
use crate::publish::agent::explained::Explained;
use crate::publish::types::{
    PlanStatus, PlannedExport, PlannedReason, PlannedWrites, WorkspacePlan,
};
use hawser_sync::Code;
use hawser_sync::reason::Class;

/// The number of listed workspaces.
const WORKSPACES: usize = 20;
/// The number of examples of each reason.
const EXAMPLES: usize = 3;
/// The number of listed problems, and of names of schemas and claims of each sort.
const NAMES: usize = 10;
/// The longest name or path, and the longest problem, in bytes.
const LONGEST_NAME: usize = 128;
const LONGEST_PROBLEM: usize = 512;

/// The reasons of writes that would be made, from the least to the most serious.
const CREATE: &str = "Create";
const CHANGE: &str = "Change";
const DELETE: &str = "Delete";

/// The numbers of a plan so far.
#[derive(Debug, Default)]
pub(in crate::publish::agent) struct Summary {
    objects: usize,
    pub(in crate::publish::agent) unplanned: usize,
    total: WriteCounts,
    workspaces: BTreeMap<Arc<str>, (Option<String>, WriteCounts)>,
    reasons: BTreeMap<&'static str, (usize, Vec<String>)>,
}

/// What a plan is about, beside objects.
pub(in crate::publish::agent) struct PlanHead {
    pub(in crate::publish::agent) generation: i64,
    pub(in crate::publish::agent) time: String,
    pub(in crate::publish::agent) resource: ResourceChange,
    pub(in crate::publish::agent) export: ExportChange,
}

impl Summary {
    pub(in crate::publish::agent) fn add(&mut self, explained: &Explained) {
        self.objects += 1;
        let mut counts = WriteCounts::default();
        counts.add(explained);
        if counts == WriteCounts::default() {
            return;
        }
        self.total.plus(counts);
        let (path, of_workspace) = self
            .workspaces
            .entry(Arc::clone(&explained.object.cluster))
            .or_default();
        path.clone_from(&explained.path);
        of_workspace.plus(counts);
        for reason in reasons(explained) {
            let (count, examples) = self.reasons.entry(reason).or_default();
            *count += 1;
            if examples.len() < EXAMPLES {
                examples.push(example(explained));
            }
        }
    }

    pub(in crate::publish::agent) fn status(self, head: PlanHead) -> PlanStatus {
        let PlanHead {
            generation,
            time,
            resource,
            export,
        } = head;
        let mut workspaces: Vec<_> = self.workspaces.into_iter().collect();
        workspaces.sort_by_key(|(_, (_, counts))| Reverse(counts.rank()));
        let more_workspaces = workspaces.len().saturating_sub(WORKSPACES);
        workspaces.truncate(WORKSPACES);
        let workspaces = workspaces.into_iter().map(|(cluster, (path, counts))| {
            let path = path.unwrap_or_default();
            WorkspacePlan {
                cluster: cut(&cluster, LONGEST_NAME),
                path: cut(&path, LONGEST_NAME),
                writes: counts.into(),
            }
        });
        let mut reasons: Vec<_> = self.reasons.into_iter().collect();
        reasons.sort_by_key(|(reason, (count, _))| Reverse((severity(reason), *count)));
        let reasons = reasons
            .into_iter()
            .map(|(reason, (count, examples))| PlannedReason {
                reason: reason.to_owned(),
                count,
                examples,
            });
        let mut problems = resource.problems;
        problems.extend(export.problems);
        problems.extend(resource.unlisted.into_iter().map(|unlisted| {
            format!("some objects are not in the plan, because this cannot be listed: {unlisted}")
        }));
        PlanStatus {
            observed_generation: generation,
            time,
            objects: self.objects,
            unplanned: self.unplanned,
            total: self.total.into(),
            workspaces: workspaces.collect(),
            more_workspaces,
            reasons: reasons.collect(),
            schema: resource.schema.unwrap_or_default(),
            schema_before: resource.schema_before.unwrap_or_default(),
            export: PlannedExport {
                added_schemas: some(&export.added_schemas, LONGEST_NAME),
                replaced_schemas: some(&export.replaced_schemas, LONGEST_NAME),
                added_claims: some(&export.added_claims, LONGEST_NAME),
            },
            problems: some(&problems, LONGEST_PROBLEM),
        }
    }
}

/// Each reason of what an object's pass would and would not do.
fn reasons(explained: &Explained) -> BTreeSet<&'static str> {
    let mut reasons = BTreeSet::new();
    for write in &explained.due {
        if write.held {
            reasons.insert(Code::Held.as_str());
        } else if write.refusal.is_none() && !is_bookkeeping(explained, write) {
            reasons.insert(match write.verb {
                "create" => CREATE,
                "delete" => DELETE,
                _ => CHANGE,
            });
        }
    }
    let refused = explained.links.iter().map(|link| link.reason.code);
    let refused = refused.filter(|code| code.class() == Class::Refused);
    let before = reasons.len();
    reasons.extend(refused.map(Code::as_str));
    let is_refused = explained
        .due
        .iter()
        .any(|write| write.refusal.is_some() && !write.held);
    if is_refused && reasons.len() == before {
        // Its pass alone does not see that another object comes first.
        reasons.insert(match explained.reason().code {
            code if code.class() == Class::Settled => Code::NameConflict.as_str(),
            code => code.as_str(),
        });
    }
    reasons
}

fn severity(reason: &str) -> u8 {
    match reason {
        CREATE => 0,
        CHANGE => 1,
        DELETE => 2,
        held if held == Code::Held.as_str() => 3,
        _ => 4,
    }
}

/// The object of a workspace, in a line.
fn example(explained: &Explained) -> String {
    let object = &explained.object;
    let workspace = explained.path.as_deref().unwrap_or(&object.cluster);
    let name = match &object.namespace {
        Some(namespace) => format!("{namespace}/{}", object.name),
        None => object.name.to_string(),
    };
    let (name, workspace) = (cut(&name, LONGEST_NAME), cut(workspace, LONGEST_NAME));
    format!("{name} in {workspace}")
}

/// The first of these texts, each cut, and how many more there are.
fn some(texts: &[String], longest: usize) -> Vec<String> {
    let mut some: Vec<String> = texts
        .iter()
        .take(NAMES)
        .map(|text| cut(text, longest))
        .collect();
    if texts.len() > NAMES {
        some.push(format!("and {} more", texts.len() - NAMES));
    }
    some
}

fn cut(text: &str, longest: usize) -> String {
    if text.len() <= longest {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(longest)])
}

impl WriteCounts {
    fn plus(&mut self, more: Self) {
        self.made += more.made;
        self.changed += more.changed;
        self.deleted += more.deleted;
        self.held += more.held;
        self.refused += more.refused;
    }

    /// The worst first, then the largest.
    fn rank(&self) -> (usize, usize, usize) {
        (
            self.refused,
            self.deleted + self.held,
            self.made + self.changed,
        )
    }
}

impl From<WriteCounts> for PlannedWrites {
    fn from(counts: WriteCounts) -> Self {
        let WriteCounts {
            made,
            changed,
            deleted,
            held,
            refused,
        } = counts;
        Self {
            made,
            changed,
            deleted,
            held,
            refused,
        }
    }
}

#[cfg(test)]
mod tests {
    use hawser_sync::{Key, Reason, Scope, Side};
    use kube_lang::object::Gvk;

    use super::*;
    use crate::publish::agent::explained::DueWrite;

    fn key(side: &str, cluster: &str, name: &str) -> Key {
        let kind = Arc::new(Gvk::new("things.example.com", "v1", "Thing"));
        Scope::new(&Side::new(side), &kind, cluster).key(Some("default"), name)
    }

    fn explained(cluster: &str, name: &str, verb: &'static str, code: Option<Code>) -> Explained {
        let reason = code.map(|code| Reason::new(code, "secret-value"));
        Explained {
            due: vec![DueWrite {
                verb,
                object: key("service", "", name),
                change: Some(serde_json::json!({"spec": {"size": "secret-value"}})),
                differences: None,
                refusal: code.map(|_| "secret-value".to_owned()),
                held: code == Some(Code::Held),
            }],
            ..Explained::untried("things", key("kcp", cluster, name), reason)
        }
    }

    fn head() -> PlanHead {
        let many: Vec<String> = (0..1000)
            .map(|n| format!("{n}-{}", "x".repeat(2000)))
            .collect();
        PlanHead {
            generation: 7,
            time: "2026-01-02T03:04:05Z".to_owned(),
            resource: ResourceChange {
                name: "things".to_owned(),
                is_new: false,
                is_of_files: true,
                schema_before: None,
                schema: Some("v1.things.example.com".to_owned()),
                problems: many.clone(),
                warnings: many.clone(),
                unlisted: many.iter().cloned().collect(),
                unplanned: 3,
            },
            export: ExportChange {
                name: "things".to_owned(),
                added_schemas: many.clone(),
                replaced_schemas: many.clone(),
                added_claims: many,
                problems: Vec::new(),
            },
        }
    }

    #[test]
    fn whatever_consumers_create_the_summary_is_bounded_and_has_no_contents() {
        let mut summary = Summary::default();
        for workspace in 0..500 {
            let cluster = format!("cluster-{workspace}-{}", "c".repeat(250));
            for number in 0..20 {
                let name = format!("ü{}", "ü".repeat(120 + number));
                let code = (number % 2 == 0).then_some(Code::Invalid);
                summary.add(&explained(&cluster, &name, "create", code));
            }
        }
        let status = summary.status(head());
        let text = serde_json::to_string(&status).unwrap();
        assert!(text.len() < 32 << 10, "{} bytes", text.len());
        assert!(!text.contains("secret-value"), "{text}");
        assert_eq!(status.workspaces.len(), WORKSPACES);
        assert_eq!(status.more_workspaces, 500 - WORKSPACES);
        assert_eq!((status.total.made, status.total.refused), (5000, 5000));
        assert_eq!(status.objects, 10_000);
        assert_eq!(status.problems.len(), NAMES + 1);
        assert_eq!(status.problems.last().unwrap(), "and 1990 more");
    }

    #[test]
    fn the_worst_workspaces_and_reasons_come_first() {
        let mut summary = Summary::default();
        for number in 0..5 {
            let name = format!("new-{number}");
            summary.add(&explained("many", &name, "create", None));
        }
        summary.add(&explained("gone", "a", "delete", None));
        summary.add(&explained("held", "b", "delete", Some(Code::Held)));
        summary.add(&explained("bad", "c", "create", Some(Code::Invalid)));
        summary.add(&explained("other", "d", "patch", None));
        let status = summary.status(head());
        let clusters: Vec<&str> = status.workspaces.iter().map(|one| &*one.cluster).collect();
        assert_eq!(clusters, ["bad", "gone", "held", "many", "other"]);
        let reasons: Vec<_> = status
            .reasons
            .iter()
            .map(|one| (&*one.reason, one.count, one.examples.len()))
            .collect();
        let (bad, held) = (Code::Invalid.as_str(), Code::Held.as_str());
        assert_eq!(
            reasons,
            [
                (bad, 1, 1),
                (held, 1, 1),
                ("Delete", 1, 1),
                ("Change", 1, 1),
                ("Create", 5, 3)
            ]
        );
        let wanted = PlannedWrites {
            made: 5,
            changed: 1,
            deleted: 1,
            held: 1,
            refused: 1,
        };
        assert_eq!(status.total, wanted);
        assert_eq!(status.reasons[4].examples[0], "default/new-0 in many");
    }
}
