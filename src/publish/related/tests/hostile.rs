//! A consumer that tries to reach what is not its own, by every field that it controls.

use super::*;
use crate::publish::related::entry::Author;
use crate::publish::related::entry::FAN_OUT;

const C: &str = "c1";

/// The provider's and other tenants' Secrets.
fn treasures(stage: &Stage) -> Vec<Key> {
    let places = [
        ("kube-system", "token"),
        ("default", "token"),
        ("hawser", "agent-kubeconfig"),
        ("vault", "root"),
        ("c2", "creds"),
    ];
    let keys: Vec<_> = places
        .iter()
        .map(|(namespace, name)| stage.secret("service", "", namespace, name))
        .collect();
    for key in &keys {
        stage.put(key, "treasure");
    }
    keys
}

/// Nothing of the treasures is in the workspace, and they are as they were.
#[track_caller]
fn nothing_was_taken(stage: &Stage, treasures: &[Key]) {
    for (key, object) in stage.hands.objects() {
        let shown = object.as_value()["data"].to_string();
        assert!(
            *key.side.0 != *"kcp" || !shown.contains("treasure"),
            "{key} got it"
        );
    }
    for key in treasures {
        assert_eq!(stage.value(key).as_deref(), Some("treasure"), "{key}");
        let object = stage.hands.object(key).unwrap();
        assert_eq!(object.finalizers().count(), 0);
    }
}

/// Whichever treasure a consumer names by these fields, it gets none and is told so.
#[track_caller]
fn refused(entry: Value, want: Code) {
    let targets = [
        "kube-system/token",
        "default/token",
        "hawser/agent-kubeconfig",
        "vault/root",
        "c2/creds",
    ];
    for target in targets {
        let stage = Stage::new(json!([entry]));
        let treasures = treasures(&stage);
        let (namespace, name) = target.split_once('/').unwrap();
        // Something of its own to send, for entries that go the other way.
        stage.put(&stage.secret("kcp", C, namespace, name), "poison");
        stage.put(&stage.secret("kcp", C, "default", name), "poison");
        stage.create(
            C,
            "a",
            json!({"ns": namespace, "name": name, "both": target}),
        );
        let codes = stage.rest(C, "a");
        assert_eq!(codes, [want], "{target}");
        nothing_was_taken(&stage, &treasures);
        stage.hands.delete(&stage.anchor(C, "a"));
        stage.rest(C, "a");
        nothing_was_taken(&stage, &treasures);
    }
}

fn in_namespace(mut object: Value, namespace: Value) -> Value {
    object["namespace"] = namespace;
    object
}

fn namespaces_a_consumer_chooses() -> Vec<Value> {
    vec![
        by_path("spec.ns"),
        json!({"reference": {"path": "spec.both", "regex": {"pattern": "/.*$", "replacement": ""}}}),
        json!({"template": {"template": "{{ .Object.spec.ns }}"}}),
        json!({"template": {"template": "{{ with .Object.spec.ns }}{{ . }}{{ end }}"}}),
        json!({"template": {"template": "{{ $x := .Object.spec.ns }}{{ $x }}"}}),
        json!({"template": {"template": "{{ printf \"%s\" .Object.spec.ns }}"}}),
    ]
}

#[test]
fn no_namespace_that_a_consumer_chooses_is_read_or_written() {
    for origin in ["service", "kcp"] {
        for namespace in namespaces_a_consumer_chooses() {
            let object = in_namespace(by_path("spec.name"), namespace);
            refused(entry("e", origin, object), Code::NamespaceClosed);
        }
    }
}

/// Whoever makes a workspace names it, and so determines a part of its path.
#[test]
fn no_part_of_the_path_of_a_workspace_opens_a_namespace() {
    for (template, want) in [
        (
            "{{ splitList \":\" .ClusterPath | last }}",
            Code::NamespaceClosed,
        ),
        (
            "{{ regexReplaceAll \".*:\" .ClusterPath \"\" }}",
            Code::NamespaceClosed,
        ),
        (
            "{{ .ClusterPath | replace \":\" \"-\" | trimPrefix \"root-team-\" }}",
            Code::NamespaceClosed,
        ),
        ("{{ .ClusterPath | replace \":\" \"-\" }}", Code::InStep),
        (
            "{{ .ClusterPath | sha256sum | trunc 10 | printf \"n%s\" }}",
            Code::InStep,
        ),
    ] {
        for origin in ["service", "kcp"] {
            let object = in_namespace(
                by_path("spec.name"),
                json!({"template": {"template": format!("{{{{ if eq .Side \"kcp\" }}}}default{{{{ else }}}}{template}{{{{ end }}}}")}}),
            );
            let mut stage = Stage::of(json!({"enableWorkspacePaths": true,
                "related": [entry("e", origin, object)]}));
            stage.path = "root:team:vault";
            let treasures = treasures(&stage);
            stage.put(&stage.secret("kcp", C, "default", "root"), "poison");
            let open = [
                "root-team-vault",
                &format!("n{}", &sha256(stage.path)[..10]),
            ];
            for namespace in open {
                stage.put(&stage.secret("service", "", namespace, "other"), "v");
            }
            let name = if want == Code::InStep && origin == "service" {
                "other"
            } else {
                "root"
            };
            stage.create(C, "a", json!({"name": name}));
            assert_eq!(stage.rest(C, "a"), [want], "{origin} {template}");
            nothing_was_taken(&stage, &treasures);
        }
    }
}

fn sha256(text: &str) -> String {
    use sha2::Digest as _;
    let digest = sha2::Sha256::digest(text);
    let digits = digest.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect()
}

