//! The command line as people use it.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

struct Said {
    code: i32,
    stdout: String,
    stderr: String,
}

fn hawser(args: &[&str], stdin: &str) -> Result<Said> {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/crontabs");
    let mut child = Command::new(env!("CARGO_BIN_EXE_hawser"))
        .args(args)
        .current_dir(examples)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut input = child.stdin.take().context("no stdin")?;
    input.write_all(stdin.as_bytes())?;
    drop(input);
    let output = child.wait_with_output()?;
    Ok(Said {
        code: output.status.code().context("it was killed")?,
        stdout: String::from_utf8(output.stdout)?,
        stderr: String::from_utf8(output.stderr)?,
    })
}

#[test]
fn an_agent_is_told_everything_that_is_wrong_at_once() -> Result<()> {
    for args in [
        ["agent", "--agent-name=9", "--disabled-controllers=all"].as_slice(),
        &["--agent-name", "9", "--disabled-controllers", "all"],
    ] {
        let said = hawser(args, "")?;
        ensure!(said.code == 1 && said.stdout.is_empty(), "{}", said.stderr);
        for part in [
            "--namespace",
            "--kcp-kubeconfig",
            "--apiexportendpointslice-ref",
            "\"9\"",
            "\"all\"",
        ] {
            ensure!(
                said.stderr.contains(part),
                "{part} is not in {}",
                said.stderr
            );
        }
        ensure!(said.stderr.lines().count() == 1, "{}", said.stderr);
    }
    Ok(())
}

#[test]
fn an_agent_that_does_not_understand_its_flags_shows_how_to_use_them() -> Result<()> {
    for args in [["--nonsense"].as_slice(), &["agent", "--log-format=text"]] {
        let said = hawser(args, "")?;
        ensure!(
            said.code == 2 && said.stdout.is_empty(),
            "{}{}",
            said.stdout,
            said.stderr
        );
        ensure!(said.stderr.contains("--help"), "{}", said.stderr);
    }
    let help = hawser(&["agent", "--help"], "")?;
    ensure!(help.code == 0 && help.stderr.is_empty(), "{}", help.stderr);
    ensure!(
        help.stdout.contains("--published-resource-selector"),
        "{}",
        help.stdout
    );
    Ok(())
}

#[test]
fn the_example_is_without_a_fault() -> Result<()> {
    let said = hawser(&["check", "published-resource.yaml", "crd.yaml"], "")?;
    ensure!(said.code == 0, "{}{}", said.stdout, said.stderr);
    let said = hawser(&["check", "-o", "json", "published-resource.yaml"], "")?;
    let answer: Value = serde_json::from_str(&said.stdout)?;
    ensure!(
        answer["ok"] == true && answer["problems"] == json!([]) && answer["skipped"] == json!([]),
        "{answer}"
    );
    Ok(())
}

#[test]
fn files_with_other_objects_are_skipped_with_a_note() -> Result<()> {
    // As a shell expands `examples/crontabs/*.yaml`.
    let files = ["crd.yaml", "object.yaml", "published-resource.yaml"];
    let said = hawser(&[&["check"], &files[..]].concat(), "")?;
    ensure!(said.code == 0, "{}{}", said.stdout, said.stderr);
    ensure!(
        said.stdout
            == "object.yaml: CronTab nightly: skipped, not a PublishedResource\n\
                published-resource.yaml: PublishedResource publish-crontabs: ok\n  \
                spec.related[0].object: set by consumers in workspaces, consumers on the service cluster\n",
        "{}",
        said.stdout
    );
    let said = hawser(&[&["check", "-o", "json"], &files[..]].concat(), "")?;
    let answer: Value = serde_json::from_str(&said.stdout)?;
    let wanted = json!([{"file": "object.yaml", "document": "CronTab nightly"}]);
    ensure!(answer["skipped"] == wanted, "{answer}");

    let said = hawser(&["check", "crd.yaml", "object.yaml"], "")?;
    ensure!(
        said.code == 1
            && said
                .stderr
                .contains("none of the files contains a PublishedResource"),
        "{}{}",
        said.stdout,
        said.stderr
    );
    Ok(())
}

