//! Templates: the Go dialect, Handlebars, one table of functions.
//!
//! Knows how a template is compiled, bounded and rendered. Templates come from the owner's configuration, data from consumers: a value
//! is never parsed as a template. Nothing here reads a clock, the environment, a file or the network.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use gotmpl::TemplateError;
use serde_json::Value as Json;

mod digests;
mod functions;
mod handlebars;
mod links;
mod lists;
mod maps;
mod numbers;
mod patterns;
mod printf;
pub mod provenance;
mod semver;
mod structure;
mod text;
mod times;
mod tree;
mod typed;
mod values;

#[cfg(test)]
mod tests;

pub use functions::{offered, refusal};

/// What the outermost template is called among those it defines.
const NAME: &str = "(template)";
/// The longest template that is compiled.
const MAX_SOURCE: usize = 64 << 10;
/// The longest text that is rendered, and the longest a function returns.
const MAX_OUTPUT: usize = 1 << 20;
/// The iterations of all `range` of one rendering together.
const MAX_ITERATIONS: u64 = 100_000;
/// The work of all functions of one rendering together, in calls and units of 64 bytes or one element.
const MAX_WORK: u64 = 2_000_000;

thread_local! {
    /// What is left of the work of the rendering that runs on this thread: functions are shared between renderings and have no other
    /// place to count.
    static WORK: Cell<u64> = const { Cell::new(0) };
}

/// How a template is read and what is escaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// `text/template`: nothing is escaped.
    Go,
    /// `html/template`: values are escaped by where they stand.
    GoHtml,
    /// Handlebars, strict, nothing escaped.
    Handlebars,
}

/// Why a template was not compiled.
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
    /// What to do instead.
    pub hint: Option<String>,
}

impl CompileError {
    fn at(text: &str, offset: usize, message: impl Into<String>, hint: Option<&str>) -> Self {
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

    fn at_line(text: &str, line: usize, column: usize, message: String) -> Self {
        let start: usize = text
            .split_inclusive('\n')
            .take(line.saturating_sub(1))
            .map(str::len)
            .sum();
        Self::at(text, start + column.saturating_sub(1), message, None)
    }
}

/// Why a compiled template could not be rendered with its data.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot render the template: {0}")]
pub struct RenderError(String);

/// A compiled template: immutable, cheap to clone, shared between threads.
#[derive(Clone)]
pub struct Template(Arc<Compiled>);

enum Compiled {
    Plain(String),
    Go(gotmpl::Template),
    Html(gotmpl::html::Template),
    Handlebars(Box<handlebars::Compiled>),
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Template")
    }
}

/// Whether a text has template actions at all.
pub fn has_actions(text: &str) -> bool {
    text.contains("{{")
}

impl Template {
    /// Compiles a template; what cannot work or is refused is said here, not at the first object.
    pub fn compile(engine: Engine, text: &str) -> Result<Self, CompileError> {
        if text.len() > MAX_SOURCE {
            let message = format!(
                "a template has at most {MAX_SOURCE} bytes, this one has {}",
                text.len()
            );
            return Err(CompileError::at(text, 0, message, None));
        }
        let compiled = match engine {
            Engine::Handlebars => Compiled::Handlebars(Box::new(handlebars::compile(text)?)),
            Engine::Go if !has_actions(text) => Compiled::Plain(text.to_owned()),
            Engine::Go => Compiled::Go(parse(text, engine)?.max_range_iters(MAX_ITERATIONS)),
            Engine::GoHtml => {
                let parsed = parse(text, engine)?;
                let mut html = gotmpl::html::Template::new(NAME)
                    .max_range_iters(MAX_ITERATIONS)
                    .funcs(functions::go_table());
                for name in parsed.templates() {
                    if let Some(tree) = parsed.lookup(name) {
                        html = html
                            .add_parse_tree(name, tree.clone())
                            .map_err(|e| compile_error(text, &e))?;
                    }
                }
                Compiled::Html(html.parse("").map_err(|e| compile_error(text, &e))?)
            }
        };
        Ok(Self(Arc::new(compiled)))
    }

    /// Renders as it stands.
    pub fn render(&self, data: &Json) -> Result<String, RenderError> {
        self.render_counted(data).map(|(text, _)| text)
    }

    /// Renders, and says how much work the functions have done.
    pub fn render_counted(&self, data: &Json) -> Result<(String, u64), RenderError> {
        begin();
        let text = self.execute(data);
        end();
        Ok((text?, MAX_WORK - WORK.get()))
    }

    fn execute(&self, data: &Json) -> Result<String, RenderError> {
        let mut out = Bounded(String::new());
        let fail = |e: TemplateError| RenderError(e.to_string());
        match &*self.0 {
            Compiled::Plain(text) => return Ok(text.clone()),
            Compiled::Go(template) => template
                .execute_fmt(&mut out, &values::from_json(data))
                .map_err(fail)?,
            Compiled::Html(template) => template
                .execute_fmt(&mut out, &values::from_json(data))
                .map_err(fail)?,
            Compiled::Handlebars(template) => return template.render(data).map_err(RenderError),
        }
        Ok(out.0)
    }

    /// Renders and strips surrounding white space as Go's `strings.TrimSpace`.
    pub fn render_trimmed(&self, data: &Json) -> Result<String, RenderError> {
        self.render(data).map(|text| text.trim().to_owned())
    }
}

/// Gives a rendering on this thread its share of work.
fn begin() {
    WORK.set(MAX_WORK);
    typed::forget();
}

fn end() {
    typed::forget();
}

fn parse(text: &str, engine: Engine) -> Result<gotmpl::Template, CompileError> {
    structure::check(text)?;
    let parsed = gotmpl::Template::new(NAME)
        .funcs(functions::go_table())
        .parse(text)
        .map_err(|e| compile_error(text, &e))?;
    let mut ready = gotmpl::Template::new(NAME).funcs(functions::go_table());
    for defined in parsed.templates() {
        if let Some(tree) = parsed.lookup(defined) {
            let tree = tree::prepare(tree, engine, text)?;
            ready = ready.add_parse_tree(defined, tree);
        }
    }
    // Parsing nothing makes the tree of its own name the one that is executed.
    ready.parse("").map_err(|e| compile_error(text, &e))
}

fn compile_error(text: &str, error: &TemplateError) -> CompileError {
    match error {
        TemplateError::Parse {
            line, col, message, ..
        }
        | TemplateError::Lex {
            line, col, message, ..
        } => CompileError::at_line(text, *line, *col, message.clone()),
        other => CompileError::at(text, 0, other.to_string(), None),
    }
}

/// Text that does not grow beyond the limit.
struct Bounded(String);

impl fmt::Write for Bounded {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        if self.0.len() + s.len() > MAX_OUTPUT {
            return Err(fmt::Error);
        }
        self.0.push_str(s);
        Ok(())
    }
}

/// Counts work of the running rendering.
fn spend(units: u64) -> Result<(), String> {
    let left = WORK.get();
    WORK.set(left.saturating_sub(units));
    if left < units {
        return Err("the template does too much work".to_owned());
    }
    Ok(())
}
