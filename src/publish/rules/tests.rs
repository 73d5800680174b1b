//! The contract of publishing, over objects in hand.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::*;
use crate::publish::compiled::AgentIdentity;
use crate::publish::naming::LocalScope;
use crate::publish::projection::Types;
use crate::publish::types::PublishedResourceSpec;
use crate::rehearsal::Rehearsal;
use hawser_sync::{Request, reason::Class};

pub(super) const CLUSTER: &str = "abc123";

pub(super) struct Stage {
    pub(super) hands: Rehearsal,
    pub(super) compiled: Arc<Compiled>,
}

impl Stage {
    pub(super) fn new(spec: Value) -> Self {
        Self::with_status(spec, vec!["status"], true)
    }

    /// With what is served beside copies, and whether workspaces serve a status.
    fn with_status(spec: Value, subresources: Vec<&'static str>, remote_status: bool) -> Self {
        let types = Types {
            local: Gvk::new("local.com", "v1", "Thing").into(),
            remote: Gvk::new("remote.com", "v1alpha1", "RemoteThing").into(),
            local_scope: LocalScope::Namespaced,
            subresources,
            remote_status,
            remote_status_schema: None,
        };
        Self::of(spec, types)
    }

    pub(super) fn of(mut spec: Value, types: Types) -> Self {
        spec["resource"] = json!({"apiGroup": "local.com", "kind": "Thing"});
        let spec: PublishedResourceSpec = serde_json::from_value(spec).unwrap();
        let agent = AgentIdentity {
            name: "agent".into(),
            namespace: "hawser".into(),
        };
        Self {
            hands: Rehearsal::default(),
            compiled: Arc::new(Compiled::compile(&spec, types, agent).unwrap()),
        }
    }

    pub(super) fn subject(&self, cluster: &str, name: &str) -> Subject {
        let remote = Remote {
            cluster: cluster.into(),
            namespace: Some("default".into()),
            name: name.into(),
        };
        let rules = ObjectRules::new(&self.compiled, &Sides::default(), remote, Some("root:org"));
        subject_of(rules)
    }

    #[expect(clippy::needless_pass_by_value, reason = "the tests read better so")]
    pub(super) fn create(&self, cluster: &str, name: &str, spec: Value) -> Subject {
        let subject = self.subject(cluster, name);
        let object = Object::new(json!({
            "apiVersion": "remote.com/v1alpha1", "kind": "RemoteThing",
            "metadata": {"name": name, "namespace": "default", "labels": {"mine": "yes"},
                "annotations": {"kcp.io/cluster": cluster}},
            "spec": spec,
        }));
        self.hands.put(&subject.anchor, &object.unwrap());
        subject
    }

    fn copy_key(&self, namespace: &str, name: &str) -> Key {
        let local = Arc::clone(&self.compiled.types.local);
        Scope::new(&Side::new("service"), &local, "").key(Some(namespace), name)
    }

    /// A pass; the writes as words, and where the object stands.
    pub(super) fn pass(&self, subject: &Subject) -> (Vec<String>, Code) {
        let (report, sent) = self.hands.pass(subject);
        let writes = sent.iter().filter(|request| request.writes());
        let words =
            writes.map(|r| format!("{} {}", r.verb(), r.key().map_or("", |k| &k.kind.kind)));
        (words.collect(), report.outcomes[0].reason.code)
    }

    pub(super) fn copy(&self) -> (Key, Arc<Object>) {
        let all = self.hands.objects();
        let mut copies = all.into_iter().filter(|(key, _)| key.kind.kind == "Thing");
        let found = copies.next().expect("there is a copy");
        assert!(copies.next().is_none(), "there is one copy");
        found
    }

    pub(super) fn source(&self, subject: &Subject) -> Arc<Object> {
        self.hands.object(&subject.anchor).unwrap()
    }

    /// The last known state, as api-syncagent reads it.
    fn state(&self, subject: &Subject) -> Value {
        let place = subject.memory.as_ref().unwrap();
        let secret = self.hands.object(&place.key).unwrap();
        let key = super::super::memory::key(CLUSTER, Some("default"), &subject.anchor.name);
        let text = secret.as_value()["data"][&key].as_str().unwrap();
        serde_json::from_slice(&STANDARD.decode(text).unwrap()).unwrap()
    }
}