const FAULTY: &str = r#"apiVersion: syncagent.kcp.io/v1alpha1
kind: PublishedResource
metadata: {name: faulty}
spec:
  resource: {apiGroup: example.com, kind: CronTab, version: v9}
  naming:
    name: "{{ .Object.metadata.name | nothing }}"
"#;

#[test]
fn a_fault_is_shown_with_its_line_and_a_caret() -> Result<()> {
    let said = hawser(&["check", "-"], FAULTY)?;
    ensure!(said.code == 1, "{}", said.stdout);
    let wanted = "\
error: spec.naming.name: function \"nothing\" not defined
 --> -:7:39
  |
7 |     name: \"{{ .Object.metadata.name | nothing }}\"
  |                                       ^
";
    ensure!(said.stdout.starts_with(wanted), "{}", said.stdout);
    let said = hawser(&["check", "-o", "json", "-"], FAULTY)?;
    let answer: Value = serde_json::from_str(&said.stdout)?;
    ensure!(
        answer["problems"][0]["line"] == 7 && answer["problems"][0]["column"] == 39,
        "{answer}"
    );
    Ok(())
}

#[test]
fn a_projection_is_checked_against_its_crd() -> Result<()> {
    let said = hawser(&["check", "-", "crd.yaml"], FAULTY)?;
    ensure!(
        said.code == 1 && said.stdout.contains("spec.resource"),
        "{}",
        said.stdout
    );
    ensure!(said.stdout.contains("the CRD has v1"), "{}", said.stdout);
    ensure!(
        said.stdout.contains("function \"nothing\" not defined"),
        "what else is wrong is told too: {}",
        said.stdout
    );
    Ok(())
}

/// Where the problems of a manifest with this spec are, with and without the CRD beside it.
fn places(spec: &str, crd: bool) -> Result<Vec<(String, u64, u64)>> {
    let manifest = format!(
        "apiVersion: syncagent.kcp.io/v1alpha1\nkind: PublishedResource\nmetadata: {{name: a}}\n{spec}"
    );
    let mut args = vec!["check", "-o", "json", "-"];
    args.extend(crd.then_some("crd.yaml"));
    let said = hawser(&args, &manifest)?;
    let answer: Value = serde_json::from_str(&said.stdout)?;
    let problems = answer["problems"].as_array().context("no problems")?;
    let place = |problem: &Value| {
        Some((
            problem["field"].as_str()?.to_owned(),
            problem["line"].as_u64()?,
            problem["column"].as_u64()?,
        ))
    };
    problems
        .iter()
        .map(|problem| place(problem).with_context(|| format!("{problem}")))
        .collect()
}

#[test]
fn versions_that_contradict_each_other_or_do_not_exist_are_pointed_at() -> Result<()> {
    let both = "spec:\n  resource:\n    apiGroup: example.com\n    kind: CronTab\n    version: v1\n    versions: [v1]\n";
    let unknown = "spec:\n  resource:\n    apiGroup: example.com\n    kind: CronTab\n    versions: [v8, v9]\n";
    let partly = "spec:\n  resource: {apiGroup: example.com, kind: CronTab, versions: [v1, v9]}\n";
    let idle = "spec:\n  resource: {apiGroup: example.com, kind: CronTab}\n  projection:\n    versions:\n      v7: v8\n";
    let renamed = "spec:\n  resource: {apiGroup: example.com, kind: CronTab}\n  projection:\n    version: v2\n    versions: {v1: v2}\n";
    for (spec, crd, wanted) in [
        (both, false, Some(("spec.resource.version", 8, 14))),
        (both, true, Some(("spec.resource.version", 8, 14))),
        (unknown, false, None),
        (unknown, true, Some(("spec.resource.versions", 8, 15))),
        (partly, false, None),
        (partly, true, Some(("spec.resource.versions[1]", 5, 67))),
        (idle, true, Some(("spec.projection.versions.v7", 8, 7))),
        (renamed, false, Some(("spec.projection.version", 7, 14))),
        (renamed, true, Some(("spec.projection.version", 7, 14))),
    ] {
        let wanted: Vec<_> = wanted
            .into_iter()
            .map(|(field, line, column)| (field.to_owned(), line, column))
            .collect();
        let found = places(spec, crd)?;
        ensure!(found == wanted, "{spec}with CRD {crd}: {found:?}");
    }
    Ok(())
}

