//! Random histories of sources and copies under real rules: at rest both sides agree, another pass sends nothing, and
//! objects of others are unchanged.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Map, json};

use super::properties::content;
use super::tests::{CLUSTER, Stage};
use super::*;
use crate::publish::crd::Crd;
use crate::publish::projection;
use crate::publish::projection::Types;
use crate::rehearsal::Rehearsal;
use hawser_sync::{Facts, Request};

/// Rounds over all sources until nothing is sent any more.
const ROUNDS: usize = 8;

/// The sources, two of them with one name in two workspaces.
const SOURCES: [(&str, &str); 3] = [(CLUSTER, "a"), ("other", "a"), (CLUSTER, "b")];

/// Which rules; each is drawn on its own.
#[derive(Clone, Debug)]
struct Drawn {
    naming: Value,
    spec: Vec<Value>,
    status: Vec<Value>,
    local_scope: &'static str,
    remote_scope: &'static str,
    serves_status: bool,
    projection: Value,
    foreign: bool,
}

#[derive(Clone, Debug)]
enum Event {
    Create(usize, Value),
    Change(usize, Value),
    Label(usize, Option<&'static str>),
    Delete(usize),
    /// Somebody adds a field, a label and an annotation of their own to the copy.
    Edit(usize, i64),
    Status(usize, Value),
    /// Somebody takes an annotation of ours away.
    Unmark(usize),
    Lose(usize),
    Pass(usize),
}

fn rules() -> impl Strategy<Value = Drawn> {
    let naming = prop::sample::select(vec![
        json!(null),
        json!({"name": "{{ .Object.metadata.name }}-{{ .ClusterName }}"}),
        json!({"namespace": "all", "name": "$remoteClusterName-$remoteNameHash"}),
        // All sources want one place.
        json!({"namespace": "all", "name": "same"}),
    ]);
    let spec = prop::sample::subsequence(
        vec![
            json!({"regex": {"path": "spec.name", "pattern": "^", "replacement": "x-"}}),
            json!({"cel": {"path": "spec.share", "expression": "double(self.spec.n)"}}),
            json!({"cel": {"path": "spec.large", "expression": "double(self.spec.n) * 1e19"}}),
            json!({"template": {"path": "spec.where", "template": "{{ .RemoteObject.metadata.name }}"}}),
            json!({"delete": {"path": "spec.a"}}),
            json!({"regex": {"path": "metadata.name", "pattern": "", "replacement": "hijacked"}}),
        ],
        0..=6,
    );
    let status = prop::sample::subsequence(
        vec![
            json!({"delete": {"path": "status.a"}}),
            json!({"cel": {"path": "status.seen", "expression": "1.0"}}),
        ],
        0..=2,
    );
    let scope = || prop::sample::select(vec!["Namespaced", "Cluster"]);
    let projection = prop::sample::select(vec![
        json!({}),
        json!({"group": "remote.com", "kind": "RemoteThing"}),
        json!({"versions": {"v1": "v9"}}),
    ]);
    let flags = (any::<bool>(), any::<bool>());
    (naming, spec, status, scope(), scope(), projection, flags).prop_map(
        |(naming, spec, status, local_scope, remote_scope, projection, flags)| Drawn {
            naming,
            spec,
            status,
            local_scope,
            remote_scope,
            serves_status: flags.0,
            projection,
            foreign: flags.1,
        },
    )
}

/// Any content without nulls, which a merge patch cannot tell from nothing.
fn fields() -> impl Strategy<Value = Value> {
    let map = prop::collection::btree_map("[a-c]", content(), 0..3);
    (map, 0..3i64).prop_map(|(map, n)| {
        let mut fields: Map<String, Value> = map.into_iter().collect();
        fields.insert("n".into(), n.into());
        fields.insert("name".into(), format!("n{n}").into());
        let mut value = Value::Object(fields);
        without_nulls(&mut value);
        value
    })
}

fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(without_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(without_nulls),
        _ => {}
    }
}

fn event() -> impl Strategy<Value = Event> {
    let source = || 0..SOURCES.len();
    prop_oneof![
        3 => (source(), fields()).prop_map(|(at, fields)| Event::Create(at, fields)),
        3 => (source(), fields()).prop_map(|(at, fields)| Event::Change(at, fields)),
        1 => (source(), prop::sample::select(vec![None, Some("x"), Some("y")]))
            .prop_map(|(at, value)| Event::Label(at, value)),
        1 => source().prop_map(Event::Delete),
        2 => (source(), 0..9i64).prop_map(|(at, n)| Event::Edit(at, n)),
        2 => (source(), fields()).prop_map(|(at, fields)| Event::Status(at, fields)),
        1 => source().prop_map(Event::Unmark),
        1 => source().prop_map(Event::Lose),
        4 => source().prop_map(Event::Pass),
    ]
}

