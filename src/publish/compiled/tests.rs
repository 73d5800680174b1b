use serde_json::{Value, json};

use super::*;
use crate::mutation::MAX_STEPS;
use crate::publish::crd::Crd;
use crate::publish::problem::{Part, Severity};
use kube_lang::object::Gvk;

fn types() -> Types {
    Types {
        local: Gvk::new("local.com", "v1", "Thing").into(),
        remote: Gvk::new("remote.com", "v1", "Thing").into(),
        local_scope: LocalScope::Namespaced,
        subresources: vec!["status"],
        remote_status: true,
        remote_status_schema: None,
    }
}

/// The types of a CRD that stores v2 and serves v1 too, each with these subresources, of which v1 is
/// published.
fn types_of(v1: &Value, v2: &Value, scope: &str) -> Types {
    let version = |name: &str, subresources: &Value| {
        json!({"name": name, "served": true, "storage": name == "v2", "subresources": subresources,
            "schema": {"openAPIV3Schema": {"type": "object"}}})
    };
    let crd = json!({
        "metadata": {"name": "things.local.com"},
        "spec": {"group": "local.com", "scope": scope, "names": {"plural": "things", "kind": "Thing"},
            "versions": [version("v1", v1), version("v2", v2)]},
    });
    let crd = Crd::from_json(crd.to_string().as_bytes()).unwrap();
    let published = json!({
        "resource": {"apiGroup": "local.com", "kind": "Thing", "versions": ["v1"]},
        "projection": {"scope": "Namespaced"},
    });
    let published = serde_json::from_value(published).unwrap();
    Types::of(
        &crd,
        &super::super::projection::project(&crd, &published).unwrap(),
    )
}

#[test]
fn each_side_has_the_subresources_of_the_version_that_it_stores() {
    let scale = json!({"scale": {"specReplicasPath": ".a", "statusReplicasPath": ".b"}});
    let (none, status) = (json!({}), json!({"status": {}}));
    let both = json!({"status": {}, "scale": scale["scale"]});
    for (v1, v2, local, remote) in [
        (&none, &status, &["status"][..], false),
        (&status, &none, &[], true),
        (&both, &status, &["status"], true),
        (&status, &both, &["status", "scale"], true),
        (&scale, &scale, &["scale"], false),
    ] {
        let types = types_of(v1, v2, "Namespaced");
        assert_eq!(types.subresources, local, "{v1} {v2}");
        assert_eq!(types.remote_status, remote, "{v1} {v2}");
        let versions = (types.local.version.as_str(), types.remote.version.as_str());
        assert_eq!(versions, ("v2", "v1"));
    }
}

#[test]
fn copies_have_the_scope_of_the_original() {
    let types = types_of(&json!({}), &json!({}), "Cluster");
    assert_eq!(types.local_scope, LocalScope::Cluster);
}

fn compile(mut spec: Value) -> Result<Compiled, Vec<Problem>> {
    spec["resource"] = json!({"apiGroup": "local.com", "kind": "Thing"});
    let spec: PublishedResourceSpec = serde_json::from_value(spec).unwrap();
    let agent = AgentIdentity {
        name: "agent".into(),
        namespace: "hawser".into(),
    };
    Compiled::compile(&spec, types(), agent)
}

#[track_caller]
fn problems(spec: Value, wanted: &[&str]) {
    let found = compile(spec).err().unwrap();
    let fields: Vec<&str> = found.iter().map(|p| p.field.as_str()).collect();
    assert_eq!(fields, wanted, "{found:#?}");
}

#[test]
fn rules_without_a_fault_compile_and_have_a_fingerprint_of_their_content() {
    let one = compile(json!({"naming": {"name": "a"}})).unwrap();
    let same = compile(json!({"naming": {"name": "a"}})).unwrap();
    let other = compile(json!({"naming": {"name": "b"}})).unwrap();
    assert_eq!(one.fingerprint(), same.fingerprint());
    assert_ne!(one.fingerprint(), other.fingerprint());
}

#[test]
fn everything_that_is_wrong_is_told_at_once_with_its_field() {
    problems(
        json!({
            "naming": {"name": "{{ .X", "namespace": "{{ nothing }}"},
            "filter": {"resource": {"matchExpressions": [{"key": "a", "operator": "Like"}]}},
            "mutation": {
                "spec": [{}, {"regex": {"path": "a", "pattern": "("}}],
                "status": [{"cel": {"path": "", "expression": "1 +"}}],
            },
        }),
        &[
            "spec.naming.namespace",
            "spec.naming.name",
            "spec.filter.resource.matchExpressions[0]",
            "spec.mutation.spec[0]",
            "spec.mutation.spec[1].regex.pattern",
            "spec.mutation.status[0].cel.path",
            "spec.mutation.status[0].cel.expression",
        ],
    );
}

