//! Findings in manifests, as people read them.

use std::path::Path;

use super::*;

fn checked(text: &str) -> String {
    let documents = manifest::parse(Path::new("-"), text).unwrap();
    let mut findings = Vec::new();
    for document in documents.iter().filter(|one| is_published_resource(one)) {
        let (problems, _) = problems(document, &documents);
        let finding = |problem| Finding { document, problem };
        findings.extend(problems.into_iter().map(finding));
    }
    human(&documents, &findings, &[])
}

/// The problems with their places, without excerpts.
#[track_caller]
fn check(text: &str, wanted: &[&str]) {
    let said = checked(text);
    let mut found = Vec::new();
    let mut lines = said.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("error: ") || line.starts_with("warning: ") {
            let place = lines.next().unwrap_or_default();
            found.push(format!("{} {line}", place.trim_start_matches(" --> -:")));
        }
    }
    let fits = |(found, wanted): (&String, &&str)| found.starts_with(wanted);
    assert!(
        found.len() == wanted.len() && found.iter().zip(wanted).all(fits),
        "{said}"
    );
}

const MANY: &str = r#"apiVersion: syncagent.kcp.io/v1alpha1
kind: PublishedResource
metadata: {name: many}
spec:
  resource: {apiGroup: example.com, kind: CronTab}
  nameing: {}
  naming:
    name: "{{ .Object.metadata.name | nothing }}"
  filter:
    resource:
      matchExpressions:
        - {key: a, operator: Like}
  mutation:
    spec:
      - cel: {path: spec.a, expression: "1 +"}
      - regex: {path: spec.b, pattern: "(", replacement: ""}
"#;

#[test]
fn everything_that_is_wrong_is_shown_in_one_go() {
    check(
        MANY,
        &[
            "6:3 error: spec.nameing: unknown field",
            "8:39 error: spec.naming.name: function \"nothing\"",
            "12:11 error: spec.filter.resource.matchExpressions[0]: ",
            "15:45 error: spec.mutation.spec[0].cel.expression: ",
            "16:42 error: spec.mutation.spec[1].regex.pattern: ",
        ],
    );
}

#[test]
fn a_field_that_cannot_be_read_hides_nothing_else() {
    let text = MANY
        .replace("  nameing: {}\n", "  enableWorkspacePaths: 3\n")
        .replace(
            "      - cel: {path: spec.a, expression: \"1 +\"}\n",
            "      - cel: {path: spec.a, expresion: \"1\"}\n      - cel: {path: [], expression: \"1 +\"}\n      - cel: {path: a, expression: \"2 +\"}\n",
        );
    check(
        &text,
        &[
            "15:29 error: spec.mutation.spec[0].cel.expresion: unknown field",
            "6:25 error: spec.enableWorkspacePaths: Invalid value",
            "15:14 error: spec.mutation.spec[0].cel.expression: Required value",
            "16:21 error: spec.mutation.spec[1].cel.path: Invalid value",
            "8:39 error: spec.naming.name: function \"nothing\"",
            "12:11 error: spec.filter.resource.matchExpressions[0]: ",
            "16:41 error: spec.mutation.spec[1].cel.expression: ",
            "17:40 error: spec.mutation.spec[2].cel.expression: ",
            "18:42 error: spec.mutation.spec[3].regex.pattern: ",
        ],
    );
}

#[test]
fn an_entry_that_cannot_be_read_leaves_the_others_their_places() {
    let text = r#"apiVersion: syncagent.kcp.io/v1alpha1
kind: PublishedResource
metadata: {name: many}
spec:
  resource: {apiGroup: example.com}
  related:
    - {identifier: a, origin: north, kind: Secret, object: {reference: {path: spec.a}}}
    - {identifier: b, origin: kcp, object: {reference: {path: spec.a}}}
    - {identifier: c, origin: kcp, kind: Secret, object: {template: {template: "{{ nothing }}"}}}
"#;
    check(
        text,
        &[
            "7:31 error: spec.related[0].origin: Unsupported value",
            "5:13 error: spec.resource.kind: Required value",
            "8:7 error: spec.related[1]: Invalid value",
            "9:84 error: spec.related[2].object.template.template: function \"nothing\"",
        ],
    );
}

#[test]
fn two_mistakes_in_one_entry_are_both_shown() {
    let text = r#"apiVersion: syncagent.kcp.io/v1alpha1
kind: PublishedResource
metadata: {name: many}
spec:
  resource: {apiGroup: example.com, kind: CronTab}
  filter:
    resource:
      matchExpressions:
        - {key: "a b", operator: Like}
  related:
    - {identifier: a, origin: north, kind: Secret, object: {template: {template: "{{ nothing }}"}}}
    - {origin: kcp, kind: Secret, object: {template: {template: "{{ nothing }}"}}}
"#;
    check(
        text,
        &[
            "11:31 error: spec.related[0].origin: Unsupported value",
            "12:7 error: spec.related[1].identifier: Required value",
            "9:17 error: spec.filter.resource.matchExpressions[0].key: ",
            "9:11 error: spec.filter.resource.matchExpressions[0]: ",
            "11:86 error: spec.related[0].object.template.template: function \"nothing\"",
            "12:69 error: spec.related[1].object.template.template: function \"nothing\"",
        ],
    );
}

#[test]
fn a_manifest_without_a_spec_is_told_of() {
    let head =
        "apiVersion: syncagent.kcp.io/v1alpha1\nkind: PublishedResource\nmetadata: {name: a}\n";
    check(head, &["1:1 error: spec: Required value"]);
    check(
        &format!("{head}spec: 3\n"),
        &["4:7 error: spec: Invalid value"],
    );
}
