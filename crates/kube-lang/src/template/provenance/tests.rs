use std::fmt::Write as _;

use super::*;

const OWN: [&str; 2] = ["ClusterName", "Side"];

#[track_caller]
fn check(text: &str, want: bool) {
    let data = Data {
        own: &OWN,
        ..Data::default()
    };
    assert_eq!(writes_only(Engine::Go, text, data), want, "{text}");
}

/// What is written in workspaces, and what on the service cluster.
#[track_caller]
fn sides(engine: Engine, text: &str, want: (bool, bool)) {
    let found = ["kcp", "service"].map(|side| {
        let data = Data {
            own: &OWN,
            given: &[("Side", side)],
            ..Data::default()
        };
        writes_only(engine, text, data)
    });
    assert_eq!((found[0], found[1]), want, "{text}");
}

const CONSUMERS: &str = "{{ .Object.metadata.namespace }}";

#[test]
fn what_authors_write_and_known_fields_are_nobody_elses_words() {
    for text in [
        "plain",
        "a-{{ .ClusterName }}",
        "{{ $.ClusterName | lower }}",
        "{{ if .Object.spec.prod }}prod{{ else if eq .Object.spec.x \"y\" }}test{{ else }}x{{ end }}",
        "{{ list \"fi\" \"nd\" | join \"-\" }}",
        "{{ printf \"%s-%s\" (lower \"ME\") .ClusterName }}",
        "{{ with .Object.spec }}{{ $.ClusterName }}{{ end }}",
        "{{ $x := .Object.spec.name }}fixed",
        "{{ $x := .ClusterName }}{{ $x }}-{{ $x | trunc 8 }}",
        "{{ ternary \"a\" \"b\" .Object.spec.prod }}",
        "{{ ternary \"a\" .Object.spec.x true }}",
        "{{ default \"a\" .ClusterName }}",
        "{{ define \"x\" }}a-{{ .ClusterName }}{{ end }}{{ template \"x\" . }}",
        "{{ define \"x\" }}a-{{ . }}{{ end }}{{ template \"x\" .ClusterName }}",
        "{{ block \"x\" $ }}a-{{ $.ClusterName }}{{ end }}",
        "{{ with .ClusterName }}{{ . }}{{ end }}",
        "{{ $x := \"a\" }}{{ if .Object.spec.prod }}{{ $x = \"b\" }}{{ end }}{{ $x }}",
    ] {
        check(text, true);
    }
}

#[test]
fn what_may_be_an_objects_words_is_taken_for_them() {
    for text in [
        "{{ .Object.metadata.name }}",
        "{{ . }}",
        "{{ $ }}",
        "{{ .ClusterPath }}",
        "{{ .ClusterName.x }}",
        "{{ $x := .Object.spec.name }}{{ $x }}",
        "{{ $x := .Object.spec }}{{ $x.name }}",
        "{{ $unknown }}",
        "{{ with .Object }}{{ .ClusterName }}{{ end }}",
        "{{ with $ }}{{ .Object }}{{ end }}",
        "{{ range .Object.spec.list }}a{{ end }}",
        "{{ range list \"a\" \"b\" }}a{{ end }}",
        "{{ if true }}{{ .Object.spec.x }}{{ end }}",
        "{{ ternary \"a\" .Object.spec.x .Object.spec.y }}",
        "{{ default \"a\" .Object.spec.x }}",
        "{{ coalesce .Object.spec.x \"a\" }}",
        "{{ or .Object.spec.x \"a\" }}",
        "{{ and .Object.spec.x \"\" }}",
        "{{ .Object.spec.x | sha256sum | trunc 8 | printf \"team-%s\" }}",
        "{{ define \"x\" }}{{ .Object }}{{ end }}{{ template \"x\" . }}",
        "{{ define \"x\" }}{{ . }}{{ end }}{{ template \"x\" .Object.spec.x }}",
        "{{ define \"x\" }}{{ .ClusterName }}{{ end }}{{ template \"x\" .Object }}",
        "{{ define \"x\" }}{{ template \"x\" . }}{{ end }}{{ template \"x\" . }}",
        "{{ define \"x\" }}{{ $y }}{{ end }}{{ $y := \"a\" }}{{ template \"x\" . }}",
        "{{ template \"none\" . }}",
        "{{ (index .Object \"spec\").name }}",
        "{{ $x := \"a\" }}{{ if .Object.spec.y }}{{ $x = .Object.spec.x }}{{ end }}{{ $x }}",
        "{{ $x := \"a\" }}{{ if .Object.spec.y }}{{ else }}{{ $x = .Object.spec.x }}{{ end }}{{ $x }}",
        "{{ $x := \"a\" }}{{ if ($x = .Object.spec.x) }}{{ end }}{{ $x }}",
        "{{ $x := \"a\" }}{{ with .Object.spec.y }}{{ $x = . }}{{ end }}{{ $x }}",
        "{{ $x := \"a\" }}{{ $x := .Object.spec.y }}{{ $x }}",
        "{{ $x := dict \"a\" \"b\" }}{{ $_ := set $x \"a\" .Object.spec.y }}{{ $x.a }}",
    ] {
        check(text, false);
    }
}

