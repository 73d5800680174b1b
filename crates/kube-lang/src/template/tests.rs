//! Every case of the contract, and the bounds.

use super::limits::MAX_OUTPUT;
use super::*;
use std::collections::BTreeSet;

use serde_json::json;

mod tolerated;

#[derive(serde::Deserialize)]
struct Golden {
    data: Json,
    cases: Vec<Case>,
}

#[derive(serde::Deserialize)]
struct Case {
    id: String,
    template: String,
    data: String,
    want: Option<String>,
    raw: Option<String>,
}

fn mismatches(engine: Engine, golden: &str) -> (usize, Vec<(String, String)>) {
    let golden: Golden = serde_json::from_str(golden).unwrap();
    let mut wrong = Vec::new();
    for case in &golden.cases {
        let answer = Template::compile(engine, &case.template)
            .map_err(|e| e.to_string())
            .and_then(|t| {
                t.render(&golden.data[&case.data])
                    .map_err(|e| e.to_string())
            });
        let fits = match (&case.want, &answer) {
            (Some(want), Ok(text)) => {
                text.trim() == want && case.raw.as_ref().is_none_or(|raw| raw == text)
            }
            (None, Err(_)) => true,
            _ => false,
        };
        if !fits {
            wrong.push((
                case.id.clone(),
                format!("{} -> {answer:?}, want {:?}", case.template, case.want),
            ));
        }
    }
    (golden.cases.len(), wrong)
}

#[track_caller]
fn check(engine: Engine, golden: &str, least: usize, tolerated: &[(&str, &str)]) {
    let (count, wrong) = mismatches(engine, golden);
    assert!(count >= least);
    let unexpected: Vec<String> = wrong
        .iter()
        .filter(|(id, _)| !tolerated.iter().any(|(t, _)| t == id))
        .map(|(id, text)| format!("{id}: {text}"))
        .collect();
    assert!(
        unexpected.is_empty(),
        "{} of {count}:\n{}",
        unexpected.len(),
        unexpected.join("\n")
    );
    for (id, reason) in tolerated {
        assert!(
            wrong.iter().any(|(w, _)| w == id),
            "{id} is right now, so it is no difference any more ({reason})"
        );
    }
}

#[test]
fn go_templates_answer_as_the_contract() {
    check(
        Engine::Go,
        include_str!("../../../../tests/data/templates.json"),
        290,
        tolerated::GO,
    );
}

/// Answers of the Go libraries to cases of our own.
#[test]
fn more_go_templates_answer_as_the_libraries() {
    let golden = include_str!("../../../../tests/data/templates_more.json");
    check(Engine::Go, golden, 260, tolerated::MORE);
}

/// Null and absent fields, literals, integers of both types, encodings, blocks: what is easily answered almost right.
#[test]
fn edges_of_go_templates_answer_as_the_libraries() {
    let golden = include_str!("../../../../tests/data/templates_edges.json");
    check(Engine::Go, golden, 650, tolerated::EDGES);
}

#[test]
fn html_templates_answer_as_the_contract() {
    check(
        Engine::GoHtml,
        include_str!("../../../../tests/data/html_templates.json"),
        58,
        tolerated::HTML,
    );
}

fn go(text: &str) -> Result<String, String> {
    render(Engine::Go, text)
}

fn render(engine: Engine, text: &str) -> Result<String, String> {
    let data = json!({"Value": "a<b", "n": 3, "name": "x", "big": "y".repeat(1000)});
    Template::compile(engine, text)
        .map_err(|e| e.to_string())?
        .render(&data)
        .map_err(|e| e.to_string())
}

#[test]
fn refused_functions_are_named_at_compile_time_with_a_remedy() {
    for name in functions::REFUSED {
        let error = Template::compile(Engine::Go, &format!("a\n {{{{ {name} }}}}")).unwrap_err();
        assert!(
            error.message.contains(name) && error.hint.is_some(),
            "{error}"
        );
        assert_eq!(error.line, 2);
        assert!(functions::refusal(name).is_some());
        assert!(!functions::offered().any(|o| o == *name));
    }
}