#[test]
fn a_new_object_gets_its_finalizer_its_state_and_its_copy_in_one_pass() {
    let stage = Stage::new(json!({}));
    let subject = stage.create(
        CLUSTER,
        "my-test-thing",
        json!({"username": "Colonel Mustard"}),
    );
    let (writes, code) = stage.pass(&subject);
    assert_eq!(
        writes,
        [
            "patch RemoteThing",
            "create Namespace",
            "create Secret",
            "create Thing"
        ]
    );
    assert_eq!(code, Code::InStep);
    assert_eq!(stage.pass(&subject), (Vec::new(), Code::InStep));
    let source = stage.source(&subject);
    assert!(source.has_finalizer("syncagent.kcp.io/cleanup"));
    let (key, copy) = stage.copy();
    assert_eq!(key.namespace.as_deref(), Some(CLUSTER));
    assert_eq!(copy.api_version(), "local.com/v1");
    assert_eq!(
        copy.as_value()["spec"],
        json!({"username": "Colonel Mustard"})
    );
    assert_eq!(copy.label("mine"), Some("yes"));
    assert_eq!(copy.label(marks::CLUSTER), Some(CLUSTER));
    assert_eq!(
        copy.label(marks::NAME_HASH),
        Some("c346c8ceb5d104cc783d09b95e8ea7032c190948")
    );
    assert_eq!(
        copy.label(marks::NAMESPACE_HASH),
        Some("7505d64a54e061b7acd54ccd58b49dc43500b635")
    );
    assert_eq!(copy.label(marks::AGENT_NAME), Some("agent"));
    assert_eq!(copy.annotation(marks::NAME), Some("my-test-thing"));
    assert_eq!(copy.annotation(marks::NAMESPACE), Some("default"));
    assert_eq!(copy.annotation("kcp.io/cluster"), None);
    assert_eq!(copy.annotation(marks::WORKSPACE_PATH), None);
    assert_eq!(
        stage.state(&subject),
        json!({
            "apiVersion": "remote.com/v1alpha1", "kind": "RemoteThing",
            "metadata": {"name": "my-test-thing", "namespace": "default", "labels": {"mine": "yes"}},
            "spec": {"username": "Colonel Mustard"},
        })
    );
}

#[test]
fn paths_are_noted_only_where_they_are_wanted() {
    let stage = Stage::new(
        json!({"enableWorkspacePaths": true, "naming": {"name": "{{ .ClusterPath | replace \":\" \"-\" }}"}}),
    );
    let subject = stage.create(CLUSTER, "a", json!({}));
    stage.pass(&subject);
    let (key, copy) = stage.copy();
    assert_eq!(copy.annotation(marks::WORKSPACE_PATH), Some("root:org"));
    assert_eq!(&*key.name, "root-org");
}

#[test]
fn a_name_that_depends_on_the_path_is_not_made_up_without_it() {
    let path_is_needed = |name: &str| {
        let stage = Stage::new(json!({"enableWorkspacePaths": true, "naming": {"name": name}}));
        let remote = Remote {
            cluster: CLUSTER.into(),
            namespace: Some("default".into()),
            name: "a".into(),
        };
        let rules = ObjectRules::new(&stage.compiled, &Sides::default(), remote, None);
        let source = Object::new(json!({"metadata": {"name": "a", "namespace": "default"}}));
        let place = rules.place(&source.unwrap());
        place.err().map(|reason| reason.code) == Some(Code::NamingFailed)
    };
    assert!(path_is_needed("c-{{ .ClusterPath | sha256sum | trunc 8 }}"));
    assert!(!path_is_needed("c-{{ .ClusterName }}"));
}

#[test]
fn a_change_is_one_patch_and_what_others_changed_stays() {
    let stage = Stage::new(json!({}));
    let subject = stage.create(
        CLUSTER,
        "a",
        json!({"x": 1, "y": {"z": 1}, "big": 9_007_199_254_740_993_i64}),
    );
    stage.pass(&subject);
    let (key, _) = stage.copy();
    stage.hands.patch(&key, json!({"spec": {"local": true, "x": 7}, "metadata": {"labels": {"theirs": "l"}, "finalizers": ["f.example.com/x"]}}));
    assert_eq!(stage.pass(&subject).0, Vec::<String>::new());
    stage.hands.patch(
        &subject.anchor,
        json!({"spec": {"y": {"z": 2}}, "metadata": {"labels": {"mine": null}}}),
    );
    assert_eq!(stage.pass(&subject).0, ["update Secret", "patch Thing"]);
    let (_, copy) = stage.copy();
    assert_eq!(
        copy.as_value()["spec"],
        json!({"x": 7, "y": {"z": 2}, "local": true, "big": 9_007_199_254_740_993_i64})
    );
    assert_eq!(
        (copy.label("mine"), copy.label("theirs")),
        (None, Some("l"))
    );
    assert!(copy.has_finalizer("f.example.com/x"));
}

