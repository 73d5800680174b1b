//! Every way in which names and namespaces are found.

use super::*;

const C: &str = "c1";

/// What one entry makes of the Secrets that there are, and which copies come of it.
#[track_caller]
fn check(entry: Value, spec: Value, there: &[(&str, &str)], want: &[(&str, &str)]) {
    let from_kcp = entry["origin"] == "kcp";
    let stage = Stage::new(json!([entry]));
    let labels = |name: &str| json!({"metadata": {"labels": {"app": name.trim_end_matches(char::is_numeric), "of": "a"}}});
    for (namespace, name) in there {
        let key = if from_kcp {
            stage.secret("kcp", C, namespace, name)
        } else {
            stage.secret("service", "", namespace, name)
        };
        stage.put(&key, name);
        stage.hands.patch(&key, labels(name));
        let namespace = key.namespace_key().unwrap();
        let object = Object::empty(&namespace.kind, None, &namespace.name);
        stage.hands.put(&namespace, &object);
        stage.hands.patch(
            &namespace,
            json!({"metadata": {"labels": {"team": &*namespace.name}}}),
        );
    }
    stage.create(C, "a", spec);
    stage.rest(C, "a");
    let all = stage.hands.objects();
    let (side, cluster) = if from_kcp {
        ("service", "")
    } else {
        ("kcp", C)
    };
    let made = all.iter().filter(|(key, object)| {
        *key.side.0 == *side
            && *key.cluster == *cluster
            && key.kind.kind == "Secret"
            && object.label(marks::OBJECT_STATE).is_none()
    });
    let made: Vec<_> = made
        .map(|(key, _)| (key.namespace.as_deref().unwrap(), &*key.name))
        .collect();
    assert_eq!(made, want);
}

#[test]
fn references_are_read_on_each_side_and_trimmed() {
    let e = |object| entry("e", "service", object);
    check(
        e(by_path("spec.x")),
        json!({"x": " s "}),
        &[(C, "s")],
        &[("default", "s")],
    );
    check(
        e(by_path("spec.x")),
        json!({"x": ["s1", "", "s2", "Not A Name", "s9"]}),
        &[(C, "s1"), (C, "s2"), (C, "s3")],
        &[("default", "s1"), ("default", "s2")],
    );
    check(
        e(by_path("spec.list.#.name")),
        json!({"list": [{"name": "s1"}, {"name": "s2"}]}),
        &[(C, "s1"), (C, "s2")],
        &[("default", "s1"), ("default", "s2")],
    );
    let regex = json!({"reference": {"path": "spec.x", "regex": {"pattern": "^(.*)$", "replacement": "$1-key"}}});
    check(
        e(regex),
        json!({"x": "s"}),
        &[(C, "s-key")],
        &[("default", "s-key")],
    );
    check(e(by_path("spec.none")), json!({}), &[(C, "s")], &[]);
}

#[test]
fn templates_are_rendered_for_each_side() {
    let object = json!({"template": {"template":
        "{{ if eq .Side \"kcp\" }}{{ .Object.spec.x }}{{ else }}{{ .ClusterName }}-s{{ end }}"}});
    check(
        entry("e", "service", object.clone()),
        json!({"x": "mine"}),
        &[(C, "c1-s")],
        &[("default", "mine")],
    );
    check(
        entry("e", "kcp", object),
        json!({"x": "mine"}),
        &[("default", "mine")],
        &[(C, "c1-s")],
    );
    let object = json!({"template": {"template": "{{ .Object.status.secret }}"}});
    check(entry("e", "service", object), json!({}), &[(C, "s")], &[]);
}

#[test]
fn selectors_find_by_rendered_labels_and_names_are_rewritten() {
    let object = |rewrite| {
        json!({"selector": {
            "matchLabels": {"app": "{{ .RemoteObject.spec.app }}", "of": "a"},
            "matchExpressions": [{"key": "app", "operator": "Exists"}],
            "rewrite": rewrite,
        }})
    };
    let regex = json!({"regex": {"pattern": "^s", "replacement": "t"}});
    let template =
        json!({"template": {"template": "{{ .Value }}-{{ .RelatedObject.metadata.labels.app }}"}});
    let there = [(C, "s1"), (C, "s2"), (C, "other")];
    check(
        entry("e", "service", object(regex)),
        json!({"app": "s"}),
        &there,
        &[("default", "t1"), ("default", "t2")],
    );
    check(
        entry("e", "service", object(template)),
        json!({"app": "s"}),
        &there,
        &[("default", "s1-s"), ("default", "s2-s")],
    );
}

#[test]
fn namespaces_are_found_in_the_same_ways() {
    let with = |namespace: Value| {
        let mut object = by_path("spec.x");
        object["namespace"] = namespace;
        object
    };
    let fixed = with(
        json!({"template": {"template": "{{ if eq .Side \"kcp\" }}there{{ else }}vault{{ end }}"}}),
    );
    check(
        entry("e", "service", fixed.clone()),
        json!({"x": "s"}),
        &[("vault", "s")],
        &[("there", "s")],
    );
    check(
        entry("e", "kcp", fixed),
        json!({"x": "s"}),
        &[("there", "s")],
        &[("vault", "s")],
    );
    let selector = with(json!({"selector": {"matchLabels": {"team": "vault"},
        "rewrite": {"regex": {"pattern": "", "replacement": "got"}}}}));
    check(
        entry("e", "service", selector),
        json!({"x": "s"}),
        &[("vault", "s"), ("other", "s")],
        &[("got", "s")],
    );
    let reference = with(by_path("metadata.namespace"));
    check(
        entry("e", "service", reference),
        json!({"x": "s"}),
        &[(C, "s")],
        &[("default", "s")],
    );
}