/// By a template as by a reference: a status is the provider's where copies have a status subresource.
#[test]
fn a_namespace_from_the_status_or_beside_that_of_the_copy_is_open_where_it_is_the_providers() {
    let both = |text: &str| {
        let text = format!("{{{{ if eq .Side \"kcp\" }}}}default{{{{ else }}}}{text}{{{{ end }}}}");
        let namespace = json!({"template": {"template": text}});
        json!([entry(
            "e",
            "service",
            in_namespace(by_path("spec.name"), namespace)
        )])
    };
    let status = both("{{ .Object.status.vault }}");
    let beside = both("{{ .Object.metadata.namespace }}-x");
    for (naming, related, author) in [
        ("", &status, Author::Status),
        ("", &beside, Author::Owner),
        ("$remoteNamespace", &beside, Author::Consumer),
    ] {
        let stage = Stage::of(json!({"naming": {"namespace": naming}, "related": related}));
        let found = stage.compiled.related()[0]
            .name_authors()
            .namespaces
            .unwrap();
        assert_eq!(found.service, author, "{naming} {related}");
    }
    let stage = Stage::new(beside);
    let near = stage.secret("service", "", &format!("{C}-x"), "s");
    stage.put(&near, "v");
    stage.create(C, "a", json!({"name": "s"}));
    assert_eq!(stage.rest(C, "a"), [Code::InStep]);
    let copy = stage.secret("kcp", C, "default", "s");
    assert_eq!(stage.value(&copy).as_deref(), Some("v"));
}

/// Of any name this pattern leaves nothing.
#[test]
fn a_pattern_that_replaces_everything_gives_the_owners_word() {
    let by = |pattern: &str, replacement: &str| {
        let namespace = json!({"reference": {"path": "spec.ns",
            "regex": {"pattern": pattern, "replacement": replacement}}});
        let related = json!([entry(
            "e",
            "service",
            in_namespace(by_path("spec.name"), namespace)
        )]);
        let stage = Stage::new(related);
        let authors = stage.compiled.related()[0].name_authors();
        authors.namespaces.unwrap().service
    };
    assert_eq!(by(".*", "fixed"), Author::Owner);
    for (pattern, replacement) in [(".*", "$0"), (".+x", "fixed"), ("^.*$", "fixed")] {
        assert_eq!(by(pattern, replacement), Author::Consumer, "{pattern}");
    }
}

#[test]
fn a_path_that_only_looks_like_the_status_is_the_consumers() {
    let namespace = by_path("status.x|@this|@valid");
    let object = in_namespace(by_path("spec.name"), namespace);
    let stage = Stage::new(json!([entry("e", "service", object)]));
    let entry = &stage.compiled.related()[0];
    let values = entry.namespaces.as_ref().unwrap();
    assert_eq!(values.authors(Origin::Service).service, Author::Consumer);
}

#[test]
fn a_selector_of_namespaces_that_a_consumer_has_a_say_in_opens_none() {
    let namespace = json!({"selector": {"matchLabels": {"kubernetes.io/metadata.name": "{{ .RemoteObject.spec.ns }}"},
        "rewrite": {"regex": {"pattern": "", "replacement": "default"}}}});
    let object = in_namespace(by_path("spec.name"), namespace);
    let stage = Stage::new(json!([entry("e", "service", object)]));
    let treasures = treasures(&stage);
    for key in &treasures {
        let namespace = key.namespace_key().unwrap();
        stage.hands.put(
            &namespace,
            &Object::empty(&namespace.kind, None, &namespace.name),
        );
        stage.hands.patch(
            &namespace,
            json!({"metadata": {"labels": {"kubernetes.io/metadata.name": &*namespace.name}}}),
        );
    }
    for (ns, name) in [("vault", "root"), ("c2", "creds"), ("kube-system", "token")] {
        stage.create(C, ns, json!({"ns": ns, "name": name}));
        assert_eq!(stage.rest(C, ns), [Code::NamespaceClosed]);
    }
    nothing_was_taken(&stage, &treasures);
}

#[test]
fn labels_that_would_be_another_selector_are_refused() {
    let selector = json!({"selector": {"matchLabels": {"{{ .RemoteObject.spec.key }}": "{{ .RemoteObject.spec.value }}"},
        "rewrite": {"regex": {"pattern": "", "replacement": "got"}}}});
    for (key, value) in [("a!", "x"), ("a", "x,b"), ("a in (x),b", "x"), ("a", "(x)")] {
        let stage = Stage::new(json!([entry("e", "service", selector.clone())]));
        stage.put(&stage.secret("service", "", C, "s"), "treasure");
        stage.create(C, "a", json!({"key": key, "value": value}));
        assert_eq!(
            stage.rest(C, "a"),
            [Code::ReferenceInvalid],
            "{key}={value}"
        );
        nothing_was_taken(&stage, &[]);
    }
}

#[test]
fn what_the_owner_opened_is_open_and_what_is_never_open_is_not() {
    let object = in_namespace(by_path("spec.name"), by_path("spec.ns"));
    let mut e = entry("e", "service", object);
    e["allowedNamespaces"] = json!(["vault", "kube-system", "hawser", "default"]);
    for (namespace, name, want) in [
        ("vault", "root", Code::InStep),
        ("c2", "creds", Code::NamespaceClosed),
        ("kube-system", "token", Code::NamespaceClosed),
        ("hawser", "agent-kubeconfig", Code::NamespaceClosed),
        ("default", "token", Code::NamespaceClosed),
    ] {
        let stage = Stage::new(json!([e]));
        treasures(&stage);
        stage.create(C, "a", json!({"ns": namespace, "name": name}));
        assert_eq!(stage.rest(C, "a"), [want], "{namespace}");
    }
}

