//! Related objects, over objects in hand.

#![expect(
    clippy::needless_pass_by_value,
    reason = "documents are written down where they are passed"
)]

use std::collections::BTreeMap;

use base64::Engine as _;
use serde_json::{Value, json};

use super::*;
use crate::publish::compiled::AgentIdentity;
use crate::publish::compiled::Compiled;
use crate::publish::marks::{self, Remote};
use crate::publish::naming::LocalScope;
use crate::publish::projection::Types;
use crate::publish::rules::{Sides, subject_of};
use crate::publish::types::{Origin, PublishedResourceSpec};
use crate::rehearsal::Rehearsal;
use hawser_sync::{Code, Dialect, Outcome, Request, Scope, Step};
use kube_lang::object::Gvk;

mod hostile;
mod lives;
mod meddling;
mod properties;
mod vanished;
mod variants;

/// Two control planes in hand, and the rules of one published resource.
pub(super) struct Stage {
    pub(super) hands: Rehearsal,
    pub(super) compiled: Arc<Compiled>,
    pub(super) kinds: Kinds,
    pub(super) ledger: ClaimIndex,
    pub(super) published: Vec<PublishedKind>,
    pub(super) quiet: bool,
    /// Of all workspaces.
    pub(super) path: &'static str,
}

impl Quiet for bool {
    fn is_quiet(&self, _key: &Key, _object: &Object) -> bool {
        *self
    }

    fn is_settled(&self, _key: &Key, _object: &Object) -> bool {
        *self
    }
}

/// A published object as passes see it.
struct Front<'a> {
    stage: &'a Stage,
    rules: ObjectRules,
}

impl Dialect for Front<'_> {
    fn subject(&self, view: &dyn View) -> Result<Subject, Vec<Request>> {
        let around = self.stage.around();
        extend(subject_of(self.rules.clone()), &self.rules, around, view)
    }

    fn report(&self, subject: &Subject, outcomes: &[Outcome], view: &dyn View) -> Vec<Step> {
        match view.get(&subject.anchor) {
            Seen::Present(anchor) => annotations(subject, outcomes, &anchor)
                .into_iter()
                .collect(),
            _ => Vec::new(),
        }
    }
}

fn compiled(spec: &Value) -> Arc<Compiled> {
    let types = Types {
        local: Gvk::new("local.com", "v1", "Thing").into(),
        remote: Gvk::new("remote.com", "v1", "RemoteThing").into(),
        local_scope: LocalScope::Namespaced,
        subresources: vec!["status"],
        remote_status: true,
        remote_status_schema: None,
    };
    let mut spec = spec.clone();
    spec["resource"] = json!({"apiGroup": "local.com", "kind": "Thing"});
    let spec: PublishedResourceSpec = serde_json::from_value(spec).unwrap();
    let agent = AgentIdentity {
        name: "agent".into(),
        namespace: "hawser".into(),
    };
    Arc::new(Compiled::compile(&spec, types, agent).unwrap())
}

/// An entry for Secrets.
pub(super) fn entry(identifier: &str, origin: &str, object: Value) -> Value {
    json!({"identifier": identifier, "origin": origin, "kind": "Secret", "object": object})
}

pub(super) fn by_path(path: &str) -> Value {
    json!({"reference": {"path": path}})
}

impl Stage {
    pub(super) fn new(entries: Value) -> Self {
        Self::of(json!({ "related": entries }))
    }

    pub(super) fn of(spec: Value) -> Self {
        Self {
            hands: Rehearsal::default(),
            compiled: compiled(&spec),
            kinds: Kinds::default(),
            ledger: ClaimIndex::default(),
            published: Vec::new(),
            quiet: true,
            path: "root:team",
        }
    }

    /// Other rules from now on, and a process that knows nothing but what is stored.
    pub(super) fn restarted(&mut self, spec: Value) {
        self.compiled = compiled(&spec);
        self.ledger = ClaimIndex::default();
    }

