//! What a script is made of: requests, watches and what is waited for. It knows no server.

use http::Method;
use serde_json::{Value, json};

pub(crate) const JSON: &str = "application/json";
pub(crate) const YAML: &str = "application/yaml";
pub(crate) const MERGE: &str = "application/merge-patch+json";
pub(crate) const PATCH: &str = "application/json-patch+json";
pub(crate) const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub(crate) const APPLY: &str = "application/apply-patch+yaml";

/// One request. In its path, headers and body `$ns`, `$group` and what was kept are filled in.
#[derive(Clone)]
pub(crate) struct Ask {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) keep: Option<&'static str>,
    pub(crate) tolerance: Option<Tolerance>,
    pub(crate) texts: Texts,
    /// More headers of the answer that are compared.
    pub(crate) compared_headers: Vec<&'static str>,
    /// Takes out of both answers what is another one each time.
    pub(crate) settle: Option<fn(&mut Value)>,
    pub(crate) protocol: Protocol,
    pub(crate) who: Who,
    pub(crate) managers: Managers,
}

/// Whether it has to be the same who owns what.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Managers {
    Left,
    Compared,
}

/// Whether the texts of refusals have to be the same.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Texts {
    Same,
    Free,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    Http2,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    Admin,
    /// Without any credentials; a header `Authorization` can bring some.
    Nobody,
}

/// A difference that is meant.
#[derive(Clone)]
pub(crate) struct Tolerance {
    pub(crate) reason: &'static str,
    /// The parts that differ; none means the whole answer.
    pub(crate) parts: Vec<&'static str>,
    pub(crate) when: When,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// Its end has to be noticed.
    Always,
    /// It is a race, or chance.
    Sometimes,
}