/// The stage of a history.
struct Play {
    stage: Stage,
    subjects: Vec<Subject>,
    foreign: BTreeMap<Key, Arc<Object>>,
    /// What somebody added to copies, by their uid.
    edits: BTreeMap<String, i64>,
}

fn types(drawn: &Drawn) -> Types {
    let subresources = if drawn.serves_status {
        json!({"status": {}})
    } else {
        json!({})
    };
    let crd = json!({
        "metadata": {"name": "things.local.com"},
        "spec": {"group": "local.com", "scope": drawn.local_scope,
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": subresources,
                "schema": {"openAPIV3Schema": {"type": "object"}}}]},
    });
    let crd = Crd::from_json(crd.to_string().as_bytes()).unwrap();
    let mut projection = drawn.projection.clone();
    projection["scope"] = drawn.remote_scope.into();
    let published = json!({
        "resource": {"apiGroup": "local.com", "kind": "Thing"}, "projection": projection,
    });
    let published = serde_json::from_value(published).unwrap();
    Types::of(&crd, &projection::project(&crd, &published).unwrap())
}

impl Play {
    fn new(drawn: &Drawn) -> Self {
        let mutation = json!({"spec": drawn.spec, "status": drawn.status});
        let mut spec = json!({"mutation": mutation});
        if !drawn.naming.is_null() {
            spec["naming"] = drawn.naming.clone();
        }
        let stage = Stage::of(spec, types(drawn));
        let namespace = (drawn.remote_scope == "Namespaced").then(|| "default".to_owned());
        let subject = |(cluster, name): &(&str, &str)| {
            let remote = Remote {
                cluster: (*cluster).into(),
                namespace: namespace.clone(),
                name: (*name).into(),
            };
            subject_of(ObjectRules::new(
                &stage.compiled,
                &Sides::default(),
                remote,
                None,
            ))
        };
        let subjects = SOURCES.iter().map(subject).collect();
        let mut play = Self {
            stage,
            subjects,
            foreign: BTreeMap::new(),
            edits: BTreeMap::new(),
        };
        play.lay_foreign(drawn);
        play
    }

    /// Another agent's copy, a neighbour of nobody, a Secret and a namespace; the copy lies where all
    /// sources want to be, if that is drawn.
    fn lay_foreign(&mut self, drawn: &Drawn) {
        let namespaced = drawn.local_scope == "Namespaced";
        let at = |name: &str| {
            let local = Arc::clone(&self.stage.compiled.types.local);
            let namespace = namespaced.then_some("all");
            Scope::new(&Side::new("service"), &local, "").key(namespace, name)
        };
        let marks = json!({
            "labels": {marks::CLUSTER: "elsewhere", marks::AGENT_NAME: "another"},
            "annotations": {marks::NAME: "theirs"},
        });
        let secrets = Arc::new(Gvk::new("", "v1", "Secret"));
        let secret =
            Scope::new(&Side::new("service"), &secrets, "").key(Some("hawser"), "credentials");
        let theirs = if drawn.foreign { "same" } else { "theirs" };
        let all = [
            (at(theirs), marks),
            (at("neighbour"), json!({"labels": {"mine": "x"}})),
            (secret, json!({})),
        ];
        for (key, metadata) in all {
            let object =
                json!({"metadata": metadata, "spec": {"theirs": 1}, "data": {"k": "dg=="}});
            self.stage.hands.put(&key, &Object::new(object).unwrap());
            let laid = self.stage.hands.object(&key).unwrap();
            self.foreign.insert(key, laid);
        }
    }

    fn hands(&self) -> &Rehearsal {
        &self.stage.hands
    }

    fn source(&self, at: usize) -> Option<Arc<Object>> {
        self.hands().object(&self.subjects[at].anchor)
    }

    /// What carries the marks of a source.
    fn copies(&self, at: usize) -> Vec<(Key, Arc<Object>)> {
        let Target::Marked { scope, labels } = &self.subjects[at].links[0].target else {
            panic!("copies are found by their marks");
        };
        let fits = |key: &Key, object: &Object| key.scope() == *scope && labels.fit(object);
        let all = self.hands().objects().into_iter();
        all.filter(|(key, object)| fits(key, object)).collect()
    }

    /// The writes of a pass, and where the source stands.
    fn pass(&self, at: usize) -> (Vec<String>, Code) {
        let (report, sent) = self.hands().pass(&self.subjects[at]);
        let writes = sent.iter().filter(|request| request.writes());
        let words = writes.map(|request| format!("{request:?}")).collect();
        let touched = sent
            .iter()
            .filter(|request| request.writes())
            .filter(|request| !matches!(request, Request::Create { .. }))
            .filter_map(Request::key)
            .find(|key| self.foreign.contains_key(key));
        assert_eq!(touched, None, "a foreign object is written");
        (words, report.outcomes[0].reason.code)
    }

