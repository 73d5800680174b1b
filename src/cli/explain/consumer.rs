//! `hawser explain --consumer`: an object as its consumer can explain it, with the rights in the workspace alone.

use std::path::PathBuf;

use futures::future::join_all;
use jiff::Timestamp;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::sheet::{self, Cause, SheetHead, line};
use crate::cli::output::Output;
use crate::explain::is_of_kind;
use crate::publish::agent::consumer::{ConsumerAnswer, ConsumerFinding, WorkspaceView};
use hawser_runtime::cluster::config::{ConfigError, Environment, Lookup, Source, Watched};
use hawser_runtime::cluster::connection::{Call, ConnectError, Connection, Limits, RequestError};
use kube_lang::object::{Gvk, Object};

/// The characters of a name that need no escaping in a path.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b':');
/// The group of bindings, in the versions that a kcp may serve.
const BINDINGS: [&str; 2] = [
    "/apis/apis.kcp.io/v1alpha1/apibindings",
    "/apis/apis.kcp.io/v1alpha2/apibindings",
];
/// The maximum of events that are read, and of bindings.
const LIMIT: usize = 500;

/// The object in question.
pub(super) struct Asked {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) namespace: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum ConsumerFailed {
    #[error(transparent)]
    Config(ConfigError),
    #[error(
        "no configuration of the workspace: write --consumer=FILE, set KUBECONFIG, or create ~/.kube/config"
    )]
    Nowhere,
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("reading {what}")]
    Read {
        what: String,
        #[source]
        source: Box<RequestError>,
    },
    #[error("{0} is not an object")]
    Unreadable(String),
    #[error("the workspace does not serve the kind {0:?}")]
    KindUnknown(String),
    #[error("the kind {kind:?} was not found, and not every group of the workspace answered")]
    GroupSilent {
        kind: String,
        #[source]
        source: Box<RequestError>,
    },
    #[error("the kind {kind:?} is ambiguous: {known}")]
    Ambiguous { kind: String, known: String },
}

/// A kind, as the workspace serves it.
struct ServedKind {
    kind: Gvk,
    resource: String,
    namespaced: bool,
}

pub(super) async fn run(
    kubeconfig: &str,
    asked: Asked,
    output: Output,
) -> Result<String, ConsumerFailed> {
    let lookup = Lookup {
        kubeconfig: Some(kubeconfig)
            .filter(|path| !path.is_empty())
            .map(PathBuf::from),
        ..Lookup::default()
    };
    let source = Source::find(&lookup, &Environment::of_process())?;
    let (_watched, config) = Watched::start(source)?;
    let default_namespace = config.default_namespace.clone();
    let workspace = Connection::new(config, Limits::default())?;
    let served = served_kind(&workspace, &asked.kind).await?;
    let namespace = asked.namespace.unwrap_or(default_namespace);
    let namespace = Some(namespace).filter(|_| served.namespaced);
    let view = read(&workspace, &served, namespace.as_deref(), &asked.name).await?;
    let answer = view.explain(Timestamp::now());
    Ok(output.show(
        || human(&view.object, &answer),
        || machine(&view.object, &answer),
    ))
}

/// Finds the kind by its name, its plural, or either with the group.
async fn served_kind(workspace: &Connection, name: &str) -> Result<ServedKind, ConsumerFailed> {
    let groups = ask(workspace, "/apis", "the groups that the workspace serves").await?;
    let served = groups["groups"].as_array();
    let versions = served.into_iter().flatten().flat_map(versions);
    let paths = std::iter::once("/api/v1".to_owned()).chain(versions);
    let documents = paths.map(async |path| workspace.ask(Call::get(path)).await);
    let documents = join_all(documents).await;
    let mut found: Vec<ServedKind> = Vec::new();
    for document in documents.iter().flatten() {
        for served in kinds(document) {
            let is_it = is_of_kind(name, &served.kind, &served.resource);
            // A version before this one has it too.
            let is_found = found.iter().any(|one| one.is_in_group_of(&served));
            if is_it && !is_found {
                found.push(served);
            }
        }
    }
    if found.is_empty()
        && let Some(source) = documents.into_iter().find_map(Result::err)
    {
        return Err(ConsumerFailed::GroupSilent {
            kind: name.to_owned(),
            source: Box::new(source),
        });
    }
    let known = found
        .iter()
        .map(|one| format!("{}.{}", one.resource, one.kind.group));
    let known = known.collect::<Vec<_>>().join(", ");
    match (found.pop(), found.is_empty()) {
        (None, _) => Err(ConsumerFailed::KindUnknown(name.to_owned())),
        (Some(only), true) => Ok(only),
        (Some(_), false) => Err(ConsumerFailed::Ambiguous {
            kind: name.to_owned(),
            known,
        }),
    }
}

impl From<ConfigError> for ConsumerFailed {
    fn from(error: ConfigError) -> Self {
        match error {
            // Its message names the other side.
            ConfigError::Nowhere => Self::Nowhere,
            error => Self::Config(error),
        }
    }
}