#[test]
fn the_status_comes_back_and_nothing_else_does() {
    let stage =
        Stage::new(json!({"mutation": {"status": [{"delete": {"path": "status.secret"}}]}}));
    let subject = stage.create(CLUSTER, "a", json!({}));
    stage.pass(&subject);
    let (key, _) = stage.copy();
    stage
        .hands
        .patch(&key, json!({"status": {"ready": true, "secret": "x"}}));
    assert_eq!(stage.pass(&subject).0, ["update status RemoteThing"]);
    assert_eq!(
        stage.source(&subject).as_value()["status"],
        json!({"ready": true})
    );
    assert_eq!(stage.pass(&subject).0, Vec::<String>::new());
}

#[test]
fn a_deletion_takes_the_copy_then_the_state_then_the_finalizer() {
    let stage = Stage::new(json!({}));
    let subject = stage.create(CLUSTER, "a", json!({}));
    stage.pass(&subject);
    stage.hands.delete(&subject.anchor);
    let (writes, code) = stage.pass(&subject);
    assert_eq!(
        writes,
        ["delete Thing", "delete Secret", "patch RemoteThing"]
    );
    assert_eq!(code, Code::Gone);
    assert!(
        stage
            .hands
            .objects()
            .keys()
            .all(|key| key.kind.kind == "Namespace")
    );
}

#[test]
fn a_copy_that_is_held_back_holds_its_source() {
    let stage = Stage::new(json!({}));
    let subject = stage.create(CLUSTER, "a", json!({}));
    stage.pass(&subject);
    let (key, _) = stage.copy();
    stage.hands.patch(
        &key,
        json!({"metadata": {"finalizers": ["f.example.com/x"]}}),
    );
    stage.hands.delete(&subject.anchor);
    assert_eq!(
        stage.pass(&subject),
        (vec!["delete Thing".into()], Code::WaitingForDeletion)
    );
    stage
        .hands
        .patch(&key, json!({"metadata": {"finalizers": null}}));
    stage.pass(&subject);
    assert!(stage.hands.object(&subject.anchor).is_none());
}

#[test]
fn an_object_that_belongs_to_nobody_is_adopted_with_its_content() {
    let stage = Stage::new(json!({"naming": {"name": "{{ .Object.metadata.name }}"}}));
    let key = stage.copy_key(CLUSTER, "a");
    let there = json!({"apiVersion": "local.com/v1", "kind": "Thing", "metadata": {"name": "a", "namespace": CLUSTER}, "spec": {"old": 1}});
    stage.hands.put(&key, &Object::new(there).unwrap());
    let subject = stage.create(CLUSTER, "a", json!({"new": 2}));
    assert_eq!(stage.pass(&subject).1, Code::InStep);
    let (_, copy) = stage.copy();
    assert_eq!(copy.as_value()["spec"], json!({"old": 1}));
    assert_eq!(copy.annotation(marks::ADOPTED), Some("true"));
    assert_eq!(copy.label(marks::CLUSTER), Some(CLUSTER));
    stage
        .hands
        .patch(&subject.anchor, json!({"spec": {"new": 3}}));
    stage.pass(&subject);
    assert_eq!(
        stage.copy().1.as_value()["spec"],
        json!({"old": 1, "new": 3})
    );
}

#[test]
fn an_object_is_not_adopted_where_that_is_switched_off() {
    let stage = Stage::new(json!({"naming": {"name": "a"}, "safety": {"adoption": "Never"}}));
    let key = stage.copy_key(CLUSTER, "a");
    let there = json!({"metadata": {"name": "a"}, "spec": {"old": 1}});
    stage.hands.put(&key, &Object::new(there.clone()).unwrap());
    let subject = stage.create(CLUSTER, "a", json!({}));
    assert_eq!(stage.pass(&subject).1, Code::AdoptionRefused);
    assert_eq!(stage.copy().1.as_value()["spec"], there["spec"]);
}

