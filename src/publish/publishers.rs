//! Several published resources of one kind: which of them takes precedence.
//!
//! The marks of a copy name an object of a workspace by its cluster, namespace and name, not by its kind. If one kind
//! of the service cluster is published under two names, objects of both with one name would lead to one copy. So only
//! the name that the oldest published resource gives is valid.

use super::problem::Problem;
use super::projection;
use super::types::PublishedResourceSpec;

/// A published resource, with the names under which it publishes a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publisher {
    name: String,
    created: Option<String>,
    /// Group and kind on the service cluster,
    local: (String, String),
    /// and in workspaces.
    remote: (String, String),
}

impl Publisher {
    /// `created` is the creation timestamp as text, if there is one.
    pub fn of(spec: &PublishedResourceSpec, name: &str, created: Option<&str>) -> Self {
        let resource = &spec.resource;
        Self {
            name: name.to_owned(),
            created: created.map(str::to_owned),
            local: (resource.api_group.clone(), resource.kind.clone()),
            remote: projection::published_as(spec),
        }
    }

    /// Whether both publish the same kind of the service cluster.
    pub fn meets(&self, other: &Self) -> bool {
        self.local == other.local
    }

    /// The problem of this one, given all others: the oldest publishes its kind under another name. Of those of one
    /// time, the first by name counts as the oldest.
    pub fn problem<'a>(&'a self, all: impl IntoIterator<Item = &'a Self>) -> Option<Problem> {
        let all = all.into_iter().chain([self]);
        let oldest = all.filter(|one| self.meets(one)).min_by_key(|one| {
            // What has no time was not created yet.
            (one.created.is_none(), &one.created, &one.name)
        })?;
        if oldest.remote == self.remote {
            return None;
        }
        let (group, kind) = &oldest.remote;
        let message = format!(
            "{} of {} is published as {kind} of {group} by {:?}, which is older, and a copy belongs \
             to one object only",
            self.local.1, self.local.0, oldest.name
        );
        let hint = "publish a kind under one name, or delete the other PublishedResource first";
        Some(Problem::new("spec.projection", message).with_hint(hint))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn publisher(name: &str, created: Option<&str>, projection: &Value) -> Publisher {
        let spec = json!({"resource": {"apiGroup": "a.io", "kind": "CronTab", "version": "v1"},
            "projection": projection});
        let spec: PublishedResourceSpec = serde_json::from_value(spec).unwrap();
        Publisher::of(&spec, name, created)
    }

    /// The names of those that are refused together.
    fn refused(all: &[Publisher]) -> Vec<&str> {
        let refused = all.iter().filter(|one| one.problem(all).is_some());
        refused.map(|one| one.name.as_str()).collect()
    }

    #[test]
    fn of_two_names_for_one_kind_the_one_that_the_oldest_gives_counts() {
        let (early, late) = (Some("2026-01-01T00:00:00Z"), Some("2026-01-02T00:00:00Z"));
        let night = || json!({"kind": "NightJob"});
        let mut all = vec![
            publisher("a", late, &night()),
            publisher("b", early, &json!({})),
            publisher("c", late, &json!({"kind": "CronTab", "group": ""})),
            publisher("d", None, &json!({"group": "b.io"})),
        ];
        for _ in 0..all.len() {
            let mut refused = refused(&all);
            refused.sort_unstable();
            assert_eq!(refused, ["a", "d"]);
            all.rotate_left(1);
        }
        let told = all[0].problem(&all).unwrap().to_string();
        assert!(
            told.contains("published as CronTab of a.io by \"b\""),
            "{told}"
        );
    }

    #[test]
    fn of_one_time_the_first_name_counts() {
        let at = Some("2026-01-01T00:00:00Z");
        let all = [
            publisher("b", at, &json!({})),
            publisher("a", at, &json!({"kind": "NightJob"})),
        ];
        assert_eq!(refused(&all), ["b"]);
    }

    #[test]
    fn one_name_may_be_published_in_parts_and_other_kinds_are_not_meant() {
        let at = Some("2026-01-01T00:00:00Z");
        let parts = [
            publisher("a", at, &json!({"kind": "NightJob"})),
            publisher("b", at, &json!({"kind": "NightJob", "plural": "nightjobs"})),
        ];
        assert_eq!(refused(&parts), [""; 0]);
        let spec = json!({"resource": {"apiGroup": "a.io", "kind": "Lamp", "version": "v1"}});
        let spec: PublishedResourceSpec = serde_json::from_value(spec).unwrap();
        let lamp = Publisher::of(&spec, "lamp", at);
        assert_eq!(lamp.problem(&parts), None);
    }
}