#[test]
fn values_are_never_parsed_as_templates() {
    let template = Template::compile(Engine::Go, "{{ .v }}").unwrap();
    assert_eq!(
        template.render(&json!({"v": "{{ .secret }}"})).unwrap(),
        "{{ .secret }}"
    );
}

#[test]
fn bombs_are_refused() {
    for bomb in [
        r#"{{ repeat 1000000000 "x" }}"#,
        "{{ until 1000000000 }}",
        "{{ range 1000000000 }}x{{ end }}",
        r#"{{ printf "%999999999d" 1 }}"#,
        r#"{{ "%999999999d" | printf }}"#,
        "{{ indent 1000000000 .name }}",
        "{{ $x := list 1 }}{{ range until 60 }}{{ $x = list $x $x }}{{ end }}{{ $x }}",
        "{{ $x := list }}{{ range until 40000 }}{{ $x = list $x }}{{ end }}",
        "{{ $x := .big }}{{ range until 60 }}{{ $x = print $x $x }}{{ end }}",
        "{{ $x := .big }}{{ range until 60 }}{{ $x = printf \"%s%s\" $x $x }}{{ end }}",
        r#"{{ define "r" }}{{ template "r" . }}{{ end }}{{ template "r" . }}"#,
        r#"{{ regexMatch "(a{1000}){1000}" "a" | ternary 1 (fail "no") }}"#,
    ] {
        assert!(go(bomb).is_err(), "{bomb}");
    }
}