#[test]
fn a_closed_namespace_takes_back_what_was_given_from_it() {
    let object = in_namespace(by_path("spec.name"), by_path("spec.ns"));
    let mut e = entry("e", "service", object);
    e["allowedNamespaces"] = json!(["vault"]);
    let mut stage = Stage::new(json!([e]));
    treasures(&stage);
    stage.create(C, "a", json!({"ns": "vault", "name": "root"}));
    assert_eq!(stage.rest(C, "a"), [Code::InStep]);
    e.as_object_mut().unwrap().remove("allowedNamespaces");
    stage.restarted(json!({"related": [e]}));
    assert_eq!(stage.rest(C, "a"), [Code::NamespaceClosed]);
    assert!(
        stage
            .hands
            .object(&stage.secret("kcp", C, "vault", "root"))
            .is_none()
    );
}

#[test]
fn with_require_link_an_original_has_to_show_that_it_belongs_here() {
    let mut e = entry("e", "service", by_path("spec.name"));
    e["requireLink"] = true.into();
    let stage = Stage::new(json!([e]));
    let key = stage.secret("service", "", C, "s");
    stage.put(&key, "v");
    stage.create(C, "a", json!({"name": "s"}));
    assert_eq!(stage.rest(C, "a"), [Code::NotLinked]);
    let copy = stage
        .hands
        .objects()
        .into_iter()
        .find(|(k, _)| k.kind.kind == "Thing");
    let uid = copy.unwrap().1.uid().unwrap().to_owned();
    stage.hands.patch(
        &key,
        json!({"metadata": {"ownerReferences": [{"uid": uid}]}}),
    );
    assert_eq!(stage.rest(C, "a"), [Code::InStep]);
    stage
        .hands
        .patch(&key, json!({"metadata": {"ownerReferences": null}}));
    assert_eq!(stage.rest(C, "a"), [Code::NotLinked]);
    assert!(
        stage
            .hands
            .object(&stage.secret("kcp", C, "default", "s"))
            .is_none()
    );
}

#[test]
fn states_and_other_workspaces_objects_are_shown_to_nobody() {
    for labels in [
        json!({marks::OBJECT_STATE: "true"}),
        json!({marks::CLUSTER: "c2"}),
    ] {
        let stage = Stage::new(json!([entry("e", "service", by_path("spec.name"))]));
        let key = stage.secret("service", "", C, "s");
        stage.put(&key, "treasure");
        stage
            .hands
            .patch(&key, json!({"metadata": {"labels": labels}}));
        stage.create(C, "a", json!({"name": "s"}));
        assert_eq!(stage.rest(C, "a"), [Code::NotLinked]);
        nothing_was_taken(&stage, &[]);
    }
}

#[test]
fn in_a_namespace_that_workspaces_share_nobody_takes_anothers_copy() {
    let spec = json!({"naming": {"namespace": "shared", "name": "{{ .ClusterName }}-{{ .Object.metadata.name }}"},
        "related": [entry("e", "kcp", by_path("spec.name"))]});
    let stage = Stage::of(spec);
    assert_eq!(stage.compiled.warnings().len(), 1);
    for cluster in ["c1", "c2"] {
        stage.put(&stage.secret("kcp", cluster, "default", "s"), "same");
        stage.create(cluster, "a", json!({"name": "s"}));
    }
    assert_eq!(stage.rest("c1", "a"), [Code::InStep]);
    assert_eq!(stage.rest("c2", "a"), [Code::NameConflict]);
    let copy = stage.secret("service", "", "shared", "s");
    stage.hands.delete(&stage.anchor("c2", "a"));
    stage.rest("c2", "a");
    assert!(stage.hands.object(&copy).is_some());
}

#[test]
fn a_copy_never_becomes_the_copy_of_a_published_object_or_a_state() {
    for labels in [
        json!({marks::OBJECT_STATE: "true"}),
        json!({marks::CLUSTER: "c2"}),
    ] {
        let mut e = entry("e", "kcp", by_path("spec.name"));
        e["adopt"] = true.into();
        let stage = Stage::new(json!([e]));
        let key = stage.secret("service", "", C, "s");
        stage.put(&key, "treasure");
        stage
            .hands
            .patch(&key, json!({"metadata": {"labels": labels}}));
        stage.put(&stage.secret("kcp", C, "default", "s"), "poison");
        stage.create(C, "a", json!({"name": "s"}));
        assert_eq!(stage.rest(C, "a"), [Code::NameConflict]);
        assert_eq!(stage.value(&key).as_deref(), Some("treasure"));
    }
}

#[test]
fn a_consumers_labels_do_not_travel_as_marks() {
    let stage = Stage::new(json!([entry("e", "kcp", by_path("spec.name"))]));
    let source = stage.secret("kcp", C, "default", "s");
    stage.put(&source, "v");
    stage.hands.patch(&source, json!({"metadata": {
        "labels": {marks::CLUSTER: "c2", marks::AGENT_NAME: "other", marks::OBJECT_STATE: "true", "mine": "yes"},
        "annotations": {marks::NAME: "victim"}, "ownerReferences": [{"uid": "1"}]}}));
    stage.create(C, "a", json!({"name": "s"}));
    assert_eq!(stage.rest(C, "a"), [Code::InStep]);
    let copy = stage
        .hands
        .object(&stage.secret("service", "", C, "s"))
        .unwrap();
    assert_eq!(copy.labels().collect::<Vec<_>>(), [("mine", "yes")]);
    assert_eq!(copy.annotations().count(), 0);
    assert!(copy.as_value()["metadata"].get("ownerReferences").is_none());
}

#[test]
fn a_list_of_thousands_is_cut_and_told_of() {
    let stage = Stage::new(json!([entry("e", "service", by_path("spec.names"))]));
    let names: Vec<_> = (0..2000).map(|n| format!("s{n:04}")).collect();
    stage.create(C, "a", json!({ "names": names }));
    let codes = stage.rest(C, "a");
    assert_eq!(codes.len(), FAN_OUT + 1);
    assert!(codes.contains(&Code::TooManyRelated));
}