impl ServedKind {
    fn is_in_group_of(&self, other: &Self) -> bool {
        (&self.kind.group, &self.resource) == (&other.kind.group, &other.resource)
    }
}

/// The paths of the versions of a group, the preferred one first.
fn versions(group: &Value) -> Vec<String> {
    let preferred = &group["preferredVersion"];
    let others = group["versions"].as_array().into_iter().flatten();
    let others = others.filter(|version| version["groupVersion"] != preferred["groupVersion"]);
    let all = std::iter::once(preferred).chain(others);
    let paths = all.filter_map(|version| {
        let version = version["groupVersion"].as_str()?;
        Some(format!("/apis/{version}"))
    });
    paths.collect()
}

/// The kinds of a discovery document.
fn kinds(document: &Value) -> Vec<ServedKind> {
    let version = document["groupVersion"].as_str().unwrap_or_default();
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let listed = document["resources"].as_array();
    let listed = listed.into_iter().flatten();
    let kind = |one: &Value| {
        let resource = one["name"].as_str().filter(|name| !name.contains('/'))?;
        Some(ServedKind {
            kind: Gvk::new(group, version, one["kind"].as_str()?),
            resource: resource.to_owned(),
            namespaced: one["namespaced"] == true,
        })
    };
    listed.filter_map(kind).collect()
}

/// Reads what the answer follows from. Only the object itself has to be readable.
async fn read(
    workspace: &Connection,
    served: &ServedKind,
    namespace: Option<&str>,
    name: &str,
) -> Result<WorkspaceView, ConsumerFailed> {
    let root = if served.kind.group.is_empty() {
        "/api"
    } else {
        "/apis"
    };
    let segment = |text| utf8_percent_encode(text, SEGMENT);
    let near = namespace.map(|namespace| format!("/namespaces/{}", segment(namespace)));
    let at = format!(
        "{root}/{}{}/{}/{}",
        served.kind.api_version(),
        near.unwrap_or_default(),
        served.resource,
        segment(name)
    );
    let what = format!("{} {name}", served.kind.kind);
    let object = ask(workspace, &at, &what).await?;
    let object = Object::new(object).map_err(|_| ConsumerFailed::Unreadable(what))?;
    let selector = form_urlencoded::Serializer::new(String::new())
        .append_pair("fieldSelector", &format!("involvedObject.name={name}"))
        .append_pair("limit", &LIMIT.to_string())
        .finish();
    // Events about objects without a namespace are in this one.
    let place = segment(namespace.unwrap_or("default"));
    let events = format!("/api/v1/namespaces/{place}/events?{selector}");
    let events = list(workspace, &events).await.map_err(|list| list.why);
    let bindings = bindings(workspace).await;
    let namespace = match namespace {
        None => None,
        Some(namespace) => {
            let at = format!("/api/v1/namespaces/{}", segment(namespace));
            let found = workspace.ask(Call::get(at));
            let found = found.await.map_err(|error| error.to_string());
            let not_read = |error: kube_lang::object::ObjectError| error.to_string();
            Some(found.and_then(|value| Object::new(value).map_err(not_read)))
        }
    };
    Ok(WorkspaceView {
        object,
        resource: served.resource.clone(),
        namespace,
        events,
        bindings,
    })
}

async fn ask(workspace: &Connection, path: &str, what: &str) -> Result<Value, ConsumerFailed> {
    let answer = workspace.ask(Call::get(path)).await;
    answer.map_err(|source| ConsumerFailed::Read {
        what: what.to_owned(),
        source: Box::new(source),
    })
}

/// The bindings, in the first version that is served.
async fn bindings(workspace: &Connection) -> Result<Vec<Object>, String> {
    let mut problem: Option<UnreadList> = None;
    for path in BINDINGS {
        match list(workspace, &format!("{path}?limit={LIMIT}")).await {
            Ok(all) => {
                let objects = all.into_iter().map(Object::new);
                return Ok(objects.filter_map(Result::ok).collect());
            }
            Err(unread) if problem.as_ref().is_none_or(|first| first.is_missing) => {
                problem = Some(unread);
            }
            Err(_) => {}
        }
    }
    Err(problem.map(|problem| problem.why).unwrap_or_default())
}

/// The reason why a list could not be read.
struct UnreadList {
    why: String,
    /// The version is not served.
    is_missing: bool,
}

async fn list(workspace: &Connection, path: &str) -> Result<Vec<Value>, UnreadList> {
    let answer = workspace.ask(Call::get(path)).await;
    let mut answer = answer.map_err(|error| UnreadList {
        why: error.to_string(),
        is_missing: error.code() == Some(404),
    })?;
    match answer.get_mut("items").map(Value::take) {
        Some(Value::Array(mut items)) => {
            items.retain(Value::is_object);
            // Items of lists have no kind of their own.
            let of_list = |field: &str| answer[field].as_str().unwrap_or_default().to_owned();
            let (version, kind) = (of_list("apiVersion"), of_list("kind"));
            let kind = kind.strip_suffix("List").unwrap_or(&kind);
            for item in &mut items {
                item["apiVersion"] = version.clone().into();
                item["kind"] = kind.into();
            }
            Ok(items)
        }
        _ => Err(UnreadList {
            why: format!("the answer to {path} is not a list"),
            is_missing: false,
        }),
    }
}

