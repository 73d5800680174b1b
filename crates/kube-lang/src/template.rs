//! Templates: the Go dialect, Handlebars, one table of functions.
//!
//! Knows how a template is compiled, bounded and rendered. Templates come from the owner's configuration, data from consumers: a value
//! is never parsed as a template. Nothing here reads a clock, the environment, a file or the network.

use std::fmt;
use std::sync::Arc;

use gotmpl::TemplateError;
use serde_json::Value as Json;

mod digests;
mod engine;
mod entry;
mod functions;
mod handlebars;
mod integers;
mod limits;
mod links;
mod lists;
mod literals;
mod maps;
mod numbers;
mod patterns;
mod printf;
pub mod provenance;
mod reading;
mod semver;
mod structure;
mod text;
mod times;
mod tree;
mod typed;
mod values;

#[cfg(test)]
mod tests;

pub use engine::{CompileError, Engine};
pub use limits::MAX_WORK;

use engine::NAME;
use limits::{Bounded, WORK};
use reading::Reads;

/// The longest template that is compiled.
const MAX_SOURCE: usize = 64 << 10;
/// The iterations of all `range` of one rendering together.
const MAX_ITERATIONS: u64 = 100_000;
/// The number of bytes of data that are converted for one unit of work.
const BYTES_PER_UNIT: usize = 64;

/// The reason why a compiled template cannot be rendered with its data.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    #[error("cannot render the template: {0}")]
    Failed(String),
    #[error(
        "cannot render the template: it needs more work than is allowed for one object; loop over fewer or smaller values"
    )]
    TooMuchWork,
}

/// A compiled template: immutable, cheap to clone, shared between threads.
#[derive(Clone)]
pub struct Template(Arc<Readied>);

struct Readied {
    compiled: Compiled,
    reads: Reads,
}

/// A value made ready for templates, once for many renderings. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Prepared {
    value: gotmpl::Value,
    /// The work that the conversion took.
    pub work: u64,
}

impl Prepared {
    pub fn of(json: &Json) -> Self {
        let mut bytes = 0;
        let value = values::from_json_counted(json, &mut bytes);
        Self {
            value,
            work: (bytes / BYTES_PER_UNIT) as u64,
        }
    }
}

enum Compiled {
    Plain(String),
    Go(gotmpl::Template),
    Html(gotmpl::html::Template),
    Handlebars(Box<handlebars::HandlebarsTemplate>),
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Template")
    }
}

/// True if a text has template actions at all.
pub fn has_actions(text: &str) -> bool {
    text.contains("{{")
}

impl Template {
    /// Compiles a template; what cannot work or is refused is said here, not at the first object.
    pub fn compile(engine: Engine, text: &str) -> Result<Self, CompileError> {
        if text.len() > MAX_SOURCE {
            let message = format!(
                "the template has {} bytes, more than the limit of {MAX_SOURCE}",
                text.len()
            );
            return Err(CompileError::at(text, 0, message, None));
        }
        let mut reads = Reads::default();
        let compiled = match engine {
            Engine::Handlebars => {
                reads = Reads::All;
                Compiled::Handlebars(Box::new(handlebars::compile(text)?))
            }
            Engine::Go if !has_actions(text) => Compiled::Plain(text.to_owned()),
            Engine::Go => {
                let parsed = parse(text, engine)?;
                reads = Reads::of(&parsed);
                Compiled::Go(parsed.max_range_iters(MAX_ITERATIONS))
            }
            Engine::GoHtml => {
                let parsed = parse(text, engine)?;
                reads = Reads::of(&parsed);
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
        Ok(Self(Arc::new(Readied { compiled, reads })))
    }

    /// True if the output can depend on this field of the data.
    pub fn reads(&self, field: &str) -> bool {
        self.0.reads.contains(field)
    }

    /// Renders without trimming.
    pub fn render(&self, data: &Json) -> Result<String, RenderError> {
        match &self.0.compiled {
            Compiled::Plain(text) => Ok(text.clone()),
            Compiled::Handlebars(template) => {
                counted(MAX_WORK, || template.render(data)).map(|(text, _)| text)
            }
            Compiled::Go(_) | Compiled::Html(_) => {
                let data = Prepared::of(data);
                let left = MAX_WORK.checked_sub(data.work);
                let (text, _) = self.execute(&data.value, left.ok_or(RenderError::TooMuchWork)?)?;
                Ok(text)
            }
        }
    }

    /// Renders with these fields as the data, within so much work, and says how much it has taken.
    pub fn render_fields<'f>(
        &self,
        fields: impl IntoIterator<Item = (&'f str, Prepared)>,
        most: u64,
    ) -> Result<(String, u64), RenderError> {
        let fields = fields.into_iter();
        let fields = fields.map(|(name, field)| (Arc::from(name), field.value));
        self.execute(&values::map(fields.collect()), most.min(MAX_WORK))
    }

    fn execute(&self, data: &gotmpl::Value, most: u64) -> Result<(String, u64), RenderError> {
        let go = |run: &dyn Fn(&mut Bounded) -> Result<(), TemplateError>| {
            let mut out = Bounded(String::new());
            run(&mut out).map_err(|e| e.to_string())?;
            Ok(out.0)
        };
        counted(most, || match &self.0.compiled {
            Compiled::Plain(text) => Ok(text.clone()),
            Compiled::Go(template) => go(&|out| template.execute_fmt(out, data)),
            Compiled::Html(template) => go(&|out| template.execute_fmt(out, data)),
            Compiled::Handlebars(template) => template.render(&values::to_json(data)),
        })
    }

    /// Renders and strips surrounding white space as Go's `strings.TrimSpace`.
    pub fn render_trimmed(&self, data: &Json) -> Result<String, RenderError> {
        self.render(data).map(|text| text.trim().to_owned())
    }
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
            let mut tree = tree::prepare(defined, tree, engine, text)?;
            reading::count(&mut tree);
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

/// Does something on this thread with so much work for functions of templates; what is left of it, if anything.
fn within<T>(most: u64, run: impl FnOnce() -> T) -> (T, Option<u64>) {
    WORK.set(Some(most));
    typed::forget();
    let done = run();
    typed::forget();
    (done, WORK.get())
}

/// Renders, and counts what that takes.
fn counted(
    most: u64,
    render: impl FnOnce() -> Result<String, String>,
) -> Result<(String, u64), RenderError> {
    let (rendered, left) = within(most, render);
    let left = left.ok_or(RenderError::TooMuchWork)?;
    let text = rendered.map_err(RenderError::Failed)?;
    Ok((text, most - left))
}