#[test]
fn objects_without_a_namespace_are_not_named_by_consumers() {
    let name = TypeName {
        group: "g.io".into(),
        version: "v1".into(),
        resource: "realms".into(),
    };
    for (origin, object, want) in [
        ("service", by_path("spec.name"), Code::NamespaceClosed),
        ("kcp", by_path("spec.name"), Code::NamespaceClosed),
        (
            "service",
            json!({"template": {"template": "of-{{ .ClusterName }}"}}),
            Code::InStep,
        ),
        (
            "kcp",
            json!({"template": {"template": "of-{{ .ClusterName }}"}}),
            Code::InStep,
        ),
    ] {
        let mut stage = Stage::new(
            json!([{"identifier": "e", "origin": origin, "group": "g.io",
            "version": "v1", "resource": "realms", "object": object}]),
        );
        let kind = Arc::new(Gvk::new("g.io", "v1", "Realm"));
        for side in [Origin::Kcp, Origin::Service] {
            let known = RelatedKind {
                kind: Arc::clone(&kind),
                namespaced: false,
                status: false,
            };
            stage.kinds.learn(side, name.clone(), known);
        }
        let cluster = if origin == "kcp" { C } else { "" };
        let source = Scope::new(&hawser_sync::Side::new(origin), &kind, cluster).key(None, "of-c1");
        stage.put(&source, "v");
        stage.create(C, "a", json!({"name": "of-c1"}));
        assert_eq!(stage.rest(C, "a"), [want], "{origin}");
    }
}

#[test]
fn in_a_namespace_that_workspaces_share_nobody_reads_what_is_anothers() {
    let spec = json!({"naming": {"namespace": "shared", "name": "{{ .ClusterName }}-{{ .Object.metadata.name }}"},
        "related": [entry("up", "kcp", by_path("spec.up")), entry("down", "service", by_path("spec.down"))]});
    let stage = Stage::of(spec);
    assert_eq!(stage.compiled.warnings().len(), 2);
    // What the victim sent, and what its object was given.
    stage.put(&stage.secret("kcp", "c2", "default", "sent"), "treasure");
    stage.create("c2", "a", json!({"up": "sent"}));
    assert_eq!(stage.rest("c2", "a"), [Code::InStep]);
    let given = stage.secret("service", "", "shared", "given");
    stage.put(&given, "treasure");
    let owner =
        json!([{"apiVersion": "local.com/v1", "kind": "Thing", "name": "c2-a", "uid": "u"}]);
    stage
        .hands
        .patch(&given, json!({"metadata": {"ownerReferences": owner}}));
    for name in ["sent", "given"] {
        stage.create(C, name, json!({ "down": name }));
        assert_eq!(stage.rest(C, name), [Code::NotLinked], "{name}");
        let taken = stage.secret("kcp", C, "default", name);
        assert!(stage.hands.object(&taken).is_none(), "{name}");
    }
}

#[test]
fn what_says_the_same_already_is_taken_and_stays() {
    let stage = Stage::new(json!([
        entry("e", "kcp", by_path("spec.name")),
        entry("again", "kcp", by_path("spec.name")),
    ]));
    let (source, target) = (
        stage.secret("kcp", C, "default", "s"),
        stage.secret("service", "", C, "s"),
    );
    stage.put(&target, "well-known");
    stage.put(&source, "well-known");
    for name in ["a", "b"] {
        stage.create(C, name, json!({"name": "s"}));
    }
    for _ in 0..2 {
        for name in ["a", "b"] {
            assert_eq!(stage.rest(C, name), [Code::InStep; 2]);
        }
    }
    stage.put(&source, "changed");
    for name in ["a", "b"] {
        assert_eq!(stage.rest(C, name), [Code::InStep; 2]);
    }
    assert_eq!(stage.value(&target).as_deref(), Some("changed"));
    for name in ["a", "b"] {
        stage.hands.delete(&stage.anchor(C, name));
        stage.rest(C, name);
    }
    assert_eq!(stage.value(&target).as_deref(), Some("changed"));
}

/// What consumers may send without knowing what is in an object of that name.
fn guesses() -> [Value; 4] {
    [
        json!({}),
        json!({"type": "Opaque"}),
        json!({"type": "Opaque", "data": {}}),
        json!({"type": "Opaque", "data": {"user": "admin"}}),
    ]
}

fn put_secret(stage: &Stage, key: &Key, content: &Value) {
    let mut object = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": &*key.name, "namespace": key.namespace.as_deref()}});
    for (field, value) in content.as_object().unwrap() {
        object[field] = value.clone();
    }
    stage.hands.put(key, &Object::new(object).unwrap());
}

fn data_of(stage: &Stage, key: &Key) -> Value {
    stage.hands.object(key).unwrap().as_value()["data"].clone()
}

#[test]
fn an_object_is_not_taken_over_by_who_does_not_know_all_that_is_in_it() {
    for guess in guesses() {
        let stage = Stage::new(json!([entry("e", "kcp", by_path("spec.name"))]));
        let (source, target) = (
            stage.secret("kcp", C, "default", "s"),
            stage.secret("service", "", C, "s"),
        );
        let theirs = json!({"type": "Opaque", "data": {"user": "admin", "password": "treasure"}});
        put_secret(&stage, &target, &theirs);
        put_secret(&stage, &source, &guess);
        stage.create(C, "a", json!({"name": "s"}));
        assert_eq!(stage.rest(C, "a"), [Code::AdoptionRefused], "{guess}");
        put_secret(&stage, &source, &json!({"data": {"password": "poison"}}));
        assert_eq!(stage.rest(C, "a"), [Code::AdoptionRefused], "{guess}");
        stage.hands.delete(&stage.anchor(C, "a"));
        stage.rest(C, "a");
        assert_eq!(data_of(&stage, &target), theirs["data"], "{guess}");
    }
}