/// The start of a manifest with one related entry, whose identifier is in line 8.
const RELATED: &str = "spec:
  resource: {apiGroup: example.com, kind: CronTab}
  related:
    - origin: service
      identifier: a
      kind: Secret
";

#[test]
fn a_template_of_a_label_is_pointed_at_in_its_key_or_its_value() -> Result<()> {
    let spec = format!(
        "{RELATED}      object:
        selector:
          matchLabels:
            fine: yes-it-is
            example.com/app: \"x-{{{{ nothing }}}}\"
            \"{{{{ nothing }}}}\": a
          rewrite: {{regex: {{pattern: a}}}}
"
    );
    let labels = "spec.related[0].object.selector.matchLabels";
    let wanted = vec![
        (format!("{labels}.example.com/app"), 14, 36),
        (format!("{labels}.{{{{ nothing }}}}"), 15, 17),
    ];
    let mut found = places(&spec, false)?;
    found.sort_by_key(|(_, line, _)| *line);
    ensure!(found == wanted, "{found:?}");
    Ok(())
}

#[test]
fn an_unknown_field_is_pointed_at_by_its_key() -> Result<()> {
    let spec = "spec:\n  resource: {apiGroup: example.com, kind: CronTab}\n  bogus: {a: 1}\n";
    let found = places(spec, false)?;
    ensure!(found == [("spec.bogus".to_owned(), 6, 3)], "{found:?}");
    Ok(())
}

#[test]
fn an_identifier_used_twice_is_a_warning_only() -> Result<()> {
    let object = "      object: {reference: {path: spec.secret}}\n";
    let again =
        "    - {origin: service, identifier: a, kind: ConfigMap, object: {reference: {path: x}}}\n";
    let manifest = format!(
        "apiVersion: syncagent.kcp.io/v1alpha1\nkind: PublishedResource\nmetadata: {{name: twice}}\n{RELATED}{object}{again}"
    );
    let said = hawser(&["check", "-"], &manifest)?;
    ensure!(said.code == 0, "{}", said.stdout);
    ensure!(
        said.stdout
            .starts_with("warning: spec.related[1].identifier:"),
        "{}",
        said.stdout
    );
    ensure!(
        said.stdout
            .contains("-: PublishedResource twice: ok, 1 warning\n"),
        "{}",
        said.stdout
    );
    Ok(())
}

#[test]
fn a_crd_that_cannot_be_read_is_told_with_the_reason() -> Result<()> {
    let crd = "---\nkind: CustomResourceDefinition\nmetadata: {name: a}\nspec: {group: example.com, names: {kind: CronTab}, versions: 3}\n";
    let said = hawser(&["check", "-"], &format!("{FAULTY}{crd}"))?;
    ensure!(
        said.code == 1
            && said
                .stdout
                .contains("not a valid CustomResourceDefinition: invalid type"),
        "{}",
        said.stdout
    );
    Ok(())
}

#[test]
fn misuse_and_missing_files_are_told_apart() -> Result<()> {
    ensure!(hawser(&["check"], "")?.code == 2);
    let said = hawser(&["check", "missing.yaml"], "")?;
    ensure!(
        said.code == 1 && said.stderr.contains("reading missing.yaml"),
        "{}",
        said.stderr
    );
    let said = hawser(&["check", "-"], "a: [")?;
    ensure!(
        said.code == 1 && said.stderr.contains("-:"),
        "{}",
        said.stderr
    );
    let misspelt = FAULTY.replace("kind: PublishedResource", "kind: PublishedResources");
    let said = hawser(&["check", "-"], &misspelt)?;
    ensure!(
        said.code == 1 && said.stdout.contains("expected syncagent.kcp.io/v1alpha1"),
        "{}",
        said.stdout
    );
    Ok(())
}