#[test]
fn where_the_side_alone_decides_only_what_that_side_writes_counts() {
    for text in [
        "{{ if eq .Side \"kcp\" }}§{{ else }}fixed{{ end }}",
        "{{ if eq \"kcp\" .Side }}§{{ else }}fixed{{ end }}",
        "{{ if eq $.Side \"kcp\" }}§{{ else }}fixed{{ end }}",
        "{{ if .Side | eq \"kcp\" }}§{{ else }}fixed{{ end }}",
        "{{ if (eq .Side \"kcp\") }}§{{ else }}fixed{{ end }}",
        "{{- if eq .Side \"kcp\" -}} § {{- else -}} fixed {{- end -}}",
        "{{ if eq .Side \"service\" }}fixed{{ else }}§{{ end }}",
        "{{ if ne .Side \"kcp\" }}fixed{{ else }}§{{ end }}",
        "{{ if not (eq .Side \"kcp\") }}fixed{{ else }}§{{ end }}",
        "{{ if eq .Side \"service\" }}fixed{{ else if eq .Side \"kcp\" }}§{{ end }}",
        "{{ if eq .Side \"other\" }}§{{ else if ne .Side \"kcp\" }}fixed{{ else }}§{{ end }}",
        "{{ if and (eq .Side \"kcp\") (ne .Side \"service\") }}§{{ else }}fixed{{ end }}",
        "{{ if or (eq .Side \"service\") false }}fixed{{ else }}§{{ end }}",
        "{{ if and .Object.spec.x (eq .Side \"kcp\") }}§{{ else }}fixed{{ end }}",
        "{{ if or .Object.spec.x (eq .Side \"service\") }}fixed{{ else }}§{{ end }}",
        "{{ if hasPrefix \"k\" .Side }}§{{ else }}fixed{{ end }}",
        "{{ if has .Side (list \"kcp\") }}§{{ else }}fixed{{ end }}",
        "{{ $side := .Side }}{{ if eq $side \"kcp\" }}§{{ else }}fixed{{ end }}",
        "{{ $kcp := eq .Side \"kcp\" }}{{ if $kcp }}§{{ else }}fixed{{ end }}",
        "{{ $kcp := false }}{{ if eq .Side \"kcp\" }}{{ $kcp = true }}{{ end }}{{ if $kcp }}§{{ else }}fixed{{ end }}",
        "{{ $s := .Side }}{{ if .Object.spec.x }}a{{ end }}{{ if eq $s \"kcp\" }}§{{ else }}fixed{{ end }}",
        "{{ $ns := \"fixed\" }}{{ if eq .Side \"kcp\" }}{{ $ns = .Object.metadata.namespace }}{{ end }}{{ $ns }}",
        "{{ if $side := .Side | eq \"kcp\" }}§{{ else }}fixed{{ end }}",
        "{{ with .Side }}{{ if eq . \"kcp\" }}{{ $.Object.metadata.namespace }}{{ else }}fixed{{ end }}{{ end }}",
        "{{ with eq .Side \"kcp\" }}{{ $.Object.metadata.namespace }}{{ else }}fixed{{ end }}",
        "{{ ternary .Object.metadata.namespace \"fixed\" (eq .Side \"kcp\") }}",
        "{{ eq .Side \"kcp\" | ternary .Object.metadata.namespace \"fixed\" }}",
        "{{ and (eq .Side \"kcp\") .Object.metadata.namespace | default \"fixed\" }}",
        "{{ get (dict \"kcp\" true) .Side | ternary .Object.metadata.namespace \"fixed\" }}",
        "{{ define \"ns\" }}{{ if eq .Side \"kcp\" }}§{{ else }}fixed{{ end }}{{ end }}{{ template \"ns\" . }}",
        "{{ define \"ns\" }}{{ if eq . \"kcp\" }}x{{ else }}fixed{{ end }}{{ end }}{{ template \"ns\" .Side }}{{ if eq .Side \"kcp\" }}§{{ end }}",
    ] {
        sides(Engine::Go, &text.replace('§', CONSUMERS), (false, true));
    }
    for (text, want) in [
        ("{{ .Side }}", (true, true)),
        (
            "{{ if eq .Side \"kcp\" }}a{{ else }}§{{ end }}",
            (true, false),
        ),
        ("{{ if eq .Side \"other\" }}§{{ end }}", (true, true)),
        // Not of the side alone, or not of this one.
        (
            "{{ if or (eq .Side \"kcp\") .Object.spec.x }}§{{ else }}a{{ end }}",
            (false, false),
        ),
        (
            "{{ if eq .Side .Object.spec.x }}§{{ else }}a{{ end }}",
            (false, false),
        ),
        (
            "{{ if eq .Object.Side \"kcp\" }}§{{ else }}a{{ end }}",
            (false, false),
        ),
        (
            "{{ with .Object }}{{ if eq .Side \"kcp\" }}{{ .x }}{{ else }}a{{ end }}{{ end }}",
            (false, false),
        ),
        (
            "{{ $s := .Side }}{{ if .Object.x }}{{ $s = \"kcp\" }}{{ end }}{{ if eq $s \"kcp\" }}§{{ else }}a{{ end }}",
            (false, false),
        ),
        ("{{ if fail .Side }}§{{ else }}a{{ end }}", (false, false)),
    ] {
        sides(Engine::Go, &text.replace('§', CONSUMERS), want);
    }
}

