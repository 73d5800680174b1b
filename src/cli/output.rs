//! What commands print: its formats, and why they fail.

use std::error::Error;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::ValueEnum;
use serde_json::{Value, json};

use crate::explain::DueWrite;
use crate::explain::differences::{Difference, Differences};
use hawser_runtime::errors::chain;
use hawser_runtime::overview::plain;

/// The number of fields that are printed of one object, and of characters of each value.
const MOST_FIELDS: usize = 50;
const LONGEST_VALUE: usize = 120;

/// Format of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Output {
    Human,
    Json,
    Yaml,
}

impl Output {
    /// The text for people, or the document.
    pub(super) fn show(
        self,
        human: impl FnOnce() -> String,
        machine: impl FnOnce() -> Value,
    ) -> String {
        match self {
            Self::Human => human(),
            Self::Json => format!("{:#}\n", machine()),
            Self::Yaml => yaml(&machine()),
        }
    }
}

/// A value as YAML, with a line break at its end.
pub(super) fn yaml(value: &Value) -> String {
    // JSON is YAML.
    let mut text = serde_saphyr::to_string(value).unwrap_or_else(|_| format!("{value:#}"));
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

/// The fields that differ, each with both values.
pub(super) fn write_differences(text: &mut String, indent: &str, differences: &Differences) {
    let Differences { fields, more } = differences;
    for Difference {
        path,
        before,
        after,
    } in fields.iter().take(MOST_FIELDS)
    {
        let [before, after] = [before, after].map(|value| shown(value.as_ref()));
        let line = plain(&format!("{path}: {before} -> {after}"));
        let _ = writeln!(text, "{indent}{line}");
    }
    let more = more + fields.len().saturating_sub(MOST_FIELDS);
    if more > 0 {
        let _ = writeln!(text, "{indent}… and {more} more");
    }
}

pub(super) fn differences_json(differences: &Differences) -> Vec<Value> {
    let one =
        |one: &Difference| json!({"path": one.path, "before": one.before, "after": one.after});
    differences.fields.iter().map(one).collect()
}

fn shown(value: Option<&Value>) -> String {
    let Some(value) = value else {
        return "(none)".to_owned();
    };
    let mut text = value.to_string();
    if let Some((end, _)) = text.char_indices().nth(LONGEST_VALUE) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// What a due write changes.
pub(super) fn write_change(text: &mut String, indent: &str, write: &DueWrite) {
    let Some(change) = &write.change else {
        return;
    };
    let creates = write.verb == "create";
    let differs = write.differences.as_ref();
    let differs = differs.map(|differences| !differences.fields.is_empty());
    if creates || differs != Some(true) {
        for line in yaml(change).lines() {
            let _ = writeln!(text, "{indent}{}", plain(line));
        }
    }
    match differs {
        Some(false) if !creates => {
            let _ = writeln!(text, "{indent}the server would change nothing");
        }
        Some(true) if creates => {
            let _ = writeln!(text, "{indent}the server would change");
        }
        _ => {}
    }
    if let Some(differences) = &write.differences {
        write_differences(text, indent, differences);
    }
}

/// A number of things, in words.
pub(super) fn counted(count: usize, thing: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {thing}{plural}")
}

/// The line about what may make an answer wrong.
pub(super) fn warning(text: &mut String, warning: Option<&str>) {
    if let Some(warning) = warning {
        let _ = writeln!(text, "warning: {}", plain(warning));
    }
}

/// Says what went wrong, with all its reasons, and how the process ends.
pub(super) fn fail(failure: &dyn Error) -> ExitCode {
    // Where there is no stderr nobody can be told.
    let _ = writeln!(io::stderr(), "hawser: {}", chain(failure));
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use hawser_sync::{Scope, Side};
    use kube_lang::object::Gvk;

    fn told(verb: &'static str, differences: Option<Differences>) -> String {
        let kind = Arc::new(Gvk::new("example.com", "v1", "Thing"));
        let write = DueWrite {
            verb,
            object: Scope::new(&Side::new("service"), &kind, "").key(None, "one"),
            change: Some(json!({"spec": {"size": 2}})),
            differences,
            refusal: None,
            held: false,
        };
        let mut text = String::new();
        write_change(&mut text, "  ", &write);
        text
    }

    fn differences(count: usize, before: &Value) -> Differences {
        let one = |number| Difference {
            path: format!("spec.f{number}"),
            before: Some(before.clone()),
            after: None,
        };
        Differences {
            fields: (0..count).map(one).collect(),
            more: 0,
        }
    }

    #[test]
    fn old_and_new_values_are_shown_if_they_are_known() {
        let change = "  spec:\n    size: 2\n";
        assert_eq!(told("patch", None), change);
        let one = Some(differences(1, &json!(1)));
        assert_eq!(told("patch", one.clone()), "  spec.f0: 1 -> (none)\n");
        let nothing = format!("{change}  the server would change nothing\n");
        assert_eq!(told("patch", Some(Differences::default())), nothing);
        assert_eq!(told("create", Some(Differences::default())), change);
        let more = format!("{change}  the server would change\n  spec.f0: 1 -> (none)\n");
        assert_eq!(told("create", one), more);
    }

    #[test]
    fn many_fields_and_long_values_are_cut() {
        let text = told(
            "patch",
            Some(differences(60, &json!("é\u{1b}".repeat(500)))),
        );
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 51);
        assert_eq!(lines[50], "  … and 10 more");
        assert!(lines[0].chars().count() < 160, "{}", lines[0]);
        assert!(!text.contains('\u{1b}'));
    }
}