#[test]
fn lists_of_unequal_length_lead_nowhere_and_leave_what_is_there() {
    let spec = json!({"related": [entry("e", "service", by_path("spec.x"))],
        "mutation": {"spec": [{"delete": {"path": "spec.x.1"}}]}});
    let stage = Stage::of(spec);
    stage.put(&stage.secret("service", "", C, "s1"), "v");
    stage.create(C, "a", json!({"x": ["s1"]}));
    assert_eq!(stage.rest(C, "a"), [Code::InStep]);
    stage.set(C, "a", json!({"x": ["s1", "s2"]}));
    assert_eq!(stage.rest(C, "a"), [Code::ReferenceInvalid]);
    assert!(
        stage
            .value(&stage.secret("kcp", C, "default", "s1"))
            .is_some()
    );
}

#[test]
fn contents_are_mutated_and_types_projected() {
    let mut e = entry("e", "service", by_path("spec.x"));
    e["projection"] = json!({"resource": "configmaps"});
    e["mutation"] =
        json!({"spec": [{"regex": {"path": "data.k", "pattern": "v", "replacement": "w"}}]});
    let stage = Stage::new(json!([e]));
    stage.put(&stage.secret("service", "", C, "s"), "v");
    stage.create(C, "a", json!({"x": "s"}));
    assert_eq!(stage.rest(C, "a"), [Code::InStep]);
    let kind = Arc::new(Gvk::new("", "v1", "ConfigMap"));
    let copy = Scope::new(&Sides::default().kcp, &kind, C).key(Some("default"), "s");
    assert_eq!(stage.value(&copy).as_deref(), Some("w"));
    assert_eq!(
        stage.annotations(C, "a")[0].1,
        r#"{"namespace":"default","name":"s","apiVersion":"v1","kind":"Secret"}"#
    );
}

#[test]
fn what_one_tenants_selector_renders_is_not_used_for_another() {
    let e = entry(
        "e",
        "service",
        json!({"selector": {
        "matchLabels": {"tenant": "{{ .ClusterName }}"}, "rewrite": {"regex": {"pattern": "", "replacement": "s"}}},
        "namespace": {"template": {"template": "{{ if eq .Side \"kcp\" }}default{{ else }}vault{{ end }}"}}}),
    );
    let stage = Stage::new(json!([e]));
    for cluster in ["c1", "c2"] {
        let key = stage.secret("service", "", "vault", &format!("of-{cluster}"));
        stage.put(&key, cluster);
        stage
            .hands
            .patch(&key, json!({"metadata": {"labels": {"tenant": cluster}}}));
        stage.create(cluster, "a", json!({}));
    }
    for cluster in ["c1", "c2"] {
        stage.rest(cluster, "a");
        let given = stage.value(&stage.secret("kcp", cluster, "default", "s"));
        assert_eq!(given.as_deref(), Some(cluster));
    }
}

#[test]
fn a_kind_that_is_not_served_holds_back_only_its_entry() {
    let stage = Stage::new(json!([
        {"identifier": "g", "origin": "kcp", "group": "g.io", "version": "v1", "resource": "gadgets",
            "object": by_path("spec.x")},
        entry("e", "service", by_path("spec.x")),
    ]));
    stage.put(&stage.secret("service", "", C, "s"), "v");
    stage.create(C, "a", json!({"x": "s"}));
    assert_eq!(stage.rest(C, "a"), [Code::KindNotServed, Code::InStep]);
}

/// One of a workspace's Secrets, with a label and so many bytes.
fn labelled(stage: &Stage, name: &str, bytes: usize) {
    let key = stage.secret("kcp", "c1", "default", name);
    let labels = json!({"a": "b"});
    let object = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "data": {"k": "x".repeat(bytes)},
    });
    stage.hands.put(&key, &Object::new(object).unwrap());
}

fn renamed_by(template: &str) -> Stage {
    let rewrite = json!({"template": {"template": template}});
    let selector = json!({"matchLabels": {"a": "b"}, "rewrite": rewrite});
    Stage::new(json!([entry("up", "kcp", json!({"selector": selector}))]))
}

#[test]
fn a_large_object_is_prepared_once_for_the_names_of_all_that_it_refers_to() {
    let stage = renamed_by("{{ .RemoteObject.metadata.name }}-{{ .Value }}");
    stage.create("c1", "a", json!({"text": "x".repeat(1 << 20)}));
    for n in 0..32 {
        labelled(&stage, &format!("s{n}"), 1);
    }
    assert_eq!(stage.rest("c1", "a"), [Code::InStep; 32]);
}

#[test]
fn the_templates_of_an_entry_share_one_limit_of_work() {
    let stage = renamed_by("{{ .RelatedObject.metadata.name }}");
    stage.create("c1", "a", json!({}));
    for n in 0..32 {
        labelled(&stage, &format!("s{n}"), 1 << 20);
    }
    assert_eq!(stage.rest("c1", "a"), [Code::ReferenceInvalid]);
}