#[test]
fn a_reference_that_leads_nowhere_is_warned_of() -> Result<()> {
    let manifest = |path: &str| {
        format!(
            "apiVersion: syncagent.kcp.io/v1alpha1\nkind: PublishedResource\nmetadata: {{name: a}}\n\
             spec:\n  resource: {{apiGroup: example.com, version: v1, kind: CronTab}}\n  related:\n\
             \x20 - identifier: ca\n    origin: kcp\n    kind: Secret\n    object:\n\
             \x20     reference: {{path: {path}}}\n"
        )
    };
    let said = hawser(&["check", "-", "crd.yaml"], &manifest("spec.imgae"))?;
    ensure!(said.code == 0, "{}{}", said.stdout, said.stderr);
    ensure!(
        said.stdout
            .contains("warning: spec.related[0].object.reference.path")
            && said.stdout.contains("has no \"spec.imgae\""),
        "{}",
        said.stdout
    );
    let said = hawser(&["check", "-", "crd.yaml"], &manifest("spec.image"))?;
    ensure!(!said.stdout.contains("leads nowhere"), "{}", said.stdout);
    Ok(())
}

#[test]
fn an_object_is_rendered_with_its_names_its_content_and_the_steps_of_a_pass() -> Result<()> {
    let files = [
        "render",
        "-o",
        "json",
        "published-resource.yaml",
        "crd.yaml",
        "object.yaml",
    ];
    let said = hawser(&files, "")?;
    ensure!(said.code == 0, "{}", said.stderr);
    let shown: Value = serde_json::from_str(&said.stdout)?;
    ensure!(
        shown["names"]["copy"] == "service CronTab 1a2b3c4d5e6f7g8h/nightly-2747cabb",
        "{shown}"
    );
    ensure!(shown["content"]["spec"]["image"] == "registry.internal/backup:1.2");
    ensure!(shown["schema"]["spec"]["group"] == "crontabs.example.org");
    ensure!(shown["outcome"]["code"] == "InStep");
    let steps: Vec<&str> = shown["steps"]
        .as_array()
        .context("no steps")?
        .iter()
        .filter_map(|s| s["request"].as_str())
        .collect();
    ensure!(
        steps == ["patch", "create", "create", "create"],
        "{steps:?}"
    );
    ensure!(shown["copy"]["apiVersion"] == "example.com/v1");
    let said = hawser(
        &[
            "render",
            "published-resource.yaml",
            "crd.yaml",
            "object.yaml",
        ],
        "",
    )?;
    ensure!(
        said.stdout
            .contains("and end with: the object and its copy are in sync"),
        "{}",
        said.stdout
    );
    Ok(())
}