#[test]
fn an_object_with_nothing_in_it_is_not_taken_over() {
    let stage = Stage::new(json!([entry("e", "kcp", by_path("spec.name"))]));
    let (source, target) = (
        stage.secret("kcp", C, "default", "s"),
        stage.secret("service", "", C, "s"),
    );
    put_secret(&stage, &target, &json!({"type": "Opaque"}));
    put_secret(&stage, &source, &json!({"type": "Opaque"}));
    stage.create(C, "a", json!({"name": "s"}));
    assert_eq!(stage.rest(C, "a"), [Code::AdoptionRefused]);
}

#[test]
fn what_a_provider_puts_in_the_place_of_a_copy_is_neither_changed_nor_deleted() {
    for guess in guesses() {
        let stage = Stage::new(json!([entry("e", "kcp", by_path("spec.name"))]));
        let (source, target) = (
            stage.secret("kcp", C, "default", "s"),
            stage.secret("service", "", C, "s"),
        );
        put_secret(&stage, &source, &guess);
        stage.create(C, "a", json!({"name": "s"}));
        assert_eq!(stage.rest(C, "a"), [Code::InStep]);
        stage.hands.delete(&target);
        let theirs = json!({"type": "Opaque", "data": {"user": "admin", "password": "treasure"}});
        put_secret(&stage, &target, &theirs);
        assert_eq!(stage.rest(C, "a"), [Code::AdoptionRefused], "{guess}");
        stage.set(C, "a", json!({"name": null}));
        stage.rest(C, "a");
        stage.hands.delete(&stage.anchor(C, "a"));
        stage.rest(C, "a");
        assert_eq!(data_of(&stage, &target), theirs["data"], "{guess}");
    }
}

#[test]
fn a_copy_whose_memory_was_lost_is_known_again_by_its_content() {
    let mut stage = Stage::new(json!([entry("e", "kcp", by_path("spec.name"))]));
    let (source, target) = (
        stage.secret("kcp", C, "default", "s"),
        stage.secret("service", "", C, "s"),
    );
    stage.put(&source, "v");
    stage.create(C, "a", json!({"name": "s"}));
    assert_eq!(stage.rest(C, "a"), [Code::InStep]);
    let memory = subject_of(stage.rules(C, "a")).memory.unwrap();
    stage.hands.delete(&memory.key);
    stage.restarted(json!({"related": [entry("e", "kcp", by_path("spec.name"))]}));
    assert_eq!(stage.rest(C, "a"), [Code::InStep]);
    stage.hands.delete(&stage.anchor(C, "a"));
    stage.rest(C, "a");
    assert_eq!(stage.value(&target), None);
}

#[test]
fn a_namespace_that_a_consumer_gives_its_copy_opens_nothing_of_the_system() {
    for (naming, want) in [
        ("{{ .Object.metadata.namespace }}", None),
        ("{{ .Object.spec.ns }}", None),
        ("$remoteNamespace", Some(Code::InStep)),
        ("kube-system", Some(Code::InStep)),
    ] {
        let spec = json!({"naming": {"namespace": naming}, "related": [entry("e", "service", by_path("spec.name"))]});
        let stage = Stage::of(spec);
        let place = match naming {
            "$remoteNamespace" => C,
            _ => "kube-system",
        };
        stage.put(&stage.secret("service", "", place, "token"), "treasure");
        let (namespace, object) = (
            if naming.contains("spec") {
                "default"
            } else {
                place
            },
            json!({"name": "token", "ns": "kube-system"}),
        );
        let codes = stage.rest_in(C, namespace, "a", object);
        assert_eq!(codes, Vec::from_iter(want), "{naming}");
        let all = stage.hands.objects();
        let copies = all.keys().filter(|key| key.kind.kind == "Thing");
        assert_eq!(copies.count(), usize::from(want.is_some()), "{naming}");
    }
}

/// Made under other rules, when the namespace was the owner's.
#[test]
fn a_copy_that_is_in_the_system_opens_nothing_there_to_a_consumer_who_may_name_it_now() {
    let related = json!([entry("e", "service", by_path("spec.name"))]);
    let mut stage = Stage::of(json!({"naming": {"namespace": "kube-system"}, "related": related}));
    stage.put(
        &stage.secret("service", "", "kube-system", "token"),
        "treasure",
    );
    stage.create(C, "a", json!({"name": "nothing"}));
    stage.rest(C, "a");
    stage.restarted(json!({"naming": {"namespace": "$remoteNamespace"}, "related": related}));
    stage.set(C, "a", json!({"name": "token"}));
    stage.rest(C, "a");
    nothing_was_taken(&stage, &[]);
    let said = stage.said(C, "a");
    assert!(
        said.contains("kube-system: consumers influence it"),
        "{said}"
    );
}

#[test]
fn what_is_the_owners_on_the_service_cluster_is_open_there_whatever_it_is_in_workspaces() {
    for namespace in [
        "{{ if eq .Side \"kcp\" }}{{ .Object.metadata.namespace }}{{ else }}vault{{ end }}",
        "{{ $ns := \"vault\" }}{{ if eq \"kcp\" .Side }}{{ $ns = .Object.spec.ns }}{{ end }}{{ $ns }}",
        "{{ ternary .Object.spec.ns \"vault\" (ne .Side \"service\") }}",
    ] {
        for origin in ["kcp", "service"] {
            let object = in_namespace(
                by_path("spec.name"),
                json!({"template": {"template": namespace}}),
            );
            let stage = Stage::new(json!([entry("e", origin, object)]));
            let (kcp, service) = (
                stage.secret("kcp", C, "default", "s"),
                stage.secret("service", "", "vault", "s"),
            );
            let (original, copy) = match origin {
                "kcp" => (&kcp, &service),
                _ => (&service, &kcp),
            };
            stage.put(original, "v");
            stage.create(C, "a", json!({"name": "s", "ns": "default"}));
            assert_eq!(stage.rest(C, "a"), [Code::InStep], "{origin} {namespace}");
            assert_eq!(stage.value(copy).as_deref(), Some("v"));
            stage.hands.delete(original);
            stage.rest(C, "a");
            assert_eq!(stage.value(copy), None);
        }
    }
    // The words of consumers on the service cluster are not made the owner's by those in workspaces.
    let namespace = "{{ if eq .Side \"kcp\" }}default{{ else }}{{ .Object.spec.ns }}{{ end }}";
    for origin in ["kcp", "service"] {
        let object = in_namespace(
            by_path("spec.name"),
            json!({"template": {"template": namespace}}),
        );
        refused(entry("e", origin, object), Code::NamespaceClosed);
    }
}

