//! The pure part of `kubefedctl`: type lookup, generated objects, checks of arguments, output.

use std::cmp::Ordering;

use crate::types::type_config::{ApiResource, qualified};

pub mod disable;
pub mod discovery;
pub mod enable;
pub mod federate;
pub mod join;
pub mod orphaning;
pub mod yaml;

/// A type from discovery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resource {
    pub api: ApiResource,
    pub singular: String,
    pub short_names: Vec<String>,
    pub can_list: bool,
}

/// A name that matches no type, or several.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    #[error("Unable to find api resource named {0:?}.")]
    Unknown(String),
    #[error(
        "Multiple resources are matched by {name:?}: {}. A group-qualified plural name must be provided.",
        .found.join(", ")
    )]
    Ambiguous { name: String, found: Vec<String> },
}

impl Resource {
    /// Whether `name` is its plural, singular, kind, short or qualified name, in any case.
    fn is_named(&self, name: &str) -> bool {
        let api = &self.api;
        let own = [
            &api.plural_name,
            &self.singular,
            &api.kind,
            &api.qualified_name(),
        ];
        let mut names = own.into_iter().chain(&self.short_names);
        names.any(|own| !own.is_empty() && own.to_lowercase() == name.to_lowercase())
    }
}

/// Finds a type by name. A type of the core group takes precedence.
pub fn find<'a>(resources: &'a [Resource], name: &str) -> Result<&'a Resource, LookupError> {
    let mut hits: Vec<&Resource> = resources.iter().filter(|r| r.is_named(name)).collect();
    if let Some(core) = hits.iter().find(|hit| hit.api.group.is_empty()) {
        return Ok(core);
    }
    hits.sort_by_key(|hit| hit.api.qualified_name());
    match hits[..] {
        [] => Err(LookupError::Unknown(name.to_owned())),
        [hit] => Ok(hit),
        _ => Err(LookupError::Ambiguous {
            name: name.to_owned(),
            found: hits.iter().map(|hit| hit.api.qualified_name()).collect(),
        }),
    }
}

/// A type in messages: `deployments.apps/v1`.
fn shown(api: &ApiResource) -> String {
    format!(
        "{}/{}",
        qualified(&api.plural_name, &api.group),
        api.version
    )
}

/// The output of `version`. Unknown fields of the build are empty.
pub fn version(version: &str, platform: &str) -> String {
    format!(
        "kubefedctl version: version.Info{{Version:{version:?}, GitCommit:\"\", GitTreeState:\"\", BuildDate:\"\", \
         GoVersion:\"\", Compiler:\"rustc\", Platform:{platform:?}}}"
    )
}

/// Compares versions by Kubernetes' priority: `v1` above `v1beta2` above `v1alpha1` above other names.
fn rank(a: &str, b: &str) -> Ordering {
    fn parsed(version: &str) -> Option<(u8, u64, u64)> {
        let rest = version.strip_prefix('v')?;
        let end = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        let (major, rest) = rest.split_at(end);
        let major = major.parse().ok()?;
        if rest.is_empty() {
            return Some((2, major, 0));
        }
        let (stage, minor) = match rest.strip_prefix("beta") {
            Some(minor) => (1, minor),
            None => (0, rest.strip_prefix("alpha")?),
        };
        Some((stage, major, minor.parse().ok()?))
    }
    parsed(a).cmp(&parsed(b)).then_with(|| b.cmp(a))
}

#[cfg(test)]
fn resource(group: &str, version: &str, kind: &str, plural: &str, short: &[&str]) -> Resource {
    Resource {
        api: ApiResource {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
            plural_name: plural.into(),
            scope: "Namespaced".into(),
        },
        singular: kind.to_lowercase(),
        short_names: short.iter().map(|&name| name.to_owned()).collect(),
        can_list: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> [Resource; 5] {
        [
            resource("apps", "v1", "Deployment", "deployments", &["deploy"]),
            resource("example.com", "v1", "Deployment", "deployments", &[]),
            resource("metrics.k8s.io", "v1beta1", "PodMetrics", "pods", &[]),
            resource("", "v1", "Pod", "pods", &["po"]),
            resource("batch", "v1", "Job", "jobs", &[]),
        ]
    }

    fn found(name: &str) -> Result<String, String> {
        let known = known();
        let found = find(&known, name).map_err(|error| error.to_string())?;
        Ok(shown(&found.api))
    }

    #[test]
    fn a_type_is_found_by_every_name_it_has() {
        for name in ["jobs", "job", "Job", "JOBS", "jobs.batch"] {
            assert_eq!(found(name).as_deref(), Ok("jobs.batch/v1"));
        }
        assert_eq!(found("deploy").as_deref(), Ok("deployments.apps/v1"));
        assert_eq!(
            found("deployments.example.com").as_deref(),
            Ok("deployments.example.com/v1")
        );
        assert_eq!(
            found("pods").as_deref(),
            Ok("pods/v1"),
            "the core group goes first"
        );
    }

    #[test]
    fn what_means_no_type_or_several_is_told() {
        assert_eq!(
            found("x").unwrap_err(),
            "Unable to find api resource named \"x\"."
        );
        assert_eq!(
            found("deployment").unwrap_err(),
            "Multiple resources are matched by \"deployment\": deployments.apps, deployments.example.com. \
             A group-qualified plural name must be provided."
        );
    }

    #[test]
    fn the_version_is_printed_as_the_original_prints_it() {
        assert_eq!(
            version("v0.1.0", "linux/amd64"),
            "kubefedctl version: version.Info{Version:\"v0.1.0\", GitCommit:\"\", GitTreeState:\"\", BuildDate:\"\", \
             GoVersion:\"\", Compiler:\"rustc\", Platform:\"linux/amd64\"}"
        );
    }

    #[test]
    fn versions_are_ranked_as_kubernetes_ranks_them() {
        let mut versions = [
            "v1alpha1", "v10", "foo", "v1beta1", "v2", "v1beta2", "v2alpha1", "v1",
        ];
        versions.sort_by(|a, b| rank(b, a));
        assert_eq!(
            versions,
            [
                "v10", "v2", "v1", "v1beta2", "v1beta1", "v2alpha1", "v1alpha1", "foo"
            ]
        );
    }
}