#[test]
fn a_rendering_says_where_related_entries_lead() -> Result<()> {
    let files = [
        "render",
        "../credentials/published-resource.yaml",
        "../credentials/crd.yaml",
        "../credentials/object.yaml",
    ];
    let said = hawser(&[&files[..], &["-o", "json"]].concat(), "")?;
    ensure!(said.code == 0, "{}", said.stderr);
    let shown: Value = serde_json::from_str(&said.stdout)?;
    let related = shown["related"].as_array().context("nothing is said")?;
    let of = |entry: &str| related.iter().find(|lead| lead["entry"] == entry);
    let ca = of("client-ca").with_context(|| said.stdout.clone())?;
    ensure!(
        ca["original"] == "kcp Secret 1a2b3c4d5e6f7g8h|default/my-ca"
            && ca["origin"] == "kcp"
            && ca["copy"]
                .as_str()
                .is_some_and(|copy| copy.starts_with("service Secret ")),
        "{ca}"
    );
    let credentials = of("credentials").with_context(|| said.stdout.clone())?;
    ensure!(
        credentials["copy"] == "kcp Secret 1a2b3c4d5e6f7g8h|default/orders-credentials",
        "{credentials}"
    );
    let said = hawser(&files, "")?;
    ensure!(
        said.stdout
            .contains("  client-ca: kcp Secret 1a2b3c4d5e6f7g8h|default/my-ca -> service Secret "),
        "{}",
        said.stdout
    );
    let object = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/credentials/object.yaml"),
    )?;
    let without: Vec<_> = object
        .lines()
        .filter(|line| !line.contains("my-ca"))
        .collect();
    let files = [&files[..3], &["-"]].concat();
    let said = hawser(&files, &without.join("\n"))?;
    ensure!(
        said.stdout.contains("  client-ca: nowhere yet: "),
        "{}{}",
        said.stdout,
        said.stderr
    );
    Ok(())
}

#[test]
fn what_is_missing_for_a_rendering_is_said() -> Result<()> {
    let said = hawser(&["render", "crd.yaml"], "")?;
    ensure!(
        said.code == 1 && said.stderr.contains("PublishedResource"),
        "{}",
        said.stderr
    );
    let said = hawser(&["render", "published-resource.yaml", "crd.yaml"], "")?;
    ensure!(
        said.code == 1 && said.stderr.contains("no object of"),
        "{}",
        said.stderr
    );
    Ok(())
}

#[test]
fn templates_expressions_and_paths_are_tried_on_their_own() -> Result<()> {
    for (args, stdin, wanted) in [
        (
            &["render", "template", "{{ .a | upper }}", "--data", "-"][..],
            "a: b",
            "B\n",
        ),
        (
            &[
                "render", "template", "{{ .a }}", "--engine", "html", "--data", "-",
            ],
            "a: <b>",
            "&lt;b&gt;\n",
        ),
        (
            &[
                "render",
                "template",
                "{{upper a}}",
                "--engine",
                "handlebars",
                "--data",
                "-",
            ],
            "a: b",
            "B\n",
        ),
        (
            &["render", "cel", "self.n + 1", "--object", "-"],
            "n: 2",
            "3\n",
        ),
        (
            &[
                "render",
                "cel",
                "value + '!'",
                "--path",
                "s",
                "--object",
                "-",
            ],
            "s: x",
            "\"x!\"\n",
        ),
        (
            &["render", "path", "a.#.b", "--object", "-"],
            "a: [{b: 1}, {b: 2}]",
            "[1,2]\n",
        ),
    ] {
        let said = hawser(args, stdin)?;
        ensure!(
            said.stdout == wanted,
            "{args:?}: {}{}",
            said.stdout,
            said.stderr
        );
    }
    let said = hawser(&["render", "template", "{{ env }}", "--data", "-"], "a: b")?;
    ensure!(
        said.code == 1 && said.stderr.contains("refused"),
        "{}",
        said.stderr
    );
    Ok(())
}

#[test]
fn the_pieces_answer_in_json_too() -> Result<()> {
    for (args, stdin, wanted) in [
        (
            &["template", "{{ .a }}\n", "--data", "-"][..],
            "a: \"1\"",
            json!("1\n"),
        ),
        (
            &["cel", "[self.n, null]", "--object", "-"],
            "n: 2",
            json!([2, null]),
        ),
        (
            &["path", "a.#.b", "--object", "-"],
            "a: [{b: 1}, {b: x}]",
            json!([1, "x"]),
        ),
        (&["path", "none", "--object", "-"], "a: 1", json!(null)),
    ] {
        let said = hawser(&[&["render"], args, &["-o", "json"]].concat(), stdin)?;
        let answer: Value = serde_json::from_str(&said.stdout).context(said.stderr)?;
        ensure!(answer == json!({"result": wanted}), "{args:?}: {answer}");
    }
    Ok(())
}