#[test]
fn an_adopted_object_is_released_where_that_is_asked_for() {
    let stage =
        Stage::new(json!({"naming": {"name": "a"}, "safety": {"adoptedOnDelete": "Release"}}));
    let key = stage.copy_key(CLUSTER, "a");
    let there = json!({"metadata": {"name": "a"}, "spec": {"old": 1}});
    stage.hands.put(&key, &Object::new(there).unwrap());
    let subject = stage.create(CLUSTER, "a", json!({}));
    stage.pass(&subject);
    stage.hands.delete(&subject.anchor);
    stage.pass(&subject);
    assert!(stage.hands.object(&subject.anchor).is_none());
    let left = stage.copy().1;
    assert_eq!(left.label(marks::CLUSTER), None);
    assert_eq!(left.as_value()["spec"], json!({"old": 1}));
}

#[test]
fn of_two_sources_with_one_name_the_first_keeps_it_and_the_second_is_told() {
    let stage = Stage::new(json!({"naming": {"name": "same", "namespace": "shared"}}));
    let first = stage.create(CLUSTER, "a", json!({"who": 1}));
    let second = stage.create("other", "a", json!({"who": 2}));
    assert_eq!(stage.pass(&first).1, Code::InStep);
    let (writes, code) = stage.pass(&second);
    assert_eq!(code, Code::NameConflict);
    assert!(
        !writes
            .iter()
            .any(|write| write.ends_with(" Thing") && !write.starts_with("create")),
        "{writes:?}"
    );
    assert_eq!(stage.copy().1.as_value()["spec"]["who"], 1);
    stage.hands.delete(&second.anchor);
    stage.pass(&second);
    assert!(stage.hands.object(&second.anchor).is_none());
    assert_eq!(stage.copy().1.as_value()["spec"]["who"], 1);
}

#[test]
fn a_state_that_the_original_wrote_is_taken_over_without_a_write() {
    let stage = Stage::new(json!({}));
    let subject = stage.create(CLUSTER, "a", json!({"x": 1}));
    stage.pass(&subject);
    let place = subject.memory.as_ref().unwrap();
    let key = super::super::memory::key(CLUSTER, Some("default"), "a");
    let secret = stage.hands.object(&place.key).unwrap();
    let text = secret.as_value()["data"][&key].clone();
    let mut theirs = Object::clone(&secret);
    theirs.root_mut().insert("data".into(), json!({key: text}));
    theirs.metadata_mut().remove("resourceVersion");
    stage.hands.put(&place.key, &theirs);
    assert_eq!(stage.pass(&subject), (Vec::new(), Code::InStep));
}

#[test]
fn mutations_change_what_travels_and_not_which_object_it_is() {
    let stage = Stage::new(json!({"mutation": {"spec": [
        {"regex": {"path": "spec.name", "pattern": "^", "replacement": "x-"}},
        {"cel": {"path": "spec.total", "expression": "self.spec.n + 1"}},
        {"template": {"path": "spec.where", "template": "{{ .RemoteObject.metadata.namespace }}"}},
        {"regex": {"path": "metadata.name", "pattern": "", "replacement": "hijacked"}},
    ]}}));
    let subject = stage.create(CLUSTER, "a", json!({"name": "n", "n": 1}));
    stage.pass(&subject);
    let (_, copy) = stage.copy();
    assert_eq!(
        copy.as_value()["spec"],
        json!({"name": "x-n", "n": 1, "total": 2, "where": CLUSTER})
    );
    assert_eq!(copy.annotation(marks::NAME), Some("a"));
    assert_eq!(stage.pass(&subject), (Vec::new(), Code::InStep));
}

#[test]
fn a_mutation_or_a_name_that_fails_refuses_the_object_with_its_reason() {
    let failing = json!({"mutation": {"spec": [{"cel": {"path": "spec.x", "expression": "self.spec.none.deep"}}]}});
    let stage = Stage::new(failing);
    let subject = stage.create(CLUSTER, "a", json!({}));
    let (report, sent) = stage.hands.pass(&subject);
    let reason = &report.outcomes[0].reason;
    assert_eq!(
        (reason.code, reason.code.class()),
        (Code::MutationFailed, Class::Refused)
    );
    assert!(reason.detail.contains("spec.x"), "{reason}");
    let made = sent
        .iter()
        .any(|request| matches!(request, Request::Create { key, .. } if key.kind.kind == "Thing"));
    assert!(!made);
    let stage = Stage::new(json!({"naming": {"name": "Not A Name"}}));
    let subject = stage.create(CLUSTER, "a", json!({}));
    assert_eq!(stage.pass(&subject).1, Code::NameInvalid);
}

