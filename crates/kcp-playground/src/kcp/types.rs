//! Workspace types: the type of a new workspace, and its allowed parents. Pure: the caller passes a function that looks
//! up types.

use std::collections::BTreeSet;

use serde_json::{Value, json};

/// A workspace type, by the path of its workspace and its name: `path:name`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TypeRef {
    pub path: String,
    pub name: String,
}

/// The relevant parts of a `WorkspaceType`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WorkspaceType {
    pub name: TypeRef,
    pub extends: Vec<TypeRef>,
    pub default_child: TypeRef,
    pub allowed_children: Limit,
    pub allowed_parents: Limit,
    /// Path and name of the exports that every workspace of the type is bound to.
    pub bindings: Vec<(String, String)>,
    pub initializer: bool,
    pub terminator: bool,
    /// The labels of its workspaces.
    pub labels: Vec<(String, String)>,
    /// Whether the bindings are maintained in existing workspaces.
    pub maintains: bool,
}

/// The types that are allowed as parents or children.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    Any,
    None,
    Only(Vec<TypeRef>),
}

/// The reason why a workspace may not be created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WorkspaceTypeError {
    #[error("workspace type {0} cannot be resolved")]
    Unknown(String),
    #[error(
        "workspace type {child} cannot be used as a child of {parent}: {by} allows only other children"
    )]
    Child {
        child: String,
        parent: String,
        by: String,
    },
    #[error("workspace type {child} cannot be used below {parent}: {by} allows only other parents")]
    Parent {
        child: String,
        parent: String,
        by: String,
    },
}

impl std::fmt::Display for TypeRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.path, self.name)
    }
}

impl TypeRef {
    pub(crate) fn new(path: &str, name: &str) -> Self {
        Self {
            path: path.to_owned(),
            name: name.to_owned(),
        }
    }

    /// Parses `path:name`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (path, name) = text.rsplit_once(':')?;
        Some(Self::new(path, name))
    }

    /// Reads `{name, path}`. The default path is that of the type that contains the reference.
    fn of(value: &Value, home: &str) -> Option<Self> {
        let name = value["name"].as_str()?;
        let path = value["path"].as_str().filter(|p| !p.is_empty());
        Some(Self::new(path.unwrap_or(home), name))
    }
}

impl WorkspaceType {
    /// Reads a `WorkspaceType` object in the workspace with a path.
    pub(crate) fn read(object: &Value, path: &str) -> Self {
        let spec = &object["spec"];
        let list = |value: &Value| -> Vec<TypeRef> {
            let items = value.as_array().into_iter().flatten();
            items.filter_map(|item| TypeRef::of(item, path)).collect()
        };
        let limit = |value: &Value| match value {
            Value::Object(limit) if limit.get("none") == Some(&json!(true)) => Limit::None,
            Value::Object(limit) => match limit.get("types") {
                Some(types) => Limit::Only(list(types)),
                None => Limit::Any,
            },
            _ => Limit::Any,
        };
        let bindings = spec["defaultAPIBindings"].as_array().into_iter().flatten();
        Self {
            name: TypeRef::new(
                path,
                object["metadata"]["name"].as_str().unwrap_or_default(),
            ),
            extends: list(&spec["extend"]["with"]),
            default_child: TypeRef::of(&spec["defaultChildWorkspaceType"], path)
                .unwrap_or_else(|| TypeRef::new("root", "universal")),
            allowed_children: limit(&spec["limitAllowedChildren"]),
            allowed_parents: limit(&spec["limitAllowedParents"]),
            bindings: bindings
                .filter_map(|b| {
                    let export = b["export"].as_str()?;
                    Some((
                        b["path"].as_str().unwrap_or(path).to_owned(),
                        export.to_owned(),
                    ))
                })
                .collect(),
            initializer: spec["initializer"] == true,
            terminator: spec["terminator"] == true,
            labels: spec["additionalWorkspaceLabels"]
                .as_object()
                .into_iter()
                .flatten()
                .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
                .collect(),
            maintains: spec["defaultAPIBindingLifecycle"] == "Maintain",
        }
    }
}

/// A type and all types that it extends, itself first. Cycles end.
pub(crate) fn with_extended(
    start: &TypeRef,
    lookup: &dyn Fn(&TypeRef) -> Option<WorkspaceType>,
) -> Result<Vec<WorkspaceType>, WorkspaceTypeError> {
    let mut found: Vec<WorkspaceType> = Vec::new();
    let mut seen = BTreeSet::new();
    let mut open = vec![start.clone()];
    while let Some(next) = open.pop() {
        if !seen.insert(next.clone()) {
            continue;
        }
        let this = lookup(&next).ok_or_else(|| WorkspaceTypeError::Unknown(next.to_string()))?;
        open.extend(this.extends.iter().rev().cloned());
        found.push(this);
    }
    Ok(found)
}

/// Whether a workspace of one type may be a child of a workspace of another. Both are given with all types that they
/// extend, themselves first.
pub(crate) fn check_child(
    parent: &[WorkspaceType],
    child: &[WorkspaceType],
) -> Result<(), WorkspaceTypeError> {
    let (Some(parent_type), Some(child_type)) = (parent.first(), child.first()) else {
        return Ok(());
    };
    for above in parent {
        if !permits(&above.allowed_children, child) {
            return Err(WorkspaceTypeError::Child {
                child: child_type.name.to_string(),
                parent: parent_type.name.to_string(),
                by: above.name.to_string(),
            });
        }
    }
    for below in child {
        if !permits(&below.allowed_parents, parent) {
            return Err(WorkspaceTypeError::Parent {
                child: child_type.name.to_string(),
                parent: parent_type.name.to_string(),
                by: below.name.to_string(),
            });
        }
    }
    Ok(())
}