#[test]
fn names_that_yaml_takes_for_something_else_are_told_of() -> Result<()> {
    for (name, wanted) in [
        (
            "y",
            "metadata.name: must be a string, found a boolean\n --> -:3:18\n",
        ),
        (
            "1",
            "metadata.name: must be a string, found a number\n --> -:3:18\n",
        ),
        ("\"\"", "metadata.name: is missing\n --> -:3:18\n"),
    ] {
        let manifest = FAULTY
            .replace("name: faulty", &format!("name: {name}"))
            .replace("| nothing", "");
        let said = hawser(&["check", "-"], &manifest)?;
        ensure!(
            said.code == 1 && said.stdout.starts_with(&format!("error: {wanted}")),
            "{}",
            said.stdout
        );
        ensure!(said.stdout.contains("in quotes") == (name != "\"\""));
    }
    let object = "apiVersion: crontabs.example.org/v1\nkind: CronTab\nmetadata:\n  name: yes\n";
    let files = ["render", "published-resource.yaml", "crd.yaml", "-"];
    let said = hawser(&files, object)?;
    ensure!(
        said.code == 1
            && said
                .stderr
                .contains("-:4:9: metadata.name: must be a string, found a boolean"),
        "{}",
        said.stderr
    );
    Ok(())
}

#[test]
fn a_key_that_is_there_twice_is_told_with_its_line() -> Result<()> {
    let twice = format!("# one\n---\n{FAULTY}  naming: {{}}\n");
    let said = hawser(&["check", "-"], &twice)?;
    ensure!(
        said.code == 1
            && said
                .stderr
                .contains("-:10:3: the key \"naming\" appears twice"),
        "{}",
        said.stderr
    );
    Ok(())
}

#[test]
fn a_kind_that_is_published_under_two_names_is_told_of_the_younger_one() -> Result<()> {
    let one = |name: &str, created: &str, kind: &str| {
        format!(
            "apiVersion: syncagent.kcp.io/v1alpha1\nkind: PublishedResource\nmetadata:\n  name: {name}\n  \
             creationTimestamp: {created}\nspec:\n  resource: {{apiGroup: a.io, version: v1, kind: CronTab}}\n  \
             projection: {{kind: {kind}}}\n---\n"
        )
    };
    let (early, late) = ("\"2026-01-01T00:00:00Z\"", "\"2026-01-02T00:00:00Z\"");
    let both = one("a", late, "NightJob") + &one("b", early, "CronTab");
    let said = hawser(&["check", "-"], &both)?;
    let told = "error: spec.projection: CronTab of a.io is published as CronTab of a.io by \"b\"";
    ensure!(
        said.code == 1 && said.stdout.starts_with(told),
        "{}",
        said.stdout
    );
    ensure!(
        said.stdout.contains("PublishedResource b: ok"),
        "{}",
        said.stdout
    );
    let parts = one("a", late, "NightJob") + &one("b", early, "NightJob");
    ensure!(hawser(&["check", "-"], &parts)?.code == 0);
    Ok(())
}

#[test]
fn shells_are_given_a_script_that_completes_flags() -> Result<()> {
    for shell in ["bash", "zsh", "fish"] {
        let said = hawser(&["completion", shell], "")?;
        ensure!(said.code == 0 && said.stderr.is_empty(), "{}", said.stderr);
        ensure!(
            said.stdout.contains("apiexportendpointslice-ref"),
            "{shell}"
        );
    }
    let script = hawser(&["completion", "bash"], "")?.stdout;
    let ask =
        "COMP_WORDS=(hawser exp) COMP_CWORD=1; _hawser hawser exp hawser; echo \"${COMPREPLY[@]}\"";
    let output = Command::new("bash")
        .args(["--norc", "-c", &format!("{script}\n{ask}")])
        .output()?;
    let completed = String::from_utf8(output.stdout)?;
    ensure!(completed.trim() == "explain", "{completed:?}");
    Ok(())
}