    fn happen(&mut self, event: &Event) {
        match event {
            Event::Create(at, fields) => {
                if self.source(*at).is_none() {
                    self.create(*at, fields);
                }
            }
            Event::Change(at, fields) => self.change(*at, fields),
            Event::Label(at, value) => {
                let patch = json!({"metadata": {"labels": {"mine": value}}});
                self.hands().patch(&self.subjects[*at].anchor, patch);
            }
            Event::Delete(at) => {
                self.hands().delete(&self.subjects[*at].anchor);
            }
            Event::Edit(at, n) => {
                for (key, copy) in self.copies(*at) {
                    self.hands().patch(
                        &key,
                        json!({"spec": {"local": n}, "metadata": {"labels": {"theirs": n.to_string()},
                            "annotations": {"theirs": n.to_string()}}}),
                    );
                    self.edits.insert(copy.uid().unwrap().to_owned(), *n);
                }
            }
            Event::Status(at, fields) => {
                for (key, copy) in self.copies(*at) {
                    let mut copy = Object::clone(&copy);
                    copy.root_mut().insert("status".into(), fields.clone());
                    self.hands().put(&key, &copy);
                }
            }
            Event::Unmark(at) => {
                for (key, _) in self.copies(*at) {
                    let patch = json!({"metadata": {"annotations": {marks::NAME: null}}});
                    self.hands().patch(&key, patch);
                }
            }
            Event::Lose(at) => {
                for (key, _) in self.copies(*at) {
                    self.hands().delete(&key);
                }
            }
            Event::Pass(at) => {
                self.pass(*at);
            }
        }
    }

    fn create(&self, at: usize, fields: &Value) {
        let anchor = &self.subjects[at].anchor;
        let mut object = Object::empty(&anchor.kind, anchor.namespace.as_deref(), &anchor.name);
        object.root_mut().insert("spec".into(), fields.clone());
        self.hands().put(anchor, &object);
    }

    /// The whole spec becomes another one.
    fn change(&self, at: usize, fields: &Value) {
        if let Some(source) = self.source(at) {
            let mut source = Object::clone(&source);
            source.root_mut().insert("spec".into(), fields.clone());
            self.hands().put(&self.subjects[at].anchor, &source);
        }
    }

    /// Passes until nobody sends anything; where each source stands then.
    fn rest(&self) -> Vec<Code> {
        for _ in 0..ROUNDS {
            let all: Vec<_> = (0..SOURCES.len()).map(|at| self.pass(at)).collect();
            if all.iter().all(|(writes, _)| writes.is_empty()) {
                return all.into_iter().map(|(_, code)| code).collect();
            }
        }
        let last: Vec<_> = (0..SOURCES.len()).map(|at| self.pass(at)).collect();
        panic!("it never comes to rest: {last:#?}");
    }

    fn check(&self, at: usize, code: Code) {
        let copies = self.copies(at);
        let Some(source) = self.source(at) else {
            assert!(copies.is_empty(), "copies without a source: {copies:#?}");
            let memory = &self.subjects[at].memory.as_ref().unwrap().key;
            assert_eq!(
                self.hands().object(memory),
                None,
                "a state without a source"
            );
            return;
        };
        if code == Code::NameConflict {
            assert!(
                copies.is_empty(),
                "a copy in spite of a conflict: {copies:#?}"
            );
            return;
        }
        assert_eq!(code, Code::InStep, "{source:#?}");
        let [(_, copy)] = copies.as_slice() else {
            panic!("not one copy: {copies:#?}");
        };
        let link = &self.subjects[at].links[0];
        let desired = Facts::default().desired(link, &source, Some(copy)).unwrap();
        let mut spec = copy.as_value()["spec"].clone();
        let local = spec.as_object_mut().unwrap().remove("local");
        assert_eq!(spec, desired.as_value()["spec"]);
        assert_eq!(copy.label("mine"), source.label("mine"));
        if let Some(n) = self.edits.get(copy.uid().unwrap()) {
            assert_eq!(local, Some(json!(n)), "what others added stays");
            assert_eq!(copy.label("theirs"), Some(n.to_string().as_str()));
            assert_eq!(copy.annotation("theirs"), Some(n.to_string().as_str()));
        }
        if self.stage.compiled.types.remote_status {
            let wanted = Facts::default().status(link, &source, copy).unwrap();
            assert_eq!(source.root().get("status"), wanted.as_deref());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_both_sides_agree_at_rest(drawn in rules(), events in prop::collection::vec(event(), 0..24)) {
        let mut play = Play::new(&drawn);
        for event in &events {
            play.happen(event);
        }
        let codes = play.rest();
        for (at, code) in codes.into_iter().enumerate() {
            play.check(at, code);
        }
        for (key, laid) in &play.foreign {
            let found = play.hands().object(key);
            prop_assert_eq!(found.as_ref(), Some(laid), "{} was touched", key);
        }
    }
}
