//! The target of a path below a scope. It only parses: the catalog knows whether the API exists.

use percent_encoding::percent_decode_str;

/// The target of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// `/readyz`, `/livez`, `/healthz` and their checks.
    Health,
    Version,
    /// `/api`
    CoreVersions,
    /// `/apis`
    Groups,
    /// `/apis/<group>`
    Group(String),
    /// `/api/v1`, `/apis/<group>/<version>`
    Resources {
        group: String,
        version: String,
    },
    /// `/openapi/v2`
    Swagger,
    /// `/openapi/v3`
    OpenApi,
    /// An entry in the index of `/openapi/v3`: `apis/<group>/<version>`.
    OpenApiOf(String),
    Resource(ResourcePath),
    Nothing,
}

/// A collection, an object or a subresource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ResourcePath {
    pub(super) group: String,
    pub(super) version: String,
    /// The namespace in the path.
    pub(super) namespace: Option<String>,
    pub(super) plural: String,
    /// `None` for the collection.
    pub(super) name: Option<String>,
    /// The subresource; empty for the object itself.
    pub(super) subresource: String,
}

impl Target {
    pub(super) fn parse(path: &str) -> Self {
        let Some(segments) = segments(path) else {
            return Self::Nothing;
        };
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        match segments.as_slice() {
            ["readyz" | "livez" | "healthz"]
            | ["readyz" | "livez" | "healthz", "ping" | "etcd" | "log"] => Self::Health,
            ["version"] => Self::Version,
            ["openapi", "v2"] => Self::Swagger,
            ["openapi", "v3"] => Self::OpenApi,
            ["openapi", "v3", path @ ..] => Self::OpenApiOf(path.join("/")),
            ["api"] => Self::CoreVersions,
            ["apis"] => Self::Groups,
            ["apis", group] => Self::Group((*group).to_owned()),
            ["api", version] => Self::Resources {
                group: String::new(),
                version: (*version).to_owned(),
            },
            ["apis", group, version] => Self::Resources {
                group: (*group).to_owned(),
                version: (*version).to_owned(),
            },
            ["api", version, rest @ ..] => resource("", version, rest),
            ["apis", group, version, rest @ ..] => resource(group, version, rest),
            _ => Self::Nothing,
        }
    }
}

/// The decoded segments; `None` if one is empty or not UTF-8. A slash at the end is accepted.
fn segments(path: &str) -> Option<Vec<String>> {
    let path = path.strip_prefix('/')?;
    let path = path.strip_suffix('/').unwrap_or(path);
    path.split('/')
        .map(|segment| {
            let decoded = percent_decode_str(segment).decode_utf8().ok()?;
            (!decoded.is_empty()).then(|| decoded.into_owned())
        })
        .collect()
}

fn resource(group: &str, version: &str, rest: &[&str]) -> Target {
    let path = ResourcePath {
        group: group.to_owned(),
        version: version.to_owned(),
        ..ResourcePath::default()
    };
    let (namespace, rest) = match rest {
        // The namespace itself, or its content.
        ["namespaces", _] => (None, rest),
        ["namespaces", _, "status" | "finalize"] if group.is_empty() => (None, rest),
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some(*namespace), rest),
        _ => (None, rest),
    };
    let (plural, name, subresource) = match rest {
        [plural] => (*plural, None, ""),
        [plural, name] => (*plural, Some((*name).to_owned()), ""),
        [plural, name, subresource] => (*plural, Some((*name).to_owned()), *subresource),
        _ => return Target::Nothing,
    };
    Target::Resource(ResourcePath {
        namespace: namespace.map(str::to_owned),
        plural: plural.to_owned(),
        name,
        subresource: subresource.to_owned(),
        ..path
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, namespace: Option<&str>, rest: (&str, Option<&str>, &str)) {
        let Target::Resource(found) = Target::parse(path) else {
            panic!("{path} addresses no resource");
        };
        assert_eq!(found.namespace.as_deref(), namespace, "{path}");
        let got = (
            found.plural.as_str(),
            found.name.as_deref(),
            found.subresource.as_str(),
        );
        assert_eq!(got, rest, "{path}");
    }

    #[test]
    fn collections_objects_and_their_parts_are_told_apart() {
        check("/api/v1/secrets", None, ("secrets", None, ""));
        check("/api/v1/namespaces", None, ("namespaces", None, ""));
        check("/api/v1/namespaces/a", None, ("namespaces", Some("a"), ""));
        check(
            "/api/v1/namespaces/a/finalize",
            None,
            ("namespaces", Some("a"), "finalize"),
        );
        check(
            "/api/v1/namespaces/a/secrets/",
            Some("a"),
            ("secrets", None, ""),
        );
        check(
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/a%3Ab",
            None,
            ("clusterroles", Some("a:b"), ""),
        );
        check(
            "/apis/e.com/v1/namespaces/n/things/t/status",
            Some("n"),
            ("things", Some("t"), "status"),
        );
    }

    #[test]
    fn other_paths_address_discovery_or_nothing() {
        assert_eq!(Target::parse("/readyz"), Target::Health);
        assert_eq!(Target::parse("/readyz/ping"), Target::Health);
        assert_eq!(Target::parse("/version/"), Target::Version);
        assert_eq!(Target::parse("/apis/e.com"), Target::Group("e.com".into()));
        for path in [
            "",
            "/",
            "//",
            "/api//v1",
            "/apis/g/v1/a/b/c/d",
            "/apis/g/v1/%FF",
        ] {
            assert_eq!(Target::parse(path), Target::Nothing, "{path}");
        }
    }
}