#[test]
fn a_rule_about_drift_names_a_field_that_is_copied_and_no_other_rule_names_it() {
    let rules = |paths: &[&str]| {
        let rules = paths
            .iter()
            .map(|path| json!({"path": path, "mode": "Revert"}));
        json!({"drift": rules.collect::<Vec<_>>()})
    };
    let fine = [
        "spec",
        r"metadata.labels.a\.b/c",
        "metadata.annotations",
        "metadata",
        "data.0",
    ];
    assert!(!compile(rules(&fine)).unwrap().drift().keeps_all());
    assert!(compile(json!({})).unwrap().drift().keeps_all());
    let kept = json!({"drift": [{"path": "spec", "mode": "Keep"}]});
    assert!(compile(kept).unwrap().drift().keeps_all());
    problems(
        rules(&[
            "",
            "spec.*",
            "spec..a",
            "kind",
            "metadata.name",
            "status.phase",
            "spec",
            r"s\pec",
        ]),
        &[
            "spec.drift[0].path",
            "spec.drift[1].path",
            "spec.drift[2].path",
            "spec.drift[3].path",
            "spec.drift[4].path",
            "spec.drift[5].path",
            "spec.drift[7].path",
        ],
    );
    let wrong = compile(rules(&["spec", "status", "spec"])).unwrap_err();
    let told: Vec<_> = wrong.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "spec.drift[1].path: is not copied: status is a subresource on the service cluster",
            "spec.drift[2].path: names the same field as spec.drift[0].path",
        ]
    );
}

#[test]
fn an_empty_step_hides_nothing_of_its_list() {
    problems(
        json!({"mutation": {"spec": [
            {"regex": {"path": "a", "pattern": "("}},
            {},
            {"delete": {"path": "a"}},
            {},
            {"cel": {"path": "", "expression": "1 +"}},
        ]}}),
        &[
            "spec.mutation.spec[1]",
            "spec.mutation.spec[3]",
            "spec.mutation.spec[0].regex.pattern",
            "spec.mutation.spec[4].cel.path",
            "spec.mutation.spec[4].cel.expression",
        ],
    );
}

#[test]
fn too_many_steps_are_a_problem_of_their_list() {
    let steps = vec![json!({"delete": {"path": "a"}}); MAX_STEPS + 1];
    problems(
        json!({"mutation": {"spec": steps}}),
        &["spec.mutation.spec"],
    );
}

#[test]
fn a_problem_points_into_its_text() {
    let found = compile(json!({"mutation": {"spec": [
        {"template": {"path": "a", "template": "ab{{ env \"X\" }}"}},
    ]}}));
    let found = found.err().unwrap();
    assert_eq!(found[0].field, "spec.mutation.spec[0].template.template");
    assert_eq!(found[0].offset, Some(5));
    assert!(found[0].hint.is_some());
}

#[test]
fn related_entries_are_held_to_the_rules_of_the_api_server() {
    let object = json!({"reference": {"path": "spec.secret"}});
    let entry = |more: Value| {
        let mut entry =
            json!({"identifier": "a", "origin": "service", "kind": "Secret", "object": object});
        for (key, value) in more.as_object().unwrap() {
            entry[key] = value.clone();
        }
        json!({"related": [entry]})
    };
    compile(entry(json!({}))).unwrap();
    for more in [
        json!({"version": "v1"}),
        json!({"kind": null}),
        json!({"group": "g"}),
        json!({"identityHash": "x"}),
        json!({"syncStatus": true}),
        json!({"watch": {}}),
        json!({"object": {}}),
        json!({"object": {"selector": {"matchLabels": {"a": "b"}, "rewrite": {}}}}),
        json!({"object": {"selector": {"matchLabels": {"a": "{{ .x"}, "rewrite": {"regex": {"pattern": "a"}}}}}),
        json!({"object": {"template": {"template": "{{ now }}"}}}),
        json!({"object": {"reference": {"path": "a", "regex": {"pattern": "("}}}}),
        json!({"mutation": {"spec": [{}]}}),
    ] {
        let found = compile(entry(more.clone())).err();
        let found = found.unwrap_or_else(|| panic!("{more} was accepted"));
        assert!(
            found.iter().all(|p| p.field.starts_with("spec.related[0]")),
            "{found:?}"
        );
    }
}

