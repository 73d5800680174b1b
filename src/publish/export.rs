//! The desired export: the agent's schemas and claims added to the existing ones.
//!
//! Reads and writes the older version, `apis.kcp.io/v1alpha1`. Everything else in the object, especially its
//! annotations, is sent back unchanged: kcp keeps there what the older version cannot express.

use std::collections::BTreeSet;

use serde_json::Value;

use super::claims::{self, Claim, ClaimProblem, Needs};
use super::latest::{self, GroupResource, SchemaProblem};
use super::marks;

/// A published resource that has a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportedResource<'a> {
    pub schema: &'a str,
    pub needs: &'a Needs,
}

/// A request that could not be fulfilled. The rest is done all the same.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExportProblem {
    #[error(transparent)]
    Schema(#[from] SchemaProblem),
    #[error(transparent)]
    Claim(#[from] ClaimProblem),
}

impl ExportProblem {
    /// Whether it keeps this published resource from working as requested.
    pub fn concerns(&self, published: ExportedResource<'_>) -> bool {
        match self {
            Self::Schema(SchemaProblem::Unreadable(name)) => name == published.schema,
            Self::Schema(SchemaProblem::Twice { left_out, .. }) => left_out == published.schema,
            Self::Claim(problem) => published.needs.include(problem.claim()),
        }
    }
}

/// The changes to an export.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Merge {
    /// The whole object to write; `None` if nothing would change.
    pub object: Option<Value>,
    pub added_schemas: Vec<String>,
    pub replaced_schemas: Vec<String>,
    pub added_claims: Vec<Claim>,
    pub problems: Vec<ExportProblem>,
}

/// The reason why a response is not an export.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the APIExport cannot be read: {field} is not {expected}")]
pub struct UnreadableExport {
    field: &'static str,
    expected: &'static str,
}

/// Merges schemas and claims into an export, without claims that kcp does not accept.
pub fn merge(
    export: &Value,
    agent: &str,
    published: &[ExportedResource<'_>],
    refused: &[ClaimProblem],
) -> Result<Merge, UnreadableExport> {
    let listed = list(export, "latestResourceSchemas")?;
    let claimed = list(export, "permissionClaims")?;
    for (field, value) in [
        ("spec", &export["spec"]),
        ("metadata.annotations", &export["metadata"]["annotations"]),
    ] {
        if !value.is_null() && !value.is_object() {
            let expected = "an object";
            return Err(UnreadableExport { field, expected });
        }
    }
    let ours: BTreeSet<&str> = published.iter().map(|one| one.schema).collect();
    let schemas = latest::merge(listed, &ours);
    let own: BTreeSet<GroupResource> = listed
        .iter()
        .filter_map(Value::as_str)
        .chain(ours)
        .filter_map(GroupResource::of_schema)
        .collect();
    let mut wanted = BTreeSet::from([Claim::new("", "events", "")]);
    for one in published {
        wanted.extend(one.needs.claims(&own).cloned());
    }
    for problem in refused {
        wanted.remove(problem.claim());
    }
    let claims = claims::merge(claimed, &full_claims(export), &wanted);
    let marked = export["metadata"]["annotations"][marks::AGENT_NAME] == agent;

    let changed = schemas.differs() || !claims.added.is_empty() || !marked;
    let problems = schemas.problems.into_iter().map(ExportProblem::from);
    let claim_problems = claims.problems.into_iter().chain(refused.iter().cloned());
    let problems = problems.chain(claim_problems.map(ExportProblem::from));
    Ok(Merge {
        problems: problems.collect(),
        object: changed.then(|| {
            let mut object = export.clone();
            object["metadata"]["annotations"][marks::AGENT_NAME] = agent.into();
            if !schemas.list.is_empty() {
                object["spec"]["latestResourceSchemas"] = schemas.list.into();
            }
            object["spec"]["permissionClaims"] = claims.list.into();
            object
        }),
        added_schemas: schemas.added,
        replaced_schemas: schemas.replaced,
        added_claims: claims.added,
    })
}

fn list<'e>(export: &'e Value, field: &'static str) -> Result<&'e [Value], UnreadableExport> {
    match &export["spec"][field] {
        Value::Null => Ok(&[]),
        Value::Array(list) => Ok(list),
        _ => Err(UnreadableExport {
            field,
            expected: "a list",
        }),
    }
}

/// The claims that the older version cannot show in full. Text that is not a list is for kcp to reject.
fn full_claims(export: &Value) -> Vec<Value> {
    let text = export["metadata"]["annotations"][claims::FULL_CLAIMS].as_str();
    let list = text.and_then(|text| serde_json::from_str(text).ok());
    list.unwrap_or_default()
}

impl Merge {
    /// The events about the write: type, reason, and text for the owner of the export.
    pub fn notices(&self) -> Vec<(&'static str, &'static str, String)> {
        let mut notices = Vec::new();
        let mut say = |kind, reason, what: &str, names: &[String]| {
            if !names.is_empty() {
                notices.push((kind, reason, format!("{what}: {}.", names.join(", "))));
            }
        };
        let claims: Vec<String> = self.added_claims.iter().map(Claim::to_string).collect();
        let (added, replaced) = (&self.added_schemas, &self.replaced_schemas);
        say("Normal", "AddingResourceSchemas", "Adding schemas", added);
        say(
            "Warning",
            "RemovingResourceSchemas",
            "Replacing schemas",
            replaced,
        );
        say(
            "Normal",
            "AddingPermissionClaims",
            "Adding permission claims",
            &claims,
        );
        notices
    }
}

#[cfg(test)]
mod tests;