    fn around(&self) -> RelatedContext<'_> {
        RelatedContext {
            kinds: &self.kinds,
            ledger: &self.ledger,
            published: &self.published,
            quiet: &self.quiet,
        }
    }

    fn rules(&self, cluster: &str, name: &str) -> ObjectRules {
        self.rules_in(cluster, "default", name)
    }

    fn rules_in(&self, cluster: &str, namespace: &str, name: &str) -> ObjectRules {
        let remote = Remote {
            cluster: cluster.into(),
            namespace: Some(namespace.into()),
            name: name.into(),
        };
        ObjectRules::new(&self.compiled, &Sides::default(), remote, Some(self.path))
    }

    pub(super) fn anchor(&self, cluster: &str, name: &str) -> Key {
        self.rules(cluster, name).anchor()
    }

    pub(super) fn create(&self, cluster: &str, name: &str, spec: Value) {
        let object = json!({"apiVersion": "remote.com/v1", "kind": "RemoteThing",
            "metadata": {"name": name, "namespace": "default"}, "spec": spec});
        self.hands
            .put(&self.anchor(cluster, name), &Object::new(object).unwrap());
    }

    pub(super) fn set(&self, cluster: &str, name: &str, spec: Value) {
        self.hands
            .patch(&self.anchor(cluster, name), json!({ "spec": spec }));
    }

    /// One pass: the writes as words, and where links stand that are not the object's own.
    pub(super) fn pass(&self, cluster: &str, name: &str) -> (Vec<String>, Vec<Code>) {
        self.pass_by(self.rules(cluster, name))
    }

    fn pass_by(&self, rules: ObjectRules) -> (Vec<String>, Vec<Code>) {
        let front = Front { stage: self, rules };
        let (report, sent) = self.hands.pass_of(&front);
        let words = sent
            .iter()
            .map(|r| format!("{} {}", r.verb(), r.key().map_or("", |k| &k.kind.kind)));
        let codes = report.outcomes.iter();
        let codes = codes.filter(|outcome| *outcome.link.0 != *PRIMARY);
        (words.collect(), codes.map(|o| o.reason.code).collect())
    }

    /// What a pass says of links, in words for the owner.
    pub(super) fn said(&self, cluster: &str, name: &str) -> String {
        let rules = self.rules(cluster, name);
        let (report, _) = self.hands.pass_of(&Front { stage: self, rules });
        let reasons = report.outcomes.iter().map(|o| o.reason.to_string());
        reasons.collect::<Vec<_>>().join("\n")
    }

    /// A pass that changes nothing follows on the ones that do.
    #[track_caller]
    pub(super) fn rest(&self, cluster: &str, name: &str) -> Vec<Code> {
        for _ in 0..4 {
            self.pass(cluster, name);
        }
        let (words, codes) = self.pass(cluster, name);
        assert_eq!(words, [""; 0], "it comes to rest");
        codes
    }

    /// An object in a namespace of its workspace, and where its links stand at rest.
    #[track_caller]
    pub(super) fn rest_in(
        &self,
        cluster: &str,
        namespace: &str,
        name: &str,
        spec: Value,
    ) -> Vec<Code> {
        let rules = self.rules_in(cluster, namespace, name);
        let object = json!({"apiVersion": "remote.com/v1", "kind": "RemoteThing",
            "metadata": {"name": name, "namespace": namespace}, "spec": spec});
        self.hands
            .put(&rules.anchor(), &Object::new(object).unwrap());
        for _ in 0..4 {
            self.pass_by(rules.clone());
        }
        let (words, codes) = self.pass_by(rules);
        assert_eq!(words, [""; 0], "it comes to rest");
        codes
    }

    #[expect(clippy::unused_self, reason = "the tests read better so")]
    pub(super) fn secret(&self, side: &str, cluster: &str, namespace: &str, name: &str) -> Key {
        assert!(side == "kcp" || cluster.is_empty());
        let kind = Arc::new(Gvk::new("", "v1", "Secret"));
        Scope::new(&hawser_sync::Side::new(side), &kind, cluster).key(Some(namespace), name)
    }

    pub(super) fn put(&self, key: &Key, value: &str) {
        let object = json!({"apiVersion": key.kind.api_version(), "kind": key.kind.kind,
            "metadata": {"name": &*key.name, "namespace": key.namespace.as_deref()},
            "data": {"k": value}});
        self.hands.put(key, &Object::new(object).unwrap());
    }

    pub(super) fn value(&self, key: &Key) -> Option<String> {
        let object = self.hands.object(key)?;
        let value = object.as_value().pointer("/data/k")?.as_str()?;
        Some(value.to_owned())
    }

    pub(super) fn annotations(&self, cluster: &str, name: &str) -> Vec<(String, String)> {
        let anchor = self.hands.object(&self.anchor(cluster, name)).unwrap();
        let related = anchor
            .annotations()
            .filter_map(|(k, v)| Some((k.strip_prefix(marks::RELATED_PREFIX)?, v)));
        related.map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
    }

    /// The links that memories still tell of.
    pub(super) fn remembered(&self) -> usize {
        let all = self.hands.objects();
        let states = all
            .values()
            .filter(|o| o.label(marks::OBJECT_STATE).is_some());
        states
            .map(|state| {
                let text = state.as_value().to_string();
                let Some(records) = state.as_value()["data"]["hawser.records"].as_str() else {
                    return 0;
                };
                assert!(!text.is_empty());
                let text = base64::engine::general_purpose::STANDARD
                    .decode(records)
                    .unwrap();
                let records: BTreeMap<String, Value> = serde_json::from_slice(&text).unwrap();
                records.keys().filter(|id| *id != PRIMARY).count()
            })
            .sum()
    }
}
