//! Problems of a manifest, with their places.

use std::fmt;

use kube_lang::template;

/// A problem to be corrected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct Problem {
    pub severity: Severity,
    /// Such as `spec.mutation.spec[0].template.template`.
    pub field: String,
    pub part: Part,
    pub message: String,
    /// The byte offset in the text of that part.
    pub offset: Option<usize>,
    /// The suggested correction.
    pub hint: Option<String>,
}

/// The consequence of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The rules are not used.
    Error,
    /// The rules are used, but may have an unintended effect.
    Warning,
}

/// The part of a field that is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Key,
    Value,
}

impl Problem {
    pub fn new(field: impl Into<String>, message: impl fmt::Display) -> Self {
        Self {
            severity: Severity::Error,
            field: field.into(),
            part: Part::Value,
            message: message.to_string(),
            offset: None,
            hint: None,
        }
    }

    pub(super) fn of_template(field: String, error: template::CompileError) -> Self {
        Self {
            offset: Some(error.offset),
            hint: error.hint,
            ..Self::new(field, error.message)
        }
    }

    #[must_use]
    pub fn warning(self) -> Self {
        Self {
            severity: Severity::Warning,
            ..self
        }
    }

    #[must_use]
    pub fn at(self, part: Part) -> Self {
        Self { part, ..self }
    }

    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }

    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

impl Severity {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}