fn cause(finding: &ConsumerFinding) -> Cause<'_> {
    Cause {
        code: finding.code,
        class: finding.class,
        explanation: finding.text.clone(),
        advice: finding.advice,
    }
}

fn human(object: &Object, answer: &ConsumerAnswer) -> String {
    let workspace = object.annotation(CLUSTER).unwrap_or("(unknown)");
    let place = format!("in workspace {workspace}");
    let mut text = sheet::title(object.kind(), object.namespace(), object.name(), &place);
    text.push('\n');
    let head = SheetHead {
        in_sync: answer.in_sync,
        cause: cause(&answer.cause),
    };
    head.show(&mut text);
    let more = |text: &mut String, finding: &ConsumerFinding| {
        if let Some(since) = &finding.since {
            line(text, "since", since);
        }
        if let Some(provider) = finding.provider {
            line(text, "provider", provider);
        }
    };
    more(&mut text, &answer.cause);
    for finding in &answer.also {
        line(&mut text, "also", cause(finding).in_words());
        if let Some(advice) = finding.advice {
            line(&mut text, "what to do", advice);
        }
        more(&mut text, finding);
    }
    for unknown in &answer.unknown {
        line(&mut text, "unknown", unknown);
    }
    text
}

/// The annotation with the logical cluster of an object.
const CLUSTER: &str = "kcp.io/cluster";

fn machine(object: &Object, answer: &ConsumerAnswer) -> Value {
    let also = answer.also.iter().map(|finding| {
        json!({"reason": cause(finding).as_json(), "since": finding.since, "provider": finding.provider})
    });
    let document = json!({
        "object": {
            "kind": object.kind(),
            "namespace": object.namespace(),
            "name": object.name(),
            "cluster": object.annotation(CLUSTER),
        },
        "inStep": answer.in_sync,
        "reason": cause(&answer.cause).as_json(),
        "since": answer.cause.since,
        "provider": answer.cause.provider,
        "also": also.collect::<Vec<_>>(),
        "unknown": answer.unknown,
    });
    json!({"objects": [document]})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publish::advice::for_consumer;
    use hawser_sync::Code;
    use hawser_sync::reason::Class;

    #[test]
    fn the_example_in_the_documentation_is_what_is_printed() {
        let object = json!({
            "apiVersion": "example.org/v1", "kind": "Database",
            "metadata": {
                "name": "orders", "namespace": "default",
                "annotations": {CLUSTER: "1tf7f0aywvwyw9ls"},
            },
        });
        let code = Code::NameConflict;
        let conflict = ConsumerFinding {
            code: code.as_str(),
            class: code.class(),
            text: "The object cannot be processed: the service already uses its name for another object.".to_owned(),
            since: Some("2026-01-02T12:00:00Z".to_owned()),
            advice: for_consumer(code).consumer,
            provider: for_consumer(code).provider,
        };
        let claims = ConsumerFinding {
            code: "ClaimsNotAccepted",
            class: Class::Refused,
            text: "the workspace does not accept the permission claims on secrets".to_owned(),
            since: None,
            advice: Some("accept the permission claims in the APIBinding"),
            provider: None,
        };
        let answer = ConsumerAnswer {
            in_sync: Some(false),
            cause: conflict,
            also: vec![claims],
            unknown: Vec::new(),
        };
        let object = Object::new(object).unwrap();
        let printed = human(&object, &answer);
        let page = include_str!("../../../docs/explain.md");
        assert!(
            page.contains(&format!("```text\n{printed}```")),
            "{printed}"
        );
        let document = machine(&object, &answer);
        assert_eq!(document["objects"][0]["inStep"], false);
        assert_eq!(document["objects"][0]["reason"]["code"], "NameConflict");
    }

    #[test]
    fn kinds_are_those_of_a_discovery_document_without_subresources() {
        let document = json!({"groupVersion": "example.org/v1", "resources": [
            {"name": "databases", "kind": "Database", "namespaced": true},
            {"name": "databases/status", "kind": "Database", "namespaced": true},
        ]});
        let found = kinds(&document);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].kind, Gvk::new("example.org", "v1", "Database"));
        let core =
            json!({"groupVersion": "v1", "resources": [{"name": "secrets", "kind": "Secret"}]});
        assert_eq!(kinds(&core)[0].kind.group, "");
    }

    #[test]
    fn the_preferred_version_of_a_group_comes_first_and_no_other_is_left_out() {
        let version = |name: &str| json!({"groupVersion": name});
        let group = json!({
            "versions": [version("example.org/v2"), version("example.org/v1")],
            "preferredVersion": version("example.org/v1"),
        });
        let all = versions(&group);
        assert_eq!(all, ["/apis/example.org/v1", "/apis/example.org/v2"]);
    }
}