#[test]
fn a_name_that_cannot_be_made_tells_nothing_of_what_is_in_the_object() {
    let selector = json!({"selector": {"matchLabels": {"of": "me"},
        "rewrite": {"template": {"template": "{{ fail .RelatedObject.data.k }}"}}}});
    let stage = Stage::new(json!([entry("e", "service", selector)]));
    let key = stage.secret("service", "", C, "s");
    stage.put(&key, "treasure");
    let labels = json!({"metadata": {"labels": {"of": "me"}}});
    stage.hands.patch(&key, labels);
    stage.create(C, "a", json!({}));
    assert_eq!(stage.rest(C, "a"), [Code::ReferenceInvalid]);
    let said = stage.said(C, "a");
    assert!(said.contains("cannot be rendered for s"), "{said}");
    assert!(!said.contains("treasure"), "{said}");
}

#[test]
fn a_namespace_that_a_consumer_gives_its_copy_is_closed_where_names_are_guarded() {
    let names = json!({"up": "mine", "down": "root"});
    for (naming, safety, allowed, want) in [
        ("$remoteNamespace", "Open", false, Code::InStep),
        ("$remoteNamespace", "Guarded", false, Code::NamespaceClosed),
        ("$remoteNamespace", "Guarded", true, Code::InStep),
        ("vault", "Guarded", false, Code::InStep),
        (
            "$remoteClusterName-$remoteNamespace",
            "Guarded",
            false,
            Code::InStep,
        ),
        // Only a consumer who names nothing gets the namespace of its workspace.
        (
            "{{ default .ClusterName .Object.metadata.namespace }}",
            "Guarded",
            false,
            Code::NamespaceClosed,
        ),
    ] {
        let mut entries = json!([
            entry("up", "kcp", by_path("spec.up")),
            entry("down", "service", by_path("spec.down")),
        ]);
        if allowed {
            for entry in entries.as_array_mut().unwrap() {
                entry["allowedNamespaces"] = json!(["vault"]);
            }
        }
        let stage = Stage::of(json!({"naming": {"namespace": naming}, "related": entries,
            "safety": {"consumerNames": safety}}));
        let mapped = naming.replace("$remoteClusterName", C);
        let mapped = mapped.replace("$remoteNamespace", "vault");
        let mapped = if naming.contains("default") {
            "vault".to_owned()
        } else {
            mapped
        };
        stage.put(&stage.secret("service", "", &mapped, "root"), "treasure");
        stage.put(&stage.secret("kcp", C, "vault", "mine"), "v");
        let codes = stage.rest_in(C, "vault", "a", names.clone());
        assert_eq!(codes, [want, want], "{naming} {safety} {allowed}");
        let is_open = want == Code::InStep;
        let read = stage.value(&stage.secret("kcp", C, "vault", "root"));
        assert_eq!(read.is_some(), is_open, "{naming} {safety}");
        let written = stage.value(&stage.secret("service", "", &mapped, "mine"));
        assert_eq!(written.is_some(), is_open, "{naming} {safety}");
    }
}

/// The server would fill it with a credential, and another entry would bring it to the workspace.
#[test]
fn no_secret_of_a_consumer_asks_the_service_cluster_for_a_token() {
    let stage = Stage::new(json!([entry("up", "kcp", by_path("spec.up"))]));
    let put = |name: &str, of_type: &str| {
        let key = stage.secret("kcp", C, "default", name);
        let object = json!({"apiVersion": "v1", "kind": "Secret", "type": of_type, "metadata": {
            "name": name, "namespace": "default",
            "annotations": {"kubernetes.io/service-account.name": "default"}}});
        stage.hands.put(&key, &Object::new(object).unwrap());
    };
    let token = "kubernetes.io/service-account-token";
    put("token", token);
    put("plain", "Opaque");
    stage.create(C, "a", json!({"up": ["token", "plain"]}));
    let settle = || {
        for _ in 0..4 {
            stage.pass(C, "a");
        }
        let (words, codes) = stage.pass(C, "a");
        assert!(
            words.iter().all(|word| word.starts_with("get ")),
            "{words:?}"
        );
        codes
    };
    let mut codes = settle();
    codes.sort();
    assert_eq!(codes, [Code::InStep, Code::Forbidden]);
    let copy = |name| stage.hands.object(&stage.secret("service", "", C, name));
    assert!(copy("plain").is_some() && copy("token").is_none());
    // Nor when it becomes one.
    stage
        .hands
        .delete(&stage.secret("kcp", C, "default", "plain"));
    settle();
    put("plain", token);
    assert_eq!(settle(), [Code::Forbidden; 2]);
    assert!(copy("plain").is_none());
}

