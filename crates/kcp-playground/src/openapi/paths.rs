//! The paths of a resource and their operations, in the form of `OpenAPI` v3.
//!
//! Clients depend on this: kubectl looks for `fieldValidation` at the PATCH of a kind before it leaves validation to
//! the server.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::builtin::{DELETE_OPTIONS, PATCH, PREFIX, STATUS};
use crate::catalog::{Flavour, Resource};

/// A resource with the names of its definitions.
pub(super) struct Described<'a> {
    pub(super) resource: &'a Resource,
    pub(super) kind: String,
    pub(super) list: String,
}

/// The target of an operation.
#[derive(Clone, Copy)]
struct ApiOperation<'a> {
    /// `x-kubernetes-action`
    action: &'a str,
    /// The beginning of the operation's id, and its description.
    verb: (&'a str, &'a str),
    /// The end of the id: `Status`.
    part: &'a str,
    parameters: &'a [&'a str],
    body: RequestBody,
    /// The status codes of success.
    codes: &'a [u16],
    answer: Answer,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RequestBody {
    None,
    Object,
    Patch,
    DeleteOptions,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    Object,
    List,
    Status,
}

const LIST: &[&str] = &[
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeoutSeconds",
    "watch",
];
const WRITE: &[&str] = &["dryRun", "fieldManager", "fieldValidation"];
const PATCHING: &[&str] = &["dryRun", "fieldManager", "fieldValidation", "force"];
const DELETE: &[&str] = &[
    "dryRun",
    "gracePeriodSeconds",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "orphanDependents",
    "propagationPolicy",
];
const DELETE_MANY: &[&str] = &[
    "continue",
    "dryRun",
    "fieldSelector",
    "gracePeriodSeconds",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "labelSelector",
    "limit",
    "orphanDependents",
    "propagationPolicy",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeoutSeconds",
];

const GET: ApiOperation<'_> = ApiOperation {
    action: "get",
    verb: ("read", "read the specified"),
    part: "",
    parameters: &[],
    body: RequestBody::None,
    codes: &[200],
    answer: Answer::Object,
};
const PUT: ApiOperation<'_> = ApiOperation {
    action: "put",
    verb: ("replace", "replace the specified"),
    parameters: WRITE,
    body: RequestBody::Object,
    codes: &[200, 201],
    ..GET
};
const POST: ApiOperation<'_> = ApiOperation {
    action: "post",
    verb: ("create", "create a"),
    codes: &[200, 201, 202],
    ..PUT
};