#[test]
fn in_handlebars_too_where_that_is_certain() {
    let consumers = "{{Object.metadata.namespace}}";
    for text in [
        "{{#if (eq Side \"kcp\")}}§{{else}}fixed{{/if}}",
        "{{#if (eq \"kcp\" Side)}}§{{else}}fixed{{/if}}",
        "{{#if (ne Side \"kcp\")}}fixed{{else}}§{{/if}}",
        "{{#unless (eq Side \"kcp\")}}fixed{{else}}§{{/unless}}",
        "{{#if (not (eq Side \"kcp\"))}}fixed{{else}}§{{/if}}",
        "{{#if (and (eq Side \"kcp\") (ne Side \"service\"))}}§{{else}}fixed{{/if}}",
        "{{#if (eq Side \"service\")}}fixed{{else if (eq Side \"kcp\")}}§{{/if}}",
        "{{#if (eq Side \"service\")}}fixed{{else}}{{#if Object.spec.x}}§{{/if}}{{/if}}",
        "{{#eq Side \"kcp\"}}§{{else}}fixed{{/eq}}",
        "{{#if (hasPrefix \"k\" Side)}}§{{else}}fixed{{/if}}",
    ] {
        sides(
            Engine::Handlebars,
            &text.replace('§', consumers),
            (false, true),
        );
    }
    for (text, want) in [
        ("plain", true),
        ("a-{{ClusterName}}", true),
        ("a-{{{ClusterName}}}", true),
        ("{{trunc 8 (lower ClusterName)}}", true),
        ("{{! a word }}{{#if Object.spec.x}}a{{else}}b{{/if}}", true),
        ("{{#if (eq Side Object.spec.x)}}§{{else}}a{{/if}}", false),
        ("{{#if Object.spec.x}}§{{else}}a{{/if}}", false),
        ("{{#with Object}}{{ClusterName}}{{/with}}", false),
        ("{{#each Object.spec.list}}a{{/each}}", false),
        ("{{lookup Object \"x\"}}", false),
        ("{{lower Object.metadata.name}}", false),
        ("{{this}}", false),
        ("{{ClusterName.x}}", false),
        ("{{../ClusterName}}", false),
        ("{{@root.Object}}", false),
    ] {
        sides(
            Engine::Handlebars,
            &text.replace('§', consumers),
            (want, want),
        );
    }
}