/// Both would be written from each other for ever.
#[test]
fn no_original_is_the_copy_of_its_own_copy() {
    let entries = json!([
        entry("up", "kcp", by_path("spec.up")),
        entry("down", "service", by_path("spec.down")),
    ]);
    let both = [json!({"up": "s", "down": "s"})];
    let leftover_links = [json!({"up": "s"}), json!({"down": "s"})];
    let reversed = [json!({"down": "s"}), json!({"up": "s"})];
    for specs in [&both[..], &leftover_links, &reversed] {
        for side in ["kcp", "service"] {
            let stage = Stage::new(entries.clone());
            let (ours, theirs) = (
                stage.secret("kcp", C, "default", "s"),
                stage.secret("service", "", C, "s"),
            );
            let (first, second) = match side {
                "kcp" => (&ours, &theirs),
                _ => (&theirs, &ours),
            };
            stage.put(first, "1");
            for (number, spec) in specs.iter().enumerate() {
                stage.create(C, &format!("a{number}"), spec.clone());
            }
            let settle = || {
                let mut codes = Vec::new();
                for _ in 0..4 {
                    codes = (0..specs.len())
                        .flat_map(|number| stage.pass(C, &format!("a{number}")).1)
                        .collect();
                }
                for number in 0..specs.len() {
                    codes.extend(stage.rest(C, &format!("a{number}")));
                }
                codes
            };
            settle();
            assert_eq!(
                stage.value(second).as_deref(),
                Some("1"),
                "{side} {specs:?}"
            );
            // The first one is the original, and the copy follows.
            stage.hands.patch(first, json!({"data": {"k": "2"}}));
            let codes = settle();
            assert_eq!(stage.value(first).as_deref(), Some("2"), "{side} {specs:?}");
            assert_eq!(
                stage.value(second).as_deref(),
                Some("2"),
                "{side} {specs:?}"
            );
            assert!(codes.contains(&Code::AdoptionRefused), "{codes:?}");
        }
    }
}

/// The entries of a circle: `a` in the workspace, `x` on the service cluster, `b` in the workspace, `y` on the service
/// cluster, and `a` again. Each is resolved for objects that name it.
fn circle() -> Value {
    let link = |number: usize, origin: &str, [kcp, service]: [&str; 2]| {
        let text = format!(
            "{{{{ if has \"{number}\" .Object.spec.links }}}}\
             {{{{ if eq .Side \"kcp\" }}}}{kcp}{{{{ else }}}}{service}{{{{ end }}}}{{{{ end }}}}"
        );
        let object = json!({"template": {"template": text}});
        entry(&format!("link{number}"), origin, object)
    };
    json!([
        link(0, "kcp", ["a", "x"]),
        link(1, "service", ["b", "x"]),
        link(2, "kcp", ["b", "y"]),
        link(3, "service", ["a", "y"]),
    ])
}

#[test]
fn a_circle_of_copies_over_four_secrets_comes_to_rest() {
    let together = [json!(["0", "1", "2", "3"])];
    let apart = ["0", "1", "2", "3"].map(|link| json!([link]));
    let reversed = ["3", "2", "1", "0"].map(|link| json!([link]));
    for specs in [&together[..], &apart, &reversed] {
        for restart in [false, true] {
            let mut stage = Stage::new(circle());
            let [a, b] = ["a", "b"].map(|name| stage.secret("kcp", C, "default", name));
            let [x, y] = ["x", "y"].map(|name| stage.secret("service", "", C, name));
            let names: Vec<_> = (0..specs.len())
                .map(|number| format!("o{number}"))
                .collect();
            stage.put(&a, "1");
            for (name, links) in names.iter().zip(specs) {
                stage.create(C, name, json!({"links": links}));
            }
            let settle = |stage: &Stage| {
                for name in names.iter().cycle().take(12 * names.len()) {
                    stage.pass(C, name);
                }
                let at_rest = names.iter().flat_map(|name| stage.rest(C, name));
                at_rest.collect::<Vec<_>>()
            };
            settle(&stage);
            if restart {
                let names: Vec<_> = names.iter().map(String::as_str).collect();
                stage.restarted(json!({"related": circle()}));
                stage.claim_recorded(C, &names);
            }
            // Of the four, the one that was there first is the original.
            stage.hands.patch(&a, json!({"data": {"k": "2"}}));
            let codes = settle(&stage);
            for key in [&a, &x, &b, &y] {
                assert_eq!(stage.value(key).as_deref(), Some("2"), "{key} {specs:?}");
            }
            let refused = codes.iter().filter(|code| **code == Code::AdoptionRefused);
            assert_eq!(refused.count(), 1, "{codes:?}");
        }
    }
}

#[test]
fn where_copies_are_put_into_default_it_is_open_to_what_belongs_to_them() {
    for naming in ["{{ .Object.metadata.namespace }}", "default"] {
        let spec = json!({"naming": {"namespace": naming}, "related": [entry("e", "service", by_path("spec.name"))]});
        let stage = Stage::of(spec);
        stage.put(&stage.secret("service", "", "default", "given"), "v");
        let object = json!({"name": "given"});
        let codes = stage.rest_in(C, "default", "a", object);
        assert_eq!(codes, [Code::InStep], "{naming}");
    }
}

#[test]
fn lists_as_long_as_an_object_can_be_cost_no_more_than_what_is_used_of_them() {
    let names: Vec<_> = (0..20_000).map(|n| format!("{n:05}")).collect();
    let object = in_namespace(by_path("spec.names"), by_path("spec.names"));
    for origin in ["service", "kcp"] {
        let stage = Stage::new(json!([entry("e", origin, object.clone())]));
        stage.create(C, "a", json!({ "names": names }));
        let (words, codes) = stage.pass(C, "a");
        assert_eq!(words.len(), 4, "{words:?}");
        assert_eq!(codes.len(), FAN_OUT + 1);
        assert!(codes.contains(&Code::TooManyRelated));
    }
}

