//! `latestResourceSchemas` of an export: the existing schemas, and those that are replaced.
//!
//! Schemas of other agents and of kinds that are no longer published stay forever: an API that a workspace has bound
//! must not vanish because somebody deleted a manifest.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// The resource of a schema: the part of its name that stays when its content changes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupResource {
    pub resource: String,
    /// Empty for the core group.
    pub group: String,
}

impl GroupResource {
    /// Reads the resource from a schema's name, `<prefix>.<plural>.<group>`.
    pub fn of_schema(name: &str) -> Option<Self> {
        let mut parts = name.splitn(3, '.');
        match (parts.next(), parts.next(), parts.next()) {
            (Some(prefix), Some(resource), Some(group))
                if !prefix.is_empty() && !resource.is_empty() && !group.is_empty() =>
            {
                let group = if group == "core" { "" } else { group };
                Some(Self {
                    resource: resource.to_owned(),
                    group: group.to_owned(),
                })
            }
            _ => None,
        }
    }
}

/// A request that cannot be fulfilled, for the owner.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaProblem {
    #[error(
        "{0:?} in latestResourceSchemas is not <prefix>.<plural>.<group> and is left unchanged: correct or remove it"
    )]
    Unreadable(String),
    #[error(
        "{left_out} is not exported, because {kept} is for the same resource: publish it under \
         another group or plural, or make both the same"
    )]
    Twice { kept: String, left_out: String },
}

/// The merged list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MergedSchemas {
    pub list: Vec<Value>,
    pub added: Vec<String>,
    /// Schemas that were replaced by a newer one of the same resource.
    pub replaced: Vec<String>,
    pub problems: Vec<SchemaProblem>,
}

impl MergedSchemas {
    /// Whether the list differs from before; the order alone does not count.
    pub fn differs(&self) -> bool {
        !self.added.is_empty() || !self.replaced.is_empty()
    }
}

/// Adds the agent's schemas to the list, in place of older ones of the same resources.
pub fn merge(existing: &[Value], ours: &BTreeSet<&str>) -> MergedSchemas {
    let mut merged = MergedSchemas::default();
    let listed: BTreeSet<&str> = existing.iter().filter_map(Value::as_str).collect();
    let chosen = choose(ours, &listed, &mut merged.problems);
    for entry in existing {
        let name = entry.as_str().unwrap_or_default();
        let Some(resource) = GroupResource::of_schema(name) else {
            let shown = entry
                .as_str()
                .map_or_else(|| entry.to_string(), str::to_owned);
            merged.problems.push(SchemaProblem::Unreadable(shown));
            merged.list.push(entry.clone());
            continue;
        };
        match chosen.get(&resource) {
            Some(newer) if *newer != name => merged.replaced.push(name.to_owned()),
            _ => merged.list.push(entry.clone()),
        }
    }
    for name in chosen.values().filter(|name| !listed.contains(**name)) {
        merged.added.push((*name).to_owned());
        merged.list.push(Value::from(*name));
    }
    merged.list.sort_by(|a, b| sort_key(a).cmp(sort_key(b)));
    merged.added.sort();
    merged
}

/// Keeps one schema for each resource, because kcp refuses two. An existing schema is kept, so that two manifests that
/// disagree do not alternate.
fn choose<'n>(
    ours: &BTreeSet<&'n str>,
    listed: &BTreeSet<&str>,
    problems: &mut Vec<SchemaProblem>,
) -> BTreeMap<GroupResource, &'n str> {
    let mut chosen: BTreeMap<GroupResource, &str> = BTreeMap::new();
    let (first, rest): (Vec<&str>, Vec<&str>) =
        ours.iter().copied().partition(|name| listed.contains(name));
    for name in first.into_iter().chain(rest) {
        let Some(resource) = GroupResource::of_schema(name) else {
            problems.push(SchemaProblem::Unreadable(name.to_owned()));
            continue;
        };
        if let Some(kept) = chosen.get(&resource) {
            problems.push(SchemaProblem::Twice {
                kept: (*kept).to_owned(),
                left_out: name.to_owned(),
            });
        } else {
            chosen.insert(resource, name);
        }
    }
    chosen
}