#[test]
fn missing_marks_are_put_right_with_the_next_pass() {
    let stage = Stage::new(json!({}));
    let subject = stage.create(CLUSTER, "a", json!({"x": 1}));
    stage.pass(&subject);
    let (key, _) = stage.copy();
    stage.hands.patch(
        &key,
        json!({"metadata": {"annotations": {marks::NAME: null}}}),
    );
    assert_eq!(stage.pass(&subject).0, ["patch Thing"]);
    assert_eq!(stage.copy().1.annotation(marks::NAME), Some("a"));
}

/// 63 and 253 characters, dots, capitals and letters of other scripts: found out before anything is
/// asked of the service cluster.
#[test]
fn names_that_no_server_takes_are_refused_before_any_call() {
    for (name, namespace, fits) in [
        ("a".repeat(253), "n".repeat(63), true),
        ("a".repeat(254), "n".into(), false),
        ("a".into(), "n".repeat(64), false),
        ("a.b".into(), "n".into(), true),
        ("a".into(), "n.m".into(), false),
        ("Upper".into(), "n".into(), false),
        ("a".into(), "ü".into(), false),
        ("a/b".into(), "n".into(), false),
        ("..".into(), "n".into(), false),
    ] {
        let stage = Stage::new(json!({"naming": {"name": name, "namespace": namespace}}));
        let subject = stage.create(CLUSTER, "a", json!({}));
        let (report, sent) = stage.hands.pass(&subject);
        let code = report.outcomes[0].reason.code;
        assert_eq!(code == Code::InStep, fits, "{name} {namespace}: {code}");
        let service = sent
            .iter()
            .filter_map(Request::key)
            .any(|key| key.side == Side::new("service"));
        assert_eq!(service, fits, "{name} {namespace}");
    }
}

#[test]
fn a_status_travels_as_it_is_unless_a_mutation_takes_internals_out() {
    let internals = json!({"ready": true, "pod": "node-17/abc", "uid": "123"});
    for (mutation, wanted) in [
        (json!([]), internals.clone()),
        (
            json!([{"delete": {"path": "status.pod"}}, {"delete": {"path": "status.uid"}}]),
            json!({"ready": true}),
        ),
    ] {
        let stage = Stage::new(json!({"mutation": {"status": mutation}}));
        let subject = stage.create(CLUSTER, "a", json!({}));
        stage.pass(&subject);
        stage
            .hands
            .patch(&stage.copy().0, json!({"status": internals}));
        stage.pass(&subject);
        assert_eq!(stage.source(&subject).as_value()["status"], wanted);
    }
}

/// The servers and the state print them as integers: what is as much worth is no change.
#[test]
fn whole_floats_are_sent_and_remembered_once() {
    for (expression, wanted) in [
        ("1e18", json!(1_000_000_000_000_000_000_i64)),
        ("1e19", json!(10_000_000_000_000_000_000_u64)),
        ("1e20", json!(1e20)),
        ("-1e20", json!(-1e20)),
        ("2.0", json!(2)),
        ("[1.0, {'a': 3.0}]", json!([1, {"a": 3}])),
    ] {
        let mutation = json!([{"cel": {"path": "spec.made", "expression": expression}}]);
        let stage = Stage::new(json!({"mutation": {"spec": mutation}}));
        let subject = stage.create(CLUSTER, "a", json!({"given": 1.0, "large": 1e3}));
        stage.pass(&subject);
        assert_eq!(
            stage.copy().1.as_value()["spec"],
            json!({"given": 1, "large": 1000, "made": wanted})
        );
        assert_eq!(stage.pass(&subject), (Vec::new(), Code::InStep));
        stage
            .hands
            .patch(&subject.anchor, json!({"spec": {"given": 1}}));
        assert_eq!(stage.pass(&subject), (Vec::new(), Code::InStep));
    }
}

