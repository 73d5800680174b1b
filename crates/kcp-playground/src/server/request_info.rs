//! The target of a request, from its method and path alone, as in kube-apiserver's audit log: verb, cluster, resource.
//! The request log and the faults match on it.

use http::Method;
use percent_encoding::percent_decode_str;

use crate::catalog::Stage;

/// A request in the terms of Kubernetes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestInfo {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`; the HTTP method in lower
    /// case if the path names no resource (discovery, probes).
    pub verb: String,
    /// The cluster in the path: `root:org`, an id, `*`; empty for the service cluster.
    pub cluster: String,
    /// `owner/name` of the export whose virtual workspace is addressed; else empty.
    pub export: String,
    pub group: String,
    pub version: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
}

/// The parts of a path: control plane, cluster, and the path below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    pub front: Front,
    /// The Kubernetes path: begins with a slash, still percent-encoded.
    pub path: String,
}

/// The prefix of a request's path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Front {
    /// No prefix.
    Top,
    /// `/clusters/<cluster>`.
    Cluster(String),
    /// `/services/apiexport/<owner>/<export>/clusters/<cluster>`; with several shards, below `/shards/<number>`.
    Export {
        shard: Option<usize>,
        owner: String,
        export: String,
        cluster: String,
    },
    /// `/services/initializingworkspaces/<initializer>/clusters/<cluster>`, and the same for terminators.
    Waiting {
        stage: Stage,
        name: String,
        cluster: String,
    },
    /// An unknown path below `/services/`.
    Unknown,
}

impl Address {
    pub(crate) fn parse(path: &str) -> Self {
        if let Some(rest) = path.strip_prefix("/clusters/") {
            let (cluster, path) = split_segment(rest);
            return Self {
                front: Front::Cluster(decode(cluster)),
                path,
            };
        }
        let on_shard = path.strip_prefix("/shards/").and_then(|rest| {
            let (number, rest) = rest.split_once('/')?;
            Some((number.parse().ok()?, rest))
        });
        let (shard, service) = match on_shard {
            Some((number, rest)) => (Some(number), rest.strip_prefix("services/")),
            None => (None, path.strip_prefix("/services/")),
        };
        if let Some(rest) = service {
            let parts: Vec<&str> = rest.splitn(6, '/').collect();
            let below = |index: usize| {
                let consumed: usize = parts[..index].iter().map(|p| p.len() + 1).sum();
                format!("/{}", rest.get(consumed..).unwrap_or_default())
            };
            return match parts.as_slice() {
                ["apiexport", owner, export, "clusters", cluster, ..] => Self {
                    front: Front::Export {
                        shard,
                        owner: decode(owner),
                        export: decode(export),
                        cluster: decode(cluster),
                    },
                    path: below(5),
                },
                [service, name, "clusters", cluster, ..]
                    if shard.is_none() && stage(service).is_some() =>
                {
                    Self {
                        front: Front::Waiting {
                            stage: stage(service).unwrap_or(Stage::Initializing),
                            name: decode(name),
                            cluster: decode(cluster),
                        },
                        path: below(4),
                    }
                }
                _ => Self {
                    front: Front::Unknown,
                    path: path.to_owned(),
                },
            };
        }
        Self {
            front: Front::Top,
            path: path.to_owned(),
        }
    }
}

/// The stage of a virtual workspace of initializers or terminators.
fn stage(service: &str) -> Option<Stage> {
    match service {
        "initializingworkspaces" => Some(Stage::Initializing),
        "terminatingworkspaces" => Some(Stage::Terminating),
        _ => None,
    }
}

fn split_segment(rest: &str) -> (&str, String) {
    match rest.split_once('/') {
        Some((segment, path)) => (segment, format!("/{path}")),
        None => (rest, "/".to_owned()),
    }
}

fn decode(segment: &str) -> String {
    percent_decode_str(segment).decode_utf8_lossy().into_owned()
}