/// Fields whose whole nobody chooses, and parts of them.
#[test]
fn a_path_is_nobodys_words_as_long_as_all_of_it_is_written() {
    let whose = |engine, text: &str| {
        let data = Data {
            own: &["ClusterName"],
            whole: &["ClusterPath"],
            ..Data::default()
        };
        written(engine, text, data).whose
    };
    for (text, want) in [
        ("{{ .ClusterPath }}", Whose::Whole),
        ("a-{{ .ClusterPath | replace \":\" \"-\" }}", Whose::Whole),
        ("{{ .ClusterPath | lower | quote }}", Whose::Whole),
        (
            "{{ printf \"%s-%s\" .ClusterPath .ClusterName }}",
            Whose::Whole,
        ),
        ("{{ list \"a\" .ClusterPath | join \"-\" }}", Whose::Whole),
        ("{{ with .ClusterPath }}{{ . }}{{ end }}", Whose::Whole),
        (
            "{{ $p := .ClusterPath }}{{ $p | replace \":\" \".\" }}",
            Whose::Whole,
        ),
        (
            "{{ ternary .ClusterPath \"a\" .Object.spec.x }}",
            Whose::Whole,
        ),
        ("{{ .ClusterPath | sha256sum | trunc 10 }}", Whose::Author),
        ("{{ .ClusterPath | sha3short }}", Whose::Author),
        ("{{ splitList \":\" .ClusterPath | last }}", Whose::Objects),
        ("{{ (split \":\" .ClusterPath)._2 }}", Whose::Objects),
        (
            "{{ regexReplaceAll \".*:\" .ClusterPath \"\" }}",
            Whose::Objects,
        ),
        ("{{ .ClusterPath | trimPrefix \"root:\" }}", Whose::Objects),
        ("{{ .ClusterPath | trunc 8 }}", Whose::Objects),
        ("{{ .ClusterPath | substr 5 9 }}", Whose::Objects),
        (
            "{{ .ClusterPath | replace \"root:\" \"\" }}",
            Whose::Objects,
        ),
        (
            "{{ .ClusterPath | replace .ClusterPath \"a\" }}",
            Whose::Objects,
        ),
        ("{{ printf \"%.4s\" .ClusterPath }}", Whose::Objects),
        ("{{ slice .ClusterPath 5 9 }}", Whose::Objects),
        (
            "{{ splitList \":\" .ClusterPath | last | sha256sum }}",
            Whose::Objects,
        ),
        ("{{ list .ClusterPath | first | base }}", Whose::Objects),
    ] {
        assert_eq!(whose(Engine::Go, text), want, "{text}");
    }
    for (text, want) in [
        ("{{ClusterPath}}", Whose::Whole),
        ("{{replace \":\" \"-\" ClusterPath}}", Whose::Whole),
        ("{{trunc 9 (sha256sum ClusterPath)}}", Whose::Author),
        ("{{trimPrefix \"root:\" ClusterPath}}", Whose::Objects),
        ("{{replace \"root:\" \"\" ClusterPath}}", Whose::Objects),
    ] {
        assert_eq!(whose(Engine::Handlebars, text), want, "{text}");
    }
}

#[test]
fn a_text_tells_workspaces_apart_if_each_branch_writes_a_field_that_does() {
    let tells = |engine, text: &str| {
        let data = Data {
            telling: &["ClusterName"],
            given: &[("Side", "service")],
            ..Data::default()
        };
        written(engine, text, data).tells
    };
    for (text, want) in [
        ("{{ .ClusterName }}", true),
        ("{{ .ClusterName }}-{{ .Object.spec.x }}", true),
        ("{{ .ClusterName | lower | trunc 12 }}", true),
        ("{{ .ClusterName | sha3short }}-x", true),
        ("{{ printf \"%s-%s\" .Object.spec.x .ClusterName }}", true),
        (
            "{{ if .Object.spec.x }}a-{{ .ClusterName }}{{ else }}{{ .ClusterName }}{{ end }}",
            true,
        ),
        (
            "{{ if eq .Side \"kcp\" }}a{{ else }}{{ .ClusterName }}{{ end }}",
            true,
        ),
        (
            "{{ $c := .ClusterName }}{{ if .Object.x }}b{{ end }}{{ $c }}",
            true,
        ),
        (
            "{{ define \"c\" }}{{ .ClusterName }}{{ end }}{{ template \"c\" . }}",
            true,
        ),
        ("plain", false),
        ("{{/* ClusterName */}}a", false),
        ("{{ .Object.spec.x }}", false),
        ("{{ default .ClusterName .Object.spec.x }}", false),
        ("{{ coalesce .Object.spec.x .ClusterName }}", false),
        ("{{ or .Object.spec.x .ClusterName }}", false),
        (
            "{{ with .Object.spec.x }}{{ . }}{{ else }}{{ .ClusterName }}{{ end }}",
            false,
        ),
        ("{{ if .Object.spec.x }}{{ .ClusterName }}{{ end }}", false),
        ("{{ if eq .ClusterName \"a\" }}b{{ end }}", false),
        ("{{ ternary .ClusterName \"a\" .Object.spec.x }}", false),
        ("{{ .ClusterName | trunc 2 }}", false),
        ("{{ .ClusterName | len }}", false),
        ("{{ $c := .ClusterName }}a", false),
        ("{{ .Object.spec.x | replace .ClusterName \"\" }}", false),
    ] {
        assert_eq!(tells(Engine::Go, text), want, "{text}");
    }
    for (text, want) in [
        ("{{ClusterName}}-a", true),
        ("{{sha3short ClusterName}}", true),
        ("{{#if Object.x}}a{{else}}{{ClusterName}}{{/if}}", false),
        ("{{#if Object.x}}{{ClusterName}}{{/if}}", false),
        ("{{default ClusterName Object.x}}", false),
    ] {
        assert_eq!(tells(Engine::Handlebars, text), want, "{text}");
    }
}