fn permits(limit: &Limit, types: &[WorkspaceType]) -> bool {
    match limit {
        Limit::Any => true,
        Limit::None => false,
        Limit::Only(allowed) => types.iter().any(|t| allowed.contains(&t.name)),
    }
}

/// The places to look up a type that was named without a path: this workspace, then each one above, then `root`.
pub(crate) fn search_paths(here: &str) -> Vec<&str> {
    let mut paths = vec![here];
    let mut at = here;
    while let Some(parent) = super::paths::parent(at) {
        paths.push(parent);
        at = parent;
    }
    if !paths.contains(&"root") {
        paths.push("root");
    }
    paths
}

/// The types in `root`: name and spec.
pub(crate) fn built_in() -> Vec<(&'static str, Value)> {
    let universal = json!({"name": "universal", "path": "root"});
    let organization = json!({"name": "organization", "path": "root"});
    let team = json!({"name": "team", "path": "root"});
    let root = json!({"name": "root", "path": "root"});
    vec![
        (
            "root",
            json!({
                "defaultChildWorkspaceType": organization, "limitAllowedParents": {"none": true},
                "extend": {"with": [universal]},
            }),
        ),
        (
            "organization",
            json!({
                "defaultChildWorkspaceType": universal, "extend": {"with": [universal]},
                "limitAllowedChildren": {"types": [universal]}, "limitAllowedParents": {"types": [root]},
            }),
        ),
        (
            "team",
            json!({
                "defaultChildWorkspaceType": universal, "extend": {"with": [universal]},
                "limitAllowedParents": {"types": [organization, team]},
            }),
        ),
        (
            "universal",
            json!({
                "initializer": true, "defaultChildWorkspaceType": universal,
                "defaultAPIBindings": [
                    {"path": "root", "export": "tenancy.kcp.io"}, {"path": "root", "export": "topology.kcp.io"},
                ],
            }),
        ),
        (
            "home",
            json!({
                "defaultChildWorkspaceType": universal, "extend": {"with": [universal]},
                "limitAllowedParents": {"none": true},
            }),
        ),
    ]
}

/// The requirements of a type for its clusters.
#[derive(Default)]
pub(super) struct Demands {
    /// Path and name of the exports to bind.
    pub(super) bindings: Vec<(String, String)>,
    /// The initializers that have to finish before a cluster is ready.
    pub(super) initializers: Vec<String>,
    /// The terminators that have to finish before a cluster is removed.
    pub(super) terminators: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(name: &TypeRef) -> Option<WorkspaceType> {
        let (found, spec) = built_in().into_iter().find(|(n, _)| *n == name.name)?;
        (name.path == "root").then(|| {
            WorkspaceType::read(&json!({"metadata": {"name": found}, "spec": spec}), "root")
        })
    }

    fn whole(name: &str) -> Vec<WorkspaceType> {
        with_extended(&TypeRef::new("root", name), &lookup).unwrap()
    }

    #[track_caller]
    fn check(parent: &str, child: &str, allowed: bool) {
        assert_eq!(
            check_child(&whole(parent), &whole(child)).is_ok(),
            allowed,
            "{child} below {parent}"
        );
    }

    #[test]
    fn types_stand_only_where_both_sides_allow() {
        check("root", "organization", true);
        check("root", "universal", true);
        check("root", "team", false);
        check("root", "home", false);
        check("root", "root", false);
        check("organization", "universal", true);
        check("organization", "team", true);
        check("organization", "organization", false);
        check("team", "team", true);
        check("universal", "universal", true);
        check("universal", "team", false);
        check("home", "universal", true);
    }

    #[test]
    fn a_refusal_names_the_type_whose_limit_it_is() {
        let error = check_child(&whole("organization"), &whole("organization")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "workspace type root:organization cannot be used below root:organization: root:organization allows only other parents"
        );
    }

    #[test]
    fn every_type_inherits_the_default_bindings() {
        for name in ["root", "organization", "team", "universal", "home"] {
            let bindings: Vec<_> = whole(name).into_iter().flat_map(|t| t.bindings).collect();
            assert_eq!(
                bindings,
                [
                    ("root".to_owned(), "tenancy.kcp.io".to_owned()),
                    ("root".to_owned(), "topology.kcp.io".to_owned())
                ]
            );
        }
    }

    #[test]
    fn types_that_extend_each_other_end_and_missing_ones_are_named() {
        let cycle = |name: &TypeRef| {
            let other = if name.name == "a" { "b" } else { "a" };
            Some(WorkspaceType::read(
                &json!({"metadata": {"name": name.name}, "spec": {"extend": {"with": [{"name": other}]}}}),
                "root",
            ))
        };
        assert_eq!(
            with_extended(&TypeRef::new("root", "a"), &cycle)
                .unwrap()
                .len(),
            2
        );
        assert_eq!(
            with_extended(&TypeRef::new("root:x", "nope"), &lookup),
            Err(WorkspaceTypeError::Unknown("root:x:nope".into()))
        );
    }

    #[test]
    fn a_type_without_a_path_is_searched_upwards() {
        assert_eq!(search_paths("root:a:b"), ["root:a:b", "root:a", "root"]);
        assert_eq!(search_paths("user:bob"), ["user:bob", "user", "root"]);
        assert_eq!(search_paths("root"), ["root"]);
    }
}