impl Described<'_> {
    fn custom(&self) -> bool {
        self.resource.flavour == Flavour::Custom
    }

    /// All paths, each with its operations.
    pub(super) fn paths(&self) -> Vec<(String, Value)> {
        let resource = self.resource;
        let root = match &*resource.group {
            "" => format!("/api/{}", resource.version),
            group => format!("/apis/{group}/{}", resource.version),
        };
        let plural = &resource.plural;
        let within = if resource.namespaced {
            "/namespaces/{namespace}"
        } else {
            ""
        };
        let collection = format!("{root}{within}/{plural}");
        let one = format!("{collection}/{{name}}");
        let mut paths = Vec::new();
        paths.push((collection, self.collection()));
        if resource.namespaced && resource.verbs.allow("list") {
            paths.push((format!("{root}/{plural}"), self.everywhere()));
        }
        if resource.verbs.allow("get") {
            paths.push((one.clone(), self.object("")));
        }
        if resource.has_status && resource.verbs.allow("get") {
            paths.push((format!("{one}/status"), self.object("Status")));
        }
        if resource.group.is_empty() && &**plural == "namespaces" {
            paths.push((format!("{one}/finalize"), self.finalize()));
        }
        paths.retain(|(_, item)| item.as_object().is_some_and(|item| item.len() > 1));
        paths
    }

    fn collection(&self) -> Value {
        let allow = |verb| self.resource.verbs.allow(verb);
        let namespaces = self.resource.group.is_empty() && &*self.resource.plural == "namespaces";
        let mut item = Map::new();
        if allow("list") {
            item.insert("get".into(), self.list("", LIST));
        }
        if allow("create") {
            // Reviews are not stored, so they have no other operations.
            let review = !allow("get");
            let parameters = if review { &[] } else { WRITE };
            item.insert(
                "post".into(),
                self.operation(&ApiOperation { parameters, ..POST }),
            );
        }
        if allow("deletecollection") && !namespaces {
            let (parameters, body) = if self.custom() {
                (LIST, RequestBody::None)
            } else {
                (DELETE_MANY, RequestBody::DeleteOptions)
            };
            let operation = ApiOperation {
                action: "deletecollection",
                verb: ("delete", "delete collection of"),
                parameters,
                body,
                answer: Answer::Status,
                ..GET
            };
            item.insert("delete".into(), self.operation(&operation));
        }
        let mut shared = Vec::new();
        if !allow("get") {
            shared.extend(WRITE);
        }
        if self.resource.namespaced {
            shared.push("namespace");
        }
        self.with_parameters(item, &shared)
    }

    /// The objects of all namespaces.
    fn everywhere(&self) -> Value {
        let mut item = Map::new();
        item.insert("get".into(), self.list("ForAllNamespaces", &[]));
        let mut shared = LIST.to_vec();
        shared.insert(5, "pretty");
        let mut item = self.with_parameters(item, &shared);
        if let Some(Value::Array(parameters)) = item.get_mut("parameters") {
            parameters.pop();
        }
        item
    }

    fn list(&self, part: &str, parameters: &[&str]) -> Value {
        let description = if self.custom() {
            "list objects of kind"
        } else {
            "list or watch objects of kind"
        };
        self.operation(&ApiOperation {
            action: "list",
            verb: ("list", description),
            part,
            parameters,
            answer: Answer::List,
            ..GET
        })
    }

    /// An object or a subresource.
    fn object(&self, part: &str) -> Value {
        let allow = |verb| self.resource.verbs.allow(verb);
        let mut item = Map::new();
        let parameters: &[&str] = if self.custom() {
            &["resourceVersion"]
        } else {
            &[]
        };
        item.insert(
            "get".into(),
            self.operation(&ApiOperation {
                part,
                parameters,
                ..GET
            }),
        );
        if allow("update") {
            item.insert("put".into(), self.operation(&ApiOperation { part, ..PUT }));
        }
        if allow("delete") && part.is_empty() {
            let operation = ApiOperation {
                action: "delete",
                verb: ("delete", "delete a"),
                parameters: DELETE,
                body: RequestBody::DeleteOptions,
                codes: &[200, 202],
                answer: Answer::Status,
                ..GET
            };
            item.insert("delete".into(), self.operation(&operation));
        }
        if allow("patch") {
            let codes: &[u16] = if self.custom() { &[200] } else { &[200, 201] };
            let operation = ApiOperation {
                action: "patch",
                verb: ("patch", "partially update the specified"),
                part,
                parameters: PATCHING,
                body: RequestBody::Patch,
                codes,
                answer: Answer::Object,
            };
            item.insert("patch".into(), self.operation(&operation));
        }
        let shared: &[&str] = if self.resource.namespaced {
            &["name", "namespace"]
        } else {
            &["name"]
        };
        self.with_parameters(item, shared)
    }

    fn finalize(&self) -> Value {
        let mut item = Map::new();
        let operation = ApiOperation {
            part: "Finalize",
            parameters: &[],
            ..PUT
        };
        item.insert("put".into(), self.operation(&operation));
        self.with_parameters(item, &["dryRun", "fieldManager", "fieldValidation", "name"])
    }

    fn with_parameters(&self, mut item: Map<String, Value>, names: &[&str]) -> Value {
        let mut all: Vec<Value> = names.iter().map(|name| self.parameter(name)).collect();
        all.push(self.parameter("pretty"));
        item.insert("parameters".into(), Value::Array(all));
        Value::Object(item)
    }

    fn operation(&self, operation: &ApiOperation<'_>) -> Value {
        let resource = self.resource;
        let kind = &*resource.kind;
        let (tag, in_id) = group_names(resource);
        let mut id = format!("{}{in_id}", operation.verb.0);
        if operation.action == "deletecollection" {
            id.push_str("Collection");
        }
        if resource.namespaced && operation.part != "ForAllNamespaces" {
            id.push_str("Namespaced");
        }
        id.push_str(kind);
        id.push_str(operation.part);
        let description = match operation.part {
            "" | "ForAllNamespaces" => format!("{} {kind}", operation.verb.1),
            part => {
                let verb = operation.verb.1.trim_end_matches(" the specified");
                format!("{verb} {} of the specified {kind}", part.to_lowercase())
            }
        };
        let mut out = json!({
            "tags": [tag],
            "description": description,
            "operationId": id,
            "responses": self.responses(operation),
            "x-kubernetes-action": operation.action,
            "x-kubernetes-group-version-kind": {
                "group": &*resource.group, "version": &*resource.version, "kind": kind,
            },
        });
        if !operation.parameters.is_empty() {
            let parameters = operation.parameters.iter().map(|name| self.parameter(name));
            out["parameters"] = parameters.collect();
        }
        if let Some(body) = self.body(operation.body) {
            out["requestBody"] = body;
        }
        out
    }

    fn body(&self, body: RequestBody) -> Option<Value> {
        let types: &[&str] = match (body, self.custom()) {
            (RequestBody::None, _) => return None,
            (RequestBody::Patch, true) => &[
                "application/apply-patch+yaml",
                "application/json-patch+json",
                "application/merge-patch+json",
            ],
            (RequestBody::Patch, false) => &[
                "application/apply-patch+yaml",
                "application/json-patch+json",
                "application/merge-patch+json",
                "application/strategic-merge-patch+json",
            ],
            (_, true) => &["application/json", "application/yaml"],
            (_, false) => &["*/*"],
        };
        let schema = match body {
            RequestBody::Patch => PATCH,
            RequestBody::DeleteOptions => DELETE_OPTIONS,
            RequestBody::None | RequestBody::Object => &self.kind,
        };
        let mut out = json!({"content": content(types, schema)});
        if body != RequestBody::DeleteOptions {
            out["required"] = true.into();
        }
        Some(out)
    }

    fn responses(&self, operation: &ApiOperation<'_>) -> Value {
        let schema = match operation.answer {
            Answer::Object => &self.kind,
            Answer::List => &self.list,
            Answer::Status => STATUS,
        };
        let types: &[&str] = match (operation.answer, self.custom()) {
            (Answer::List, false) => &["application/json", "application/json;stream=watch"],
            _ => &["application/json"],
        };
        let mut responses = json!({"401": {"description": "Unauthorized"}});
        for code in operation.codes {
            let description = match code {
                200 => "OK",
                201 => "Created",
                _ => "Accepted",
            };
            responses[code.to_string()] =
                json!({"description": description, "content": content(types, schema)});
        }
        responses
    }

    fn parameter(&self, name: &str) -> Value {
        let kind = match name {
            "allowWatchBookmarks"
            | "force"
            | "ignoreStoreReadErrorWithClusterBreakingPotential"
            | "orphanDependents"
            | "sendInitialEvents"
            | "watch" => "boolean",
            "gracePeriodSeconds" | "limit" | "timeoutSeconds" => "integer",
            _ => "string",
        };
        let of_path = matches!(name, "name" | "namespace");
        let mut parameter = json!({
            "name": name,
            "in": if of_path { "path" } else { "query" },
            "description": self.explain(name),
            "schema": {"type": kind, "uniqueItems": true},
        });
        if of_path {
            parameter["required"] = true.into();
        }
        parameter
    }

    fn explain(&self, parameter: &str) -> String {
        let text = match parameter {
            "name" => return format!("name of the {}", self.resource.kind),
            "namespace" => "object name and auth scope, such as for teams and projects",
            "allowWatchBookmarks" => "whether a watch may send bookmarks",
            "continue" => "where a list in pages goes on, as its last page said",
            "dryRun" => "`All`: everything is checked and nothing is stored",
            "fieldManager" => "who owns the fields that are written; required for an apply",
            "fieldSelector" => "which objects, by their fields",
            "fieldValidation" => {
                "what is done about unknown and repeated fields: `Ignore` drops them, `Warn` says so in headers of the answer (the default), `Strict` refuses the request"
            }
            "force" => "whether an apply takes fields that others own",
            "gracePeriodSeconds" => "seconds until the object is deleted",
            "ignoreStoreReadErrorWithClusterBreakingPotential" => {
                "whether objects that cannot be read are deleted nevertheless"
            }
            "labelSelector" => "which objects, by their labels",
            "limit" => "how many objects a page of a list has at most",
            "orphanDependents" => "in the place of propagationPolicy `Orphan`; deprecated",
            "pretty" => "whether the answer is indented",
            "propagationPolicy" => {
                "what becomes of dependents: `Orphan`, `Background` or `Foreground`"
            }
            "resourceVersion" => "how old the answer may be, or where a watch begins",
            "resourceVersionMatch" => "how resourceVersion is meant: `Exact` or `NotOlderThan`",
            "sendInitialEvents" => "whether a watch begins with the objects that there are",
            "timeoutSeconds" => "after how many seconds a list or watch ends",
            "watch" => "whether changes are sent as they happen",
            _ => "",
        };
        text.to_owned()
    }
}