#[test]
fn set_changes_a_variable_and_is_refused_where_it_would_change_the_data() {
    assert_eq!(
        go(r#"{{ $d := dict "a" 1 }}{{ $_ := set $d "b" 2 }}{{ $d }}"#).unwrap(),
        "map[a:1 b:2]"
    );
    assert_eq!(
        go(r#"{{ $d := dict }}{{ range until 2 }}{{ $_ := set $d "k" . }}{{ end }}{{ $d }}"#)
            .unwrap(),
        "map[k:1]"
    );
    assert!(
        go(r#"{{ $_ := set .Object "b" 2 }}"#)
            .unwrap_err()
            .contains("deepCopy")
    );
}

#[test]
fn versions_and_times_are_shown_as_go_shows_them() {
    for (text, wanted) in [
        (r#"{{ semver "v1.2" }}"#, "1.2.0"),
        (
            r#"{{ semver "1.2.3-rc.1+b5" | toString }}"#,
            "1.2.3-rc.1+b5",
        ),
        (r#"{{ semver "1.2.3" | quote }}"#, "\"1.2.3\""),
        (r#"{{ semver "1.2.3" | toJson }}"#, "\"1.2.3\""),
        (
            r#"{{ printf "%v|%s" (semver "1.2.3") (semver "1.2.4") }}"#,
            "1.2.3|1.2.4",
        ),
        (r#"{{ list (semver "1.2.3") 1 }}"#, "[1.2.3 1]"),
        (
            r#"{{ dict "v" (semver "1.2.3") | toJson }}"#,
            r#"{"v":"1.2.3"}"#,
        ),
        (
            r#"{{ (semver "1.2.3-rc").Minor }}{{ (semver "v1.2").Original }}"#,
            "2v1.2",
        ),
        (
            r#"{{ $v := semver "1.2.3" }}{{ print $v $v.Major }}"#,
            "1.2.3 1",
        ),
        (r#"{{ semver "1.2.3" | typeOf }}"#, "*semver.Version"),
        (
            r#"{{ toDate "2006-01-02" "2024-02-29" | toJson }}"#,
            "\"2024-02-29T00:00:00Z\"",
        ),
        (
            r#"{{ toDate "2006-01-02T15:04:05Z07:00" "2024-07-01T10:20:30.5+02:00" | dateModify "1h" | toJson }}"#,
            "\"2024-07-01T11:20:30.5+02:00\"",
        ),
        (
            r#"{{ toDate "2006-01-02" "2024-02-29" | printf "%s|" | quote }}"#,
            "\"2024-02-29 00:00:00 +0000 UTC|\"",
        ),
        // What only looks like one is none.
        (
            r#"{{ "2024-02-29 00:00:00 +0000 UTC" | toJson }}"#,
            "\"2024-02-29 00:00:00 +0000 UTC\"",
        ),
        (r#"{{ dict "Original" "1.2.3" }}"#, "map[Original:1.2.3]"),
    ] {
        assert_eq!(go(text).as_deref(), Ok(wanted), "{text}");
        // html/template takes the same texts, and escapes them.
        let html = render(Engine::GoHtml, text).unwrap();
        let escaped = wanted.replace('"', "&#34;").replace('+', "&#43;");
        let whole = text.contains("list ") || text.contains(r#"{{ dict "Original""#);
        assert!(whole || html == escaped, "{text}: {html}");
    }
    assert!(go(r#"{{ keys (semver "1.2.3") }}"#).is_err());
    assert!(go(r#"{{ upper (semver "1.2.3") }}"#).is_err());
}

#[test]
fn the_value_of_a_mutation_has_its_methods() {
    assert_eq!(
        render(Engine::GoHtml, "{{ .Value.String }} {{ .Value }}").unwrap(),
        "a&lt;b a&lt;b"
    );
    assert_eq!(
        render(
            Engine::GoHtml,
            "{{ if .Value.Exists }}y{{ end }}{{ .Value.Int }}"
        )
        .unwrap(),
        "y0"
    );
}

#[test]
fn handlebars_is_strict_escapes_nothing_and_shares_the_table() {
    assert_eq!(
        render(
            Engine::Handlebars,
            "{{ Value }}-{{ sha3short name 6 }}-{{upper (trunc 1 name)}}"
        )
        .unwrap(),
        {
            let short = go("{{ sha3short .name 6 }}").unwrap();
            format!("a<b-{short}-X")
        }
    );
    for wrong in [
        "{{ missing }}",
        "{{> self }}",
        "{{ env \"HOME\" }}",
        "{{ repeat 1000000000 name }}",
    ] {
        assert!(render(Engine::Handlebars, wrong).is_err(), "{wrong}");
    }
}

#[test]
fn compile_errors_point_at_the_culprit() {
    let error = Template::compile(Engine::Go, "ok\n{{ end }}").unwrap_err();
    assert_eq!((error.line, error.column, error.offset), (2, 1, 3));
}

#[test]
fn a_block_that_is_never_closed_is_refused_where_it_begins() {
    for (text, offset) in [
        ("{{ if true }}", 0),
        ("a{{ if true }}b{{ else }}c", 1),
        ("{{ range .x }}{{ if . }}{{ end }}", 0),
        ("{{ range .x }}{{- with . }}", 14),
        ("ok {{ define \"x\" }}", 3),
        ("{{ block \"x\" . }}", 0),
    ] {
        for engine in [Engine::Go, Engine::GoHtml] {
            let error = Template::compile(engine, text).unwrap_err();
            assert_eq!(error.offset, offset, "{text}: {error}");
            assert!(error.message.starts_with("unclosed {{"), "{text}: {error}");
        }
    }
    for text in [
        "{{ if true }}{{ else if false }}{{ end }}",
        "{{/* if */}}{{ \"{{ if }}\" }}",
        "{{ define \"x\" }}{{ end }}{{ block \"y\" . }}{{ end }}",
    ] {
        assert!(Template::compile(Engine::Go, text).is_ok(), "{text}");
    }
}

#[test]
fn a_chain_of_else_ifs_that_no_stack_holds_is_refused() {
    for (engine, first, next, last) in [
        (Engine::Go, "{{ if .x }}", "{{ else if .y }}a", "{{ end }}"),
        (
            Engine::GoHtml,
            "{{ if .x }}",
            "{{- else if .y }}a",
            "{{ end }}",
        ),
        (Engine::Handlebars, "{{#if x}}", "{{else if y}}a", "{{/if}}"),
    ] {
        let text = |n| format!("{first}{}{last}", next.repeat(n));
        assert!(Template::compile(engine, &text(50)).is_ok(), "{engine:?}");
        let error = Template::compile(engine, &text(3000)).unwrap_err();
        assert!(error.message.contains("else-if branches"), "{error}");
        // One after another they are no chain.
        assert!(Template::compile(engine, &text(2).repeat(200)).is_ok());
    }
}

#[test]
fn numbers_are_octal_with_a_zero_in_front_and_refused_where_they_cannot_be() {
    for text in ["{{ 08 }}", "{{ add 1 -09 }}", "{{ if eq 1 0018 }}{{ end }}"] {
        let error = Template::compile(Engine::Go, text).unwrap_err();
        assert!(error.message.contains("bad number"), "{text}: {error}");
    }
    for (text, wanted) in [
        ("{{ 010 }}", "8"),
        ("{{ -017 }}", "-15"),
        ("{{ 0x1F }}", "31"),
        ("{{ 08.5 }}", "8.5"),
        ("{{ 0 }}", "0"),
        ("{{ 80 }}", "80"),
        ("{{ 0b11 }}{{ 0o17 }}", "315"),
    ] {
        assert_eq!(go(text).as_deref(), Ok(wanted), "{text}");
    }
}

#[test]
fn what_the_preparation_calls_is_not_for_templates() {
    for text in [
        "{{ goPrint 1 }}",
        "{{ goPrintf 0 \"%d\" 1 }}",
        "{{ 1 | goNumbers }}",
        "{{ print (goNil) }}",
        "{{ goWork 1 }}",
        "{{ gjsonString .Value }}",
        "{{ Object.metadata.name }}",
    ] {
        for engine in [Engine::Go, Engine::GoHtml] {
            let error = Template::compile(engine, text).unwrap_err();
            assert!(error.message.contains("not defined"), "{text}: {error}");
        }
    }
}

/// The page on templates says: all functions of sprig, some of which are refused, and three of our own.
#[test]
fn the_functions_are_those_of_sprig_and_three_more() {
    let docs = include_str!("../../../../docs/templates.md");
    let own = ["sha3short", "sha3sum", "shortHash"];
    let sprig = include_str!("../../../../tests/data/sprig.txt").lines();
    let known: BTreeSet<&str> = sprig.chain(own).collect();
    let refused = functions::REFUSED.iter().copied();
    let found: BTreeSet<&str> = functions::offered().chain(refused.clone()).collect();
    assert_eq!(found, known);
    for name in refused.chain(own) {
        assert!(docs.contains(&format!("`{name}`")), "{name}");
    }
}

/// Templates near those of the contract, with the data of the contract: whatever they are, they are
/// answered, in bounds.
#[test]
fn fuzz_templates_end_within_their_bounds() {
    use proptest::prelude::*;
    let golden: Golden =
        serde_json::from_str(include_str!("../../../../tests/data/templates.json")).unwrap();
    let texts: Vec<String> = golden.cases.iter().map(|c| c.template.clone()).collect();
    let data: Vec<Json> = golden.data.as_object().unwrap().values().cloned().collect();
    let piece = prop_oneof![
        proptest::sample::select(texts.clone()),
        proptest::sample::select(vec![
            "{{", "}}", "{{-", "|", "(", ")", "$x", ":=", ".", "\"", "`", "range", "end", "define",
            "/*", "ü", "\0"
        ])
        .prop_map(str::to_owned),
        ".{0,8}",
    ];
    let engine = proptest::sample::select(vec![Engine::Go, Engine::GoHtml, Engine::Handlebars]);
    let source = (
        proptest::sample::select(texts),
        proptest::collection::vec((any::<proptest::sample::Index>(), piece), 0..4),
    )
        .prop_map(|(mut text, changes)| {
            for (index, piece) in changes {
                let at = index.index(text.len() + 1);
                let at = (0..=at)
                    .rev()
                    .find(|at| text.is_char_boundary(*at))
                    .unwrap_or(0);
                text.insert_str(at, &piece);
            }
            text
        });
    let cases = fuzz::cases();
    let config = ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let data = proptest::sample::select(data);
    runner
        .run(&(engine, source, data), |(engine, source, data)| {
            if let Ok(template) = Template::compile(engine, &source)
                && let Ok(text) = template.render(&data)
            {
                prop_assert!(text.len() <= MAX_OUTPUT);
            }
            Ok(())
        })
        .unwrap();
}