#[test]
fn a_status_that_differs_in_the_spelling_of_numbers_is_not_written_again() {
    let stage = Stage::new(json!({}));
    let subject = stage.create(CLUSTER, "a", json!({}));
    stage.pass(&subject);
    for (there, here, writes) in [
        (json!({"share": 1.0}), json!({"share": 1}), 0),
        (json!({"share": 1}), json!({"share": 1.0}), 0),
        (json!({"share": 1}), json!({"share": 1.5}), 1),
    ] {
        let mut source = Object::clone(&stage.source(&subject));
        source.root_mut().insert("status".into(), there.clone());
        stage.hands.put(&subject.anchor, &source);
        stage
            .hands
            .patch(&stage.copy().0, json!({"status": here.clone()}));
        assert_eq!(stage.pass(&subject).0.len(), writes, "{there} {here}");
    }
}

/// Text nested deeper than anybody reads it.
#[test]
fn a_state_that_cannot_be_read_back_is_told_of_and_written_once() {
    let stage = Stage::new(json!({}));
    let deep = (0..140).fold(json!(1), |inner, _| json!([inner]));
    let subject = stage.create(CLUSTER, "a", json!({ "deep": deep }));
    stage.pass(&subject);
    assert_eq!(stage.pass(&subject), (Vec::new(), Code::StateNotKept));
}

#[test]
fn a_status_that_workspaces_do_not_serve_stays_where_it_is() {
    let stage = Stage::with_status(json!({}), vec!["status"], false);
    let subject = stage.create(CLUSTER, "a", json!({}));
    stage.pass(&subject);
    stage
        .hands
        .patch(&stage.copy().0, json!({"status": {"ready": true}}));
    assert_eq!(stage.pass(&subject), (Vec::new(), Code::InStep));
    assert_eq!(stage.source(&subject).root().get("status"), None);
}

/// Then it is content like any other on the way there, and still comes back.
#[test]
fn a_status_that_the_service_cluster_does_not_serve_apart_travels_with_the_object() {
    let stage = Stage::with_status(json!({}), Vec::new(), true);
    let subject = stage.create(CLUSTER, "a", json!({}));
    stage
        .hands
        .patch(&subject.anchor, json!({"status": {"asked": 1}}));
    stage.pass(&subject);
    assert_eq!(stage.copy().1.as_value()["status"], json!({"asked": 1}));
    stage
        .hands
        .patch(&stage.copy().0, json!({"status": {"asked": 2}}));
    stage.pass(&subject);
    let source = stage.source(&subject);
    assert_eq!(source.as_value()["status"], json!({"asked": 2}));
    stage.pass(&subject);
    assert_eq!(stage.pass(&subject), (Vec::new(), Code::InStep));
    assert_eq!(stage.copy().1.as_value()["status"], json!({"asked": 2}));
}

/// The namespaces are the spec's, so that one test meets them all.
const NAMED: &str = "{{ .Object.spec.ns }}";

#[test]
fn consumers_words_lead_no_copy_to_the_system_or_to_the_agent() {
    for namespace in ["kube-system", "kube-x", "hawser"] {
        let stage = Stage::new(json!({"naming": {"namespace": NAMED, "name": "x"}}));
        let met = stage.copy_key(namespace, "x");
        let provider = Object::new(json!({"apiVersion": "local.com/v1", "kind": "Thing",
            "metadata": {"name": "x", "namespace": namespace}, "spec": {"of": "provider"}}));
        stage.hands.put(&met, &provider.unwrap());
        let before = stage.hands.object(&met);
        let subject = stage.create(CLUSTER, "a", json!({"ns": namespace}));
        let (writes, code) = stage.pass(&subject);
        assert_eq!(
            (writes, code),
            (vec!["patch RemoteThing".to_owned()], Code::NamespaceClosed)
        );
        stage.hands.delete(&subject.anchor);
        stage.pass(&subject);
        assert!(stage.hands.object(&subject.anchor).is_none(), "it goes");
        assert_eq!(stage.hands.object(&met), before);
    }
    // What is the owner's word is the owner's business.
    let stage = Stage::new(json!({"naming": {"namespace": "kube-system"}}));
    let subject = stage.create(CLUSTER, "a", json!({}));
    assert_eq!(stage.pass(&subject).1, Code::InStep);
}