#[test]
fn paths_within_objects_are_whose_they_are_said_to_be() {
    let whose = |engine, text: &str| {
        let data = Data {
            whole: &["ClusterPath"],
            paths: &[
                ("Object.metadata.namespace", Whose::Author),
                ("Object.status", Whose::Status),
            ],
            ..Data::default()
        };
        written(engine, text, data).whose
    };
    for (text, want) in [
        ("{{ .Object.metadata.namespace }}-x", Whose::Author),
        ("{{ $.Object.metadata.namespace | trunc 3 }}", Whose::Author),
        (
            "{{ printf \"%s-x\" .Object.metadata.namespace }}",
            Whose::Author,
        ),
        ("{{ .Object.metadata.namespaces }}", Whose::Objects),
        ("{{ .Object.metadata.name }}", Whose::Objects),
        ("{{ .Object.status.ns }}", Whose::Status),
        (
            "{{ .Object.status.ns | lower }}-{{ .Object.metadata.namespace }}",
            Whose::Status,
        ),
        ("{{ with .Object.status }}{{ .ns }}{{ end }}", Whose::Status),
        (
            "{{ .Object.status.ns }}{{ .Object.spec.x }}",
            Whose::Objects,
        ),
        (
            "{{ default .Object.spec.x .Object.status.ns }}",
            Whose::Objects,
        ),
        (
            "{{ trimPrefix .Object.status.ns .ClusterPath }}",
            Whose::Objects,
        ),
        (
            "{{ with .Object }}{{ .status.ns }}{{ end }}",
            Whose::Objects,
        ),
    ] {
        assert_eq!(whose(Engine::Go, text), want, "{text}");
    }
    for (text, want) in [
        ("{{Object.metadata.namespace}}-x", Whose::Author),
        ("{{lower Object.status.ns}}", Whose::Status),
        ("{{Object.statuses}}", Whose::Objects),
        ("{{Object.metadata.name}}", Whose::Objects),
    ] {
        assert_eq!(whose(Engine::Handlebars, text), want, "{text}");
    }
}

#[test]
fn what_is_too_long_or_too_deep_to_be_read_is_not_trusted() {
    check(&"{{ .ClusterName }}".repeat(1000), true);
    check(&"{{ .ClusterName }}".repeat(3000), false);
    let mut doubling = "{{ define \"d0\" }}a{{ end }}".to_owned();
    for n in 1..60 {
        let before = n - 1;
        let call = format!("{{{{ template \"d{before}\" . }}}}");
        let _ = write!(
            doubling,
            "{{{{ define \"d{n}\" }}}}{call}{call}{{{{ end }}}}"
        );
    }
    check(&format!("{doubling}{{{{ template \"d59\" . }}}}"), false);
    // Definitions nest with the blocks that use them.
    let used = |times: usize| {
        let call = |n: usize| format!("{{{{ template \"t{n}\" . }}}}");
        let deep = |inner: &str| {
            let open = "{{ if .Object.x }}a{{ else }}".repeat(40);
            open + inner + &"{{ end }}".repeat(40)
        };
        let define = |n: usize, text: &str| format!("{{{{ define \"t{n}\" }}}}{text}{{{{ end }}}}");
        let all = (0..times).map(|n| define(n, &deep(&call(n + 1))));
        all.collect::<String>() + &define(times, "a") + &call(0)
    };
    check(&used(1), true);
    check(&used(4), false);
}