impl RequestInfo {
    pub(crate) fn new(method: &Method, address: &Address, query: Option<&str>) -> Self {
        let mut info = Self {
            verb: method.as_str().to_ascii_lowercase(),
            ..Self::default()
        };
        match &address.front {
            Front::Cluster(cluster) | Front::Waiting { cluster, .. } => {
                info.cluster.clone_from(cluster);
            }
            Front::Export {
                owner,
                export,
                cluster,
                ..
            } => {
                info.cluster.clone_from(cluster);
                info.export = format!("{owner}/{export}");
            }
            Front::Top | Front::Unknown => {}
        }
        let segments: Vec<String> = address
            .path
            .split('/')
            .filter(|s| !s.is_empty())
            .map(decode)
            .collect();
        let rest = match segments.as_slice() {
            [api, version, rest @ ..] if api == "api" => {
                info.version.clone_from(version);
                rest
            }
            [apis, group, version, rest @ ..] if apis == "apis" => {
                info.group.clone_from(group);
                info.version.clone_from(version);
                rest
            }
            _ => return info,
        };
        let rest = match rest {
            // Subresources of a namespace belong to the object `namespaces/<name>`.
            [namespaces, namespace, more @ ..]
                if namespaces == "namespaces"
                    && !more.is_empty()
                    && !matches!(more[0].as_str(), "status" | "finalize") =>
            {
                info.namespace.clone_from(namespace);
                more
            }
            _ => rest,
        };
        let mut rest = rest.iter().cloned();
        info.resource = rest.next().unwrap_or_default();
        info.name = rest.next().unwrap_or_default();
        info.subresource = rest.next().unwrap_or_default();
        if !info.resource.is_empty() {
            let verb = method_to_verb(method, is_watch(query), info.name.is_empty());
            verb.clone_into(&mut info.verb);
        }
        info
    }
}

fn method_to_verb(method: &Method, watch: bool, collection: bool) -> &'static str {
    match (method.as_str(), collection) {
        ("GET" | "HEAD", _) if watch => "watch",
        ("GET" | "HEAD", true) => "list",
        ("GET" | "HEAD", false) => "get",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", true) => "deletecollection",
        ("DELETE", false) => "delete",
        _ => "unknown",
    }
}

fn is_watch(query: Option<&str>) -> bool {
    form_urlencoded::parse(query.unwrap_or_default().as_bytes())
        .any(|(key, value)| key == "watch" && matches!(&*value, "true" | "1" | "True" | "t" | "T"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(method: &Method, target: &str, expected: &str) {
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (target, None),
        };
        let info = RequestInfo::new(method, &Address::parse(path), query);
        let found = format!(
            "{} [{}] [{}] {}/{}/{} {} {}/{}",
            info.verb,
            info.cluster,
            info.export,
            info.group,
            info.version,
            info.resource,
            info.subresource,
            info.namespace,
            info.name
        );
        assert_eq!(found, expected, "{target}");
    }

    #[test]
    fn an_address_says_verb_cluster_and_resource() {
        check(
            &Method::GET,
            "/clusters/root:org/api/v1/namespaces/a/secrets/b",
            "get [root:org] [] /v1/secrets  a/b",
        );
        check(
            &Method::GET,
            "/clusters/%2A/api/v1/secrets?watch=true",
            "watch [*] [] /v1/secrets  /",
        );
        check(
            &Method::PUT,
            "/services/apiexport/abc/example.com/clusters/xyz/apis/example.com/v1/namespaces/n/things/t/status",
            "update [xyz] [abc/example.com] example.com/v1/things status n/t",
        );
        check(
            &Method::PUT,
            "/api/v1/namespaces/a/finalize",
            "update [] [] /v1/namespaces finalize /a",
        );
        check(
            &Method::GET,
            "/api/v1/namespaces/a",
            "get [] [] /v1/namespaces  /a",
        );
        check(
            &Method::DELETE,
            "/apis/g/v1/things",
            "deletecollection [] [] g/v1/things  /",
        );
        check(
            &Method::GET,
            "/services/initializingworkspaces/root:universal/clusters/*/apis/core.kcp.io/v1alpha1/logicalclusters",
            "list [*] [] core.kcp.io/v1alpha1/logicalclusters  /",
        );
        check(&Method::GET, "/apis", "get [] [] //  /");
    }
}