#[test]
fn a_copy_in_a_closed_namespace_is_written_no_more_and_goes_with_its_object() {
    let mut stage = Stage::new(json!({"naming": {"namespace": "kube-system", "name": "x"}}));
    let subject = stage.create(CLUSTER, "a", json!({"ns": "kube-system", "n": 1}));
    assert_eq!(stage.pass(&subject).1, Code::InStep);
    let (key, _) = stage.copy();
    stage.compiled = Stage::new(json!({"naming": {"namespace": NAMED, "name": "x"}})).compiled;
    let subject = stage.subject(CLUSTER, "a");
    stage
        .hands
        .patch(&subject.anchor, json!({"spec": {"n": 2}}));
    assert_eq!(stage.pass(&subject), (Vec::new(), Code::NamespaceClosed));
    // Nor is it made again where its record says that it was.
    stage.hands.delete(&key);
    assert_eq!(stage.pass(&subject), (Vec::new(), Code::NamespaceClosed));
    assert!(stage.hands.object(&key).is_none());
    stage.hands.delete(&subject.anchor);
    stage.pass(&subject);
    assert!(stage.hands.object(&subject.anchor).is_none(), "it goes");
}

/// Whoever may choose the name of a namespace does not get that of the agent or of the system.
#[test]
fn no_published_namespace_is_one_of_the_system_or_of_the_agent() {
    let types = || Types {
        local: Gvk::new("", "v1", "Namespace").into(),
        remote: Gvk::new("remote.com", "v1alpha1", "RemoteThing").into(),
        local_scope: LocalScope::Cluster,
        subresources: vec!["status"],
        remote_status: false,
        remote_status_schema: None,
    };
    let met = |naming: &str, safety: Value, name: &str| {
        let stage = Stage::of(
            json!({"naming": {"name": naming}, "safety": safety}),
            types(),
        );
        let subject = stage.create(CLUSTER, name, json!({}));
        stage.pass(&subject);
        stage.pass(&subject).1
    };
    let (open, guarded) = (json!({}), json!({"consumerNames": "Guarded"}));
    let agents = {
        let stage = Stage::of(json!({}), types());
        stage.compiled.agent().namespace.clone()
    };
    for name in ["kube-system", &agents] {
        assert_eq!(
            met("$remoteName", open.clone(), name),
            Code::NamespaceClosed,
            "{name}"
        );
    }
    assert_eq!(
        met("$remoteName", guarded, "default"),
        Code::NamespaceClosed
    );
    assert_eq!(met("$remoteName", open.clone(), "team"), Code::InStep);
    assert_eq!(met("kube-extra", open, "team"), Code::InStep);
}

#[test]
fn no_published_secret_asks_the_service_cluster_for_a_token() {
    for (of_type, want) in [("Opaque", Code::InStep), (ACCOUNT_TOKEN, Code::Forbidden)] {
        let types = Types {
            local: Gvk::new("", "v1", "Secret").into(),
            remote: Gvk::new("remote.com", "v1alpha1", "RemoteThing").into(),
            local_scope: LocalScope::Namespaced,
            subresources: Vec::new(),
            remote_status: false,
            remote_status_schema: None,
        };
        let stage = Stage::of(json!({}), types);
        let subject = stage.create(CLUSTER, "a", json!({}));
        stage
            .hands
            .patch(&subject.anchor, json!({ "type": of_type }));
        stage.pass(&subject);
        assert_eq!(stage.pass(&subject).1, want);
    }
}

#[test]
fn names_of_consumers_take_nothing_over_where_they_are_guarded() {
    let met = |naming: Value, safety: Value, namespace: &str| {
        let stage = Stage::new(json!({"naming": naming, "safety": safety}));
        let key = stage.copy_key(namespace, "x");
        let provider = Object::new(json!({"apiVersion": "local.com/v1", "kind": "Thing",
            "metadata": {"name": "x", "namespace": namespace}}));
        stage.hands.put(&key, &provider.unwrap());
        let subject = stage.create(CLUSTER, "x", json!({"ns": namespace}));
        stage.pass(&subject).1
    };
    let guarded = || json!({"consumerNames": "Guarded"});
    let chosen = || json!({"namespace": NAMED, "name": "x"});
    let named = || json!({"namespace": "shared", "name": "$remoteName"});
    assert_eq!(met(chosen(), json!({}), "default"), Code::InStep);
    assert_eq!(met(chosen(), guarded(), "default"), Code::NamespaceClosed);
    assert_eq!(met(chosen(), guarded(), "other"), Code::AdoptionRefused);
    assert_eq!(met(named(), json!({}), "shared"), Code::InStep);
    assert_eq!(met(named(), guarded(), "shared"), Code::AdoptionRefused);
    let owners = json!({"namespace": "default", "name": "x"});
    assert_eq!(met(owners, guarded(), "default"), Code::InStep);
}