fn content(types: &[&str], schema: &str) -> Value {
    let schema = json!({"schema": {"$ref": format!("{PREFIX}{schema}")}});
    let types = types
        .iter()
        .map(|name| ((*name).to_owned(), schema.clone()));
    Value::Object(types.collect())
}

/// Group and version in tags and ids: `exampleCom_v1` and `ExampleComV1`.
fn group_names(resource: &Resource) -> (String, String) {
    let group = resource.group.trim_end_matches(".k8s.io");
    let words = group.split(['.', '-']).filter(|word| !word.is_empty());
    let mut joined = String::new();
    for word in words {
        let (first, rest) = word.split_at(word.chars().next().map_or(0, char::len_utf8));
        // Writing to a string cannot fail.
        let _ = write!(joined, "{}{rest}", first.to_uppercase());
    }
    if joined.is_empty() {
        "Core".clone_into(&mut joined);
    }
    let version = &*resource.version;
    let lower = |text: &str| {
        let mut chars = text.chars();
        let first: String = chars
            .next()
            .into_iter()
            .flat_map(char::to_lowercase)
            .collect();
        format!("{first}{}", chars.as_str())
    };
    let upper = version.replacen('v', "V", 1);
    (
        format!("{}_{version}", lower(&joined)),
        format!("{joined}{upper}"),
    )
}
