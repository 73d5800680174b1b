//! The languages of templates, and why a template of one does not compile.

/// The name of the main template among those that it defines.
pub(super) const NAME: &str = "(template)";

/// The language of a template, and its escaping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// `text/template`: nothing is escaped.
    Go,
    /// `html/template`: values are escaped by where they stand.
    GoHtml,
    /// Handlebars, strict, nothing escaped.
    Handlebars,
}

/// The reason why a template does not compile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("template:{line}:{column}: {message}{}", .hint.as_deref().map(|h| format!("; {h}")).unwrap_or_default())]
pub struct CompileError {
    /// From 1; 1 if the engine does not tell.
    pub line: usize,
    /// In bytes, from 1.
    pub column: usize,
    /// The byte in the text.
    pub offset: usize,
    pub message: String,
    /// The remedy, for the author of the template.
    pub hint: Option<String>,
}

impl CompileError {
    pub(super) fn at(
        text: &str,
        offset: usize,
        message: impl Into<String>,
        hint: Option<&str>,
    ) -> Self {
        let before = &text.as_bytes()[..offset.min(text.len())];
        let start = before
            .iter()
            .rposition(|b| *b == b'\n')
            .map_or(0, |at| at + 1);
        Self {
            line: before.split(|b| *b == b'\n').count(),
            column: before.len() - start + 1,
            offset: before.len(),
            message: message.into(),
            hint: hint.map(str::to_owned),
        }
    }

    pub(super) fn at_line(text: &str, line: usize, column: usize, message: String) -> Self {
        let start: usize = text
            .split_inclusive('\n')
            .take(line.saturating_sub(1))
            .map(str::len)
            .sum();
        Self::at(text, start + column.saturating_sub(1), message, None)
    }
}