/// What is awaited on each server on its own.
#[derive(Clone)]
pub(crate) enum Condition {
    Code(u16),
    /// The value at a pointer of the answer.
    At(&'static str, Value),
    /// Nothing is at a pointer of the answer.
    Nothing(&'static str),
    /// Something of this name is somewhere in the body.
    Names(String),
    /// A definition is established; the real server serves it a moment before.
    Established,
    /// A group has this version.
    Version(String),
}

/// When enough events have come.
#[derive(Clone)]
pub(crate) enum Until {
    Count(usize),
    /// The event of this type about the object of this name.
    Seen(&'static str, &'static str),
    /// The bookmark that ends the initial events.
    Synced,
    /// The server ends the stream.
    End,
}

/// How events are compared.
#[derive(Clone)]
pub(crate) struct Events {
    pub(crate) watch: &'static str,
    pub(crate) until: Until,
    pub(crate) order: Order,
    pub(crate) bookmarks: Bookmarks,
    pub(crate) tolerance: Option<Tolerance>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Kept,
    /// For initial events, which may come in any order.
    Any,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bookmarks {
    /// Only the one that ends initial events counts: others come when the server likes.
    Left,
    Compared,
}

#[derive(Clone)]
pub(crate) enum Step {
    /// The answers have to be the same.
    Ask(Box<Ask>),
    /// The answers have to be successes, no more.
    Do(Box<Ask>),
    Await(Box<Ask>, Condition),
    /// Opens a watch under a name and goes on; a refusal is compared as an answer is.
    Watch(&'static str, Box<Ask>),
    /// Reads events of an open watch and compares them.
    Events(Events),
}

pub(crate) fn ask(method: Method, path: &str, media_type: &str, body: impl Into<Vec<u8>>) -> Ask {
    let body = body.into();
    let mut headers = vec![("accept", JSON.to_owned())];
    if !body.is_empty() {
        headers.push(("content-type", media_type.to_owned()));
    }
    Ask {
        method,
        path: path.to_owned(),
        headers,
        body,
        keep: None,
        tolerance: None,
        texts: Texts::Same,
        compared_headers: Vec::new(),
        settle: None,
        protocol: Protocol::Http1,
        who: Who::Admin,
        managers: Managers::Left,
    }
}

/// A JSON body; a string is raw text, and null is none.
fn bytes(body: Value) -> Vec<u8> {
    match body {
        Value::Null => Vec::new(),
        Value::String(text) => text.into_bytes(),
        other => other.to_string().into_bytes(),
    }
}

pub(crate) fn get(path: &str) -> Ask {
    ask(Method::GET, path, JSON, "")
}

pub(crate) fn post(path: &str, body: Value) -> Ask {
    ask(Method::POST, path, JSON, bytes(body))
}

pub(crate) fn put(path: &str, body: Value) -> Ask {
    ask(Method::PUT, path, JSON, bytes(body))
}

pub(crate) fn patch(path: &str, media_type: &str, body: Value) -> Ask {
    ask(Method::PATCH, path, media_type, bytes(body))
}

pub(crate) fn delete(path: &str) -> Ask {
    ask(Method::DELETE, path, JSON, "")
}

/// A deletion with options.
pub(crate) fn delete_with(path: &str, options: Value) -> Ask {
    ask(Method::DELETE, path, JSON, bytes(options))
}

/// Asked of both, not compared.
pub(crate) fn done(ask: Ask) -> Step {
    Step::Do(Box::new(ask))
}

/// Waits until the answers to a GET are such.
pub(crate) fn until(path: &str, condition: Condition) -> Step {
    until_asked(get(path), condition)
}

/// Waits until the answers to any request are such; it should be a dry run if it writes.
pub(crate) fn until_asked(ask: Ask, condition: Condition) -> Step {
    Step::Await(Box::new(ask), condition)
}

/// Opens a watch: `path` has the `watch=true`.
pub(crate) fn watch(name: &'static str, path: &str) -> Step {
    Step::Watch(name, Box::new(get(path)))
}

pub(crate) fn watch_with(name: &'static str, ask: Ask) -> Step {
    Step::Watch(name, Box::new(ask))
}

/// Reads an open watch and compares the events.
pub(crate) fn events(watch: &'static str, until: Until) -> Events {
    Events {
        watch,
        until,
        order: Order::Kept,
        bookmarks: Bookmarks::Left,
        tolerance: None,
    }
}

/// Creates a definition on both and waits until every version of it is served.
pub(crate) fn install(definition: Value) -> Script {
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let name = definition["metadata"]["name"].as_str().unwrap_or_default();
    let group = definition["spec"]["group"].as_str().unwrap_or_default();
    let plural = definition["spec"]["names"]["plural"]
        .as_str()
        .unwrap_or_default();
    let mut script = Script::default();
    script.push(done(post(definitions, definition.clone())));
    script.push(until(
        &format!("{definitions}/{name}"),
        Condition::At("/status/acceptedNames/plural", json!(plural)),
    ));
    script.push(until(
        &format!("{definitions}/{name}"),
        Condition::Established,
    ));
    for version in definition["spec"]["versions"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let version = version["name"].as_str().unwrap_or_default();
        script.push(until(
            &format!("/apis/{group}/{version}/{plural}?limit=1"),
            Condition::Code(200),
        ));
        script.push(until(
            &format!("/apis/{group}/{version}"),
            Condition::Names(plural.to_owned()),
        ));
        // The real server learns of groups from somewhere else than of what is in them.
        script.push(until(
            &format!("/apis/{group}"),
            Condition::Version(format!("{group}/{version}")),
        ));
    }
    script
}

/// A namespaced definition of `$group` with one version, `v1`, and a status; to be changed at will.
pub(crate) fn definition(plural: &str, kind: &str, properties: Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.$group")},
        "spec": {
            "group": "$group", "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
            }],
        },
    })
}

impl Ask {
    /// Keeps the answer: later `$rv(KEY)`, `$uid(KEY)`, `$continue(KEY)` and `$at(KEY,/pointer)` are of it.
    pub(crate) fn keep(mut self, key: &'static str) -> Self {
        self.keep = Some(key);
        self
    }