#[test]
fn of_the_many_that_a_selector_finds_no_more_are_looked_at_than_are_used() {
    let selector = json!({"selector": {"matchLabels": {"of": "me"},
        "rewrite": {"regex": {"pattern": "^", "replacement": "x-"}}}});
    let mut e = entry("e", "kcp", selector);
    e["maxObjects"] = 3.into();
    let stage = Stage::new(json!([e]));
    for n in 0..200 {
        let key = stage.secret("kcp", C, "default", &format!("s{n:03}"));
        stage.put(&key, "v");
        stage
            .hands
            .patch(&key, json!({"metadata": {"labels": {"of": "me"}}}));
    }
    stage.create(C, "a", json!({}));
    let codes = stage.rest(C, "a");
    assert_eq!(codes.iter().filter(|c| **c == Code::InStep).count(), 3);
    assert_eq!(codes.len(), 4);
    assert!(codes.contains(&Code::TooManyRelated));
    let held = stage.hands.objects();
    let held = held.values().filter(|o| o.finalizers().next().is_some());
    assert_eq!(held.count(), 1 + 3);
}

#[test]
fn what_belongs_to_another_workspaces_copy_is_its_own_whichever_kind_that_is_of() {
    let thing = Arc::new(Gvk::new("local.com", "v1", "Thing"));
    let widget = Arc::new(Gvk::new("widgets.com", "v2", "Widget"));
    let realm = Arc::new(Gvk::new("widgets.com", "v1", "Realm"));
    let published = |kind: &Arc<Gvk>, watched: bool, namespaced: bool| PublishedKind {
        group: kind.group.clone(),
        kind: kind.kind.clone(),
        watched: watched.then(|| (Arc::clone(kind), namespaced)),
    };
    let check = |owner: &Arc<Gvk>, published: Option<PublishedKind>, of: &str, want: Code| {
        let mut stage = Stage::new(json!([entry("e", "service", by_path("spec.name"))]));
        let namespaced = published
            .iter()
            .all(|one| one.watched.as_ref().is_none_or(|w| w.1));
        stage.published.extend(published);
        let key = stage.secret("service", "", C, "s");
        stage.put(&key, "v");
        // Owners are named in whatever version somebody had at hand.
        let reference = json!({"apiVersion": format!("{}/v1beta1", owner.group),
            "kind": owner.kind, "name": "o", "uid": "u"});
        let references = json!({"metadata": {"ownerReferences": [reference]}});
        stage.hands.patch(&key, references);
        let scope = Scope::new(&hawser_sync::Side::new("service"), owner, "");
        let owner = scope.key(namespaced.then_some(C), "o");
        stage.put(&owner, "o");
        stage.hands.patch(
            &owner,
            json!({"metadata": {"labels": {marks::CLUSTER: of}}}),
        );
        stage.create(C, "a", json!({"name": "s"}));
        assert_eq!(stage.rest(C, "a"), [want], "{owner} of {of}");
        let copy = stage.secret("kcp", C, "default", "s");
        assert_eq!(stage.value(&copy).is_some(), want == Code::InStep);
    };
    for (of, want) in [(C, Code::InStep), ("c2", Code::NotLinked)] {
        check(&thing, None, of, want);
        check(&widget, Some(published(&widget, true, true)), of, want);
        check(&realm, Some(published(&realm, true, false)), of, want);
        // Whose it is will be known in a moment.
        let soon = published(&widget, false, true);
        check(&widget, Some(soon), of, Code::NotSeen);
        // Nobody publishes such a kind: nothing of it belongs to a workspace.
        check(&widget, None, of, Code::InStep);
    }
}

#[test]
fn while_nobody_knows_whose_it_is_what_was_given_stays() {
    let mut stage = Stage::new(json!([entry("e", "service", by_path("spec.name"))]));
    let key = stage.secret("service", "", C, "s");
    stage.put(&key, "v");
    stage.create(C, "a", json!({"name": "s"}));
    assert_eq!(stage.rest(C, "a"), [Code::InStep]);
    let reference =
        json!({"apiVersion": "widgets.com/v2", "kind": "Widget", "name": "o", "uid": "u"});
    let references = json!({"metadata": {"ownerReferences": [reference]}});
    stage.hands.patch(&key, references);
    stage.published.push(PublishedKind {
        group: "widgets.com".to_owned(),
        kind: "Widget".to_owned(),
        watched: None,
    });
    assert_eq!(stage.rest(C, "a"), [Code::NotSeen]);
    let copy = stage.secret("kcp", C, "default", "s");
    assert!(stage.value(&copy).is_some());
}

#[test]
fn what_stands_where_another_copy_of_an_original_would_be_is_not_taken_for_it() {
    let stage = Stage::new(json!([entry("e", "service", by_path("spec.name"))]));
    let original = |name: &str| stage.secret("service", "", C, name);
    let copy = |name: &str| stage.secret("kcp", C, "default", name);
    stage.put(&original("one"), "1");
    stage.put(&copy("two"), "theirs");
    stage.create(C, "a", json!({"name": "one"}));
    assert_eq!(stage.rest(C, "a"), [Code::InStep]);
    // The object refers to the other name already, and its copy still to the old one.
    stage.set(C, "a", json!({"name": "two"}));
    stage.rest(C, "a");
    assert_eq!(stage.value(&copy("two")).as_deref(), Some("theirs"));
    assert_eq!(stage.value(&copy("one")), None);
}

#[test]
fn a_copy_that_is_behind_its_object_gives_no_original_the_name_of_another_ones_copy() {
    let stage = Stage::new(json!([entry("e", "service", by_path("spec.name"))]));
    let original = |name: &str| stage.secret("service", "", C, name);
    let copy = |name: &str| stage.secret("kcp", C, "default", name);
    stage.put(&original("one"), "1");
    stage.create(C, "a", json!({"name": "one"}));
    stage.rest(C, "a");
    stage.set(C, "a", json!({"name": "two"}));
    let (words, _) = stage.pass(C, "a");
    assert!(!words.contains(&"create Secret".to_owned()), "{words:?}");
    assert_eq!(stage.value(&copy("one")), None);
    stage.put(&original("two"), "2");
    assert_eq!(stage.rest(C, "a"), [Code::InStep]);
    assert_eq!(stage.value(&copy("two")).as_deref(), Some("2"));
}
