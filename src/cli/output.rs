//! Formats of what commands print.

use clap::ValueEnum;
use serde_json::Value;

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