/// api-syncagent accepts this: the mutations of the second entry then apply to both.
#[test]
fn an_identifier_that_two_entries_have_is_warned_of_and_both_are_compiled() {
    let entry = |path: &str| {
        json!({"identifier": "a", "origin": "service", "kind": "Secret",
            "object": {"reference": {"path": "spec.secret"}},
            "mutation": {"spec": [{"delete": {"path": path}}]}})
    };
    let spec = json!({"related": [entry("a"), entry("b")]});
    let compiled = compile(spec).unwrap();
    let [warning] = compiled.warnings() else {
        panic!("{:?}", compiled.warnings());
    };
    assert_eq!(warning.field, "spec.related[1].identifier");
    assert_eq!(warning.severity, Severity::Warning);
    assert!(warning.hint.is_some());
    problems(
        json!({"related": [entry("a"), entry("")]}),
        &[
            "spec.related[1].identifier",
            "spec.related[1].mutation.spec[0].delete.path",
        ],
    );
}

#[test]
fn a_label_that_is_wrong_is_named_with_its_part_and_its_place() {
    #[track_caller]
    fn check(selector: Value, field: &str, part: Part, offset: Option<usize>) {
        let mut selector = selector;
        selector["rewrite"] = json!({"regex": {"pattern": "a"}});
        let found = compile(json!({"related": [{
            "identifier": "a", "origin": "service", "kind": "Secret", "object": {"selector": selector},
        }]}));
        let found = found.err().unwrap();
        let [problem] = found.as_slice() else {
            panic!("{found:#?}");
        };
        let field = format!("spec.related[0].object.selector.{field}");
        assert_eq!(problem.field, field, "{problem}");
        assert_eq!((problem.part, problem.offset), (part, offset), "{problem}");
    }
    let labels = |key: &str, value: &str| json!({"matchLabels": {"ok": "{{ .a }}", key: value}});
    check(
        labels("example.com/app", "ab{{ nothing }}"),
        "matchLabels.example.com/app",
        Part::Value,
        Some(5),
    );
    check(
        labels("{{ nothing }}", "x"),
        "matchLabels.{{ nothing }}",
        Part::Key,
        Some(3),
    );
    check(labels("a/b/c", "x"), "matchLabels.a/b/c", Part::Key, None);
    check(
        labels("a/b/c", "{{ .x }}"),
        "matchLabels.a/b/c",
        Part::Key,
        None,
    );
    check(
        labels("{{ .x }}", "not a value"),
        "matchLabels.{{ .x }}",
        Part::Value,
        None,
    );
    check(
        json!({"matchExpressions": [
            {"key": "a", "operator": "Exists"}, {"key": "a", "operator": "Like"}]}),
        "matchExpressions[1]",
        Part::Value,
        None,
    );
}

#[test]
fn handlebars_are_taken_where_they_are_asked_for() {
    let naming = json!({"naming": {"name": "{{Object.metadata.name}}"}});
    assert!(compile(naming.clone()).is_err());
    let mut naming = naming;
    naming["templateEngine"] = "Handlebars".into();
    compile(naming).unwrap();
}

#[test]
fn owners_are_warned_where_consumers_name_what_adoption_would_take() {
    let warned = |naming: Value, safety: Value| {
        let compiled = compile(json!({"naming": naming, "safety": safety})).unwrap();
        let fields = compiled.warnings().iter().map(|w| w.field.clone());
        fields.collect::<Vec<_>>()
    };
    let name = "{{ .Object.metadata.name }}";
    for (naming, want) in [
        (json!({}), None),
        (json!({"name": name}), None),
        (
            json!({"namespace": "{{ .ClusterName }}-{{ .Object.metadata.namespace }}"}),
            None,
        ),
        (json!({"namespace": "shared"}), None),
        (
            json!({"namespace": "shared", "name": "{{ .ClusterName }}-{{ .Object.metadata.name }}"}),
            None,
        ),
        (
            json!({"namespace": "$remoteNamespace"}),
            Some("spec.naming.namespace"),
        ),
        (
            json!({"namespace": "team-{{ .Object.metadata.namespace }}", "name": name}),
            Some("spec.naming.namespace"),
        ),
        (
            json!({"namespace": "shared", "name": name}),
            Some("spec.naming.name"),
        ),
        // The workspace is only in what some objects get.
        (
            json!({"namespace": "{{ default .ClusterName .Object.spec.team }}"}),
            Some("spec.naming.namespace"),
        ),
        (
            json!({"namespace": "{{ with .Object.spec.team }}{{ . }}{{ else }}{{ .ClusterName }}{{ end }}"}),
            Some("spec.naming.namespace"),
        ),
        (
            json!({"namespace": "shared", "name": "{{ .ClusterName | len }}-{{ .Object.metadata.name }}"}),
            Some("spec.naming.name"),
        ),
    ] {
        let want: Vec<_> = want.into_iter().collect();
        assert_eq!(warned(naming.clone(), json!({})), want, "{naming}");
        for safety in [
            json!({"adoption": "Never"}),
            json!({"consumerNames": "Guarded"}),
        ] {
            assert_eq!(warned(naming.clone(), safety), [""; 0], "{naming}");
        }
    }
}