/// `<plural>.<group>`, by which api-syncagent sorts.
fn sort_key(entry: &Value) -> &str {
    let name = entry.as_str().unwrap_or_default();
    name.split_once('.').map_or(name, |(_, rest)| rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(existing: &[&str], ours: &[&str], list: &[&str], problems: &[&str]) -> MergedSchemas {
        let existing: Vec<Value> = existing.iter().map(|name| Value::from(*name)).collect();
        let ours = ours.iter().copied().collect();
        let merged = merge(&existing, &ours);
        assert_eq!(merged.list, list);
        let found: Vec<String> = merged.problems.iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), problems.len(), "{found:?}");
        for (found, wanted) in found.iter().zip(problems) {
            assert!(found.contains(wanted), "{found} does not say {wanted}");
        }
        merged
    }

    #[test]
    fn names_say_which_resource_they_are_for() {
        let read = |name| GroupResource::of_schema(name).map(|r| (r.resource, r.group));
        let pair = |a: &str, b: &str| Some((a.to_owned(), b.to_owned()));
        assert_eq!(read("v1.tabs.example.com"), pair("tabs", "example.com"));
        assert_eq!(read("v1.tabs.a"), pair("tabs", "a"));
        assert_eq!(read("v1.secrets.core"), pair("secrets", ""));
        for broken in ["", "v1", "v1.tabs", "v1..a", ".tabs.a", "v1.tabs."] {
            assert_eq!(read(broken), None, "{broken}");
        }
    }

    #[test]
    fn a_new_schema_is_added_in_the_order_of_resources() {
        let merged = check(
            &["v9.alphas.a.org", "v1.zeds.a.org"],
            &["v5.middles.a.org"],
            &["v9.alphas.a.org", "v5.middles.a.org", "v1.zeds.a.org"],
            &[],
        );
        assert_eq!(merged.added, ["v5.middles.a.org"]);
        assert!(merged.replaced.is_empty() && merged.differs());
    }

    #[test]
    fn a_newer_schema_takes_the_place_of_the_older_one_and_all_others_stay() {
        let merged = check(
            &["v1.tabs.a.org", "v1.tabs.b.org", "x.foreign.org"],
            &["v2.tabs.a.org"],
            &["x.foreign.org", "v2.tabs.a.org", "v1.tabs.b.org"],
            &[],
        );
        assert_eq!(merged.added, ["v2.tabs.a.org"]);
        assert_eq!(merged.replaced, ["v1.tabs.a.org"]);
    }

    #[test]
    fn schemas_that_nobody_publishes_any_more_stay() {
        let merged = check(&["v1.tabs.a.org"], &[], &["v1.tabs.a.org"], &[]);
        assert!(!merged.differs());
    }

    #[test]
    fn another_order_alone_is_no_change() {
        let merged = check(
            &["v1.zeds.a.org", "v1.alphas.a.org"],
            &["v1.alphas.a.org", "v1.zeds.a.org"],
            &["v1.alphas.a.org", "v1.zeds.a.org"],
            &[],
        );
        assert!(!merged.differs());
    }

    #[test]
    fn two_schemas_of_one_resource_do_not_take_turns() {
        let problem = "v1.tabs.a.org is not exported, because v2.tabs.a.org is for the same";
        let merged = check(
            &["v2.tabs.a.org"],
            &["v1.tabs.a.org", "v2.tabs.a.org"],
            &["v2.tabs.a.org"],
            &[problem],
        );
        assert!(!merged.differs());
        check(
            &["v0.tabs.a.org"],
            &["v2.tabs.a.org", "v1.tabs.a.org"],
            &["v1.tabs.a.org"],
            &["v2.tabs.a.org is not exported"],
        );
    }

    #[test]
    fn a_name_that_is_none_is_left_where_it_is_and_reported_but_not_added() {
        let merged = check(
            &["odd", "v1.tabs.a.org"],
            &["garbage", "v1.tabs.a.org"],
            &["odd", "v1.tabs.a.org"],
            &["\"garbage\"", "\"odd\""],
        );
        assert!(!merged.differs());
    }
}