    /// Sends a header, in place of one of that name that is there already.
    pub(crate) fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.retain(|(known, _)| *known != name);
        self.headers.push((name, value.to_owned()));
        self
    }

    /// Does not send a header.
    pub(crate) fn without(mut self, name: &'static str) -> Self {
        self.headers.retain(|(known, _)| *known != name);
        self
    }

    pub(crate) fn accept(self, types: &str) -> Self {
        self.header("accept", types)
    }

    /// The whole answer is another one, for this reason. An answer that is the same after all is a
    /// fault of the script.
    pub(crate) fn tolerate(mut self, reason: &'static str) -> Self {
        self.tolerance = Some(Tolerance::of(reason));
        self
    }

    /// The answer may be another one: a race, or chance.
    pub(crate) fn may_differ(mut self, reason: &'static str) -> Self {
        self.tolerance = Some(Tolerance {
            when: When::Sometimes,
            ..Tolerance::of(reason)
        });
        self
    }

    /// Only these parts of the answer differ, for this reason: `/code`, or pointers below `/body`
    /// or `/headers`. To be said after `tolerate` or `may_differ`.
    pub(crate) fn only_in(mut self, parts: &[&'static str]) -> Self {
        if let Some(tolerance) = &mut self.tolerance {
            tolerance.parts = parts.to_vec();
        }
        self
    }

    /// The text of the refusal is each server's own; what is in fields still has to be the same.
    pub(crate) fn free_text(mut self) -> Self {
        self.texts = Texts::Free;
        self
    }

    /// Compares another header of the answer, too.
    pub(crate) fn with_header(mut self, name: &'static str) -> Self {
        self.compared_headers.push(name);
        self
    }

    /// Changes both answers before they are compared.
    pub(crate) fn settle(mut self, change: fn(&mut Value)) -> Self {
        self.settle = Some(change);
        self
    }

    pub(crate) fn http2(mut self) -> Self {
        self.protocol = Protocol::Http2;
        self
    }

    /// Compares `managedFields`, too, without their times.
    pub(crate) fn owned(mut self) -> Self {
        self.managers = Managers::Compared;
        self
    }

    pub(crate) fn nobody(mut self) -> Self {
        self.who = Who::Nobody;
        self
    }
}

impl Tolerance {
    fn of(reason: &'static str) -> Self {
        Self {
            reason,
            parts: Vec::new(),
            when: When::Always,
        }
    }
}

impl Events {
    pub(crate) fn in_any_order(mut self) -> Self {
        self.order = Order::Any;
        self
    }

    pub(crate) fn with_bookmarks(mut self) -> Self {
        self.bookmarks = Bookmarks::Compared;
        self
    }

    pub(crate) fn tolerate(mut self, reason: &'static str) -> Self {
        self.tolerance = Some(Tolerance::of(reason));
        self
    }
}

/// Steps in their order; `script![…]` takes requests, steps and scripts alike.
#[derive(Clone, Default)]
pub(crate) struct Script(pub(crate) Vec<Step>);

impl Script {
    pub(crate) fn push(&mut self, more: impl Into<Self>) {
        self.0.extend(more.into().0);
    }
}

impl From<Step> for Script {
    fn from(step: Step) -> Self {
        Self(vec![step])
    }
}

impl From<Ask> for Script {
    fn from(ask: Ask) -> Self {
        Step::Ask(Box::new(ask)).into()
    }
}

impl From<Events> for Script {
    fn from(events: Events) -> Self {
        Step::Events(events).into()
    }
}

macro_rules! script {
    ($($step:expr),* $(,)?) => {{
        let mut script = $crate::differential::step::Script::default();
        $(script.push($step);)*
        script
    }};
}
pub(crate) use script;

/// Steps that share a namespace (`$ns`) and an API group (`$group`), which no other topic uses.
pub(crate) struct Topic {
    pub(crate) name: &'static str,
    pub(crate) script: Script,
}

impl Topic {
    pub(crate) fn new(name: &'static str, script: Script) -> Self {
        Self { name, script }
    }

    pub(crate) fn then(mut self, script: Script) -> Self {
        self.script.push(script);
        self
    }
}
