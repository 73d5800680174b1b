//! Mutation steps: delete, regex, template, CEL.
//!
//! A pipeline is compiled once and changes documents without knowing where they come from or go to. Each step sees
//! what the one before it left; a path with `[*]` is one write for each element there is. Everything is bounded in
//! work and size by the document alone, never by a clock, so the same input always gives the same answer.

mod cel;

#[cfg(test)]
mod tests;

use std::fmt;

use serde_json::{Value, json};
use thiserror::Error;

pub use self::cel::EvalError;
use kube_lang::go_regex::GoRegex;
use kube_lang::paths::{self, PathError, Use};
use kube_lang::template::{self, RenderError, Template};

/// The most steps a pipeline may have.
pub const MAX_STEPS: usize = 256;
/// The largest document a pipeline takes or makes, in bytes of compact JSON.
pub const MAX_DOCUMENT_BYTES: usize = 8 * 1024 * 1024;
/// The work one step may do over all elements of its path; a unit is about a microsecond at most.
const MAX_STEP_WORK: u64 = 20_000_000;
/// How many bytes of a document are looked at for one unit of work.
const BYTES_PER_UNIT: u64 = 64;

/// One step as it is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Removes what the path names.
    Delete { path: String },
    /// Writes the current value as text with every match of the pattern replaced.
    Regex {
        path: String,
        pattern: String,
        replacement: String,
    },
    /// Writes the text a template renders.
    Template { path: String, template: String },
    /// Writes the result of an expression.
    Cel { path: String, expression: String },
}

/// Compiled steps. Immutable, so one pipeline serves all workers.
pub struct Pipeline {
    steps: Vec<Compiled>,
}

impl fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Pipeline");
        debug.field("steps", &self.steps.len()).finish()
    }
}

/// Why a step cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("mutation step {step}, {field}: {message}")]
pub struct CompileError {
    pub step: usize,
    /// The field of the step that is wrong.
    pub field: &'static str,
    pub message: String,
    /// Where in that field, in bytes.
    pub offset: Option<usize>,
    pub hint: Option<String>,
}

/// Why a document cannot be mutated.
#[derive(Debug, Error)]
pub enum MutationError {
    #[error("mutation step {step} at '{path}'")]
    Step {
        step: usize,
        path: String,
        source: StepError,
    },
    #[error("object is larger than {MAX_DOCUMENT_BYTES} bytes")]
    DocumentTooLarge,
}

/// What failed in a step.
#[derive(Debug, Error)]
pub enum StepError {
    #[error(transparent)]
    Path(#[from] PathError),
    #[error(transparent)]
    Cel(#[from] EvalError),
    #[error(transparent)]
    Template(#[from] RenderError),
    #[error("the object would become larger than {MAX_DOCUMENT_BYTES} bytes")]
    TooLarge,
    #[error(
        "the step would take more work than is allowed for one object: use it on fewer elements"
    )]
    TooMuchWork,
}

struct Compiled {
    path: String,
    action: Action,
}

enum Action {
    Delete,
    Literal(String),
    Regex { regex: GoRegex, replacement: String },
    Template(Template),
    Cel(cel::Program),
}

// === impl Pipeline ===

impl Pipeline {
    /// Compiles the steps; all that is wrong with any of them is answered at once.
    pub fn compile(steps: &[Step]) -> Result<Self, Vec<CompileError>> {
        if steps.len() > MAX_STEPS {
            let message = format!("more than {MAX_STEPS} steps");
            return Err(vec![CompileError {
                step: MAX_STEPS,
                field: "steps",
                message,
                offset: None,
                hint: None,
            }]);
        }
        let engine = cel::Engine::new();
        let (mut compiled, mut errors) = (Vec::new(), Vec::new());
        for (index, step) in steps.iter().enumerate() {
            match compile_step(index, step, &engine) {
                Ok(step) => compiled.push(step),
                Err(found) => errors.extend(found),
            }
        }
        if errors.is_empty() {
            Ok(Self { steps: compiled })
        } else {
            Err(errors)
        }
    }

    /// Whether the pipeline changes nothing.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Mutates a copy of `this`; `other` is the object on the other side, if there is one.
    pub fn apply(&self, this: &Value, other: Option<&Value>) -> Result<Value, MutationError> {
        let mut doc = this.clone();
        if self.is_empty() {
            return Ok(doc);
        }
        if size(&doc) > MAX_DOCUMENT_BYTES {
            return Err(MutationError::DocumentTooLarge);
        }
        for (index, step) in self.steps.iter().enumerate() {
            step.apply(&mut doc, other)
                .map_err(|(path, source)| MutationError::Step {
                    step: index,
                    path,
                    source,
                })?;
        }
        Ok(doc)
    }
}

fn compile_step(
    index: usize,
    step: &Step,
    engine: &cel::Engine,
) -> Result<Compiled, Vec<CompileError>> {
    let error = |field, message: String, offset| CompileError {
        step: index,
        field,
        message,
        offset,
        hint: None,
    };
    let (path, usage) = match step {
        Step::Delete { path } => (path, Use::Delete),
        Step::Regex { path, .. } | Step::Template { path, .. } | Step::Cel { path, .. } => {
            (path, Use::Write)
        }
    };
    let mut errors = Vec::new();
    if let Err(problem) = paths::validate(path, usage) {
        let mut found = error("path", problem.to_string(), Some(0));
        found.hint = hint_for(path, &problem);
        errors.push(found);
    }
    let action = match step {
        Step::Delete { .. } => Ok(Action::Delete),
        Step::Regex {
            pattern,
            replacement,
            ..
        } if pattern.is_empty() => Ok(Action::Literal(replacement.clone())),
        Step::Regex {
            pattern,
            replacement,
            ..
        } => GoRegex::compile(pattern)
            .map(|regex| Action::Regex {
                regex,
                replacement: replacement.clone(),
            })
            .map_err(|problem| error("pattern", problem.message, Some(problem.offset))),
        Step::Template { template, .. } => Template::compile(template::Engine::GoHtml, template)
            .map(Action::Template)
            .map_err(|problem| CompileError {
                hint: problem.hint,
                ..error("template", problem.message, Some(problem.offset))
            }),
        Step::Cel { expression, .. } => engine
            .compile(expression)
            .map(Action::Cel)
            .map_err(|problem| error("expression", problem.message, Some(problem.offset))),
    };
    match action {
        Ok(action) if errors.is_empty() => Ok(Compiled {
            path: path.clone(),
            action,
        }),
        Ok(_) => Err(errors),
        Err(problem) => {
            errors.push(problem);
            Err(errors)
        }
    }
}

fn hint_for(path: &str, problem: &PathError) -> Option<String> {
    (*problem == PathError::ComplexDelete && path.contains(".#.")).then(|| {
        format!(
            "to delete from each element, write '{}'",
            path.replace(".#.", "[*].")
        )
    })
}

// === impl Compiled ===

impl Compiled {
    fn apply(&self, doc: &mut Value, other: Option<&Value>) -> Result<(), (String, StepError)> {
        let at = |path: &str, error: StepError| (path.to_owned(), error);
        let targets =
            paths::expand(doc, &self.path).map_err(|error| at(&self.path, error.into()))?;
        if matches!(self.action, Action::Delete) {
            // From the end, so that what is removed does not move what is still to be.
            for target in targets.iter().rev() {
                paths::delete(doc, target).map_err(|error| at(target, error.into()))?;
            }
            return Ok(());
        }
        let mut run = Run::new(self, doc, other);
        for target in &targets {
            run.write(doc, target).map_err(|error| at(target, error))?;
        }
        Ok(())
    }
}

/// One step over one document.
struct Run<'s> {
    step: &'s Compiled,
    /// What expressions see of both objects: how they were when the step began.
    scope: Option<cel::Scope>,
    /// What templates see of them.
    data: Value,
    bytes: usize,
    work: u64,
}

impl<'s> Run<'s> {
    fn new(step: &'s Compiled, doc: &Value, other: Option<&Value>) -> Self {
        let scope = match &step.action {
            Action::Cel(program) => Some(program.scope(doc, other)),
            _ => None,
        };
        let data = match &step.action {
            Action::Template(_) => json!({"LocalObject": doc, "RemoteObject": other}),
            _ => Value::Null,
        };
        Self {
            step,
            scope,
            data,
            bytes: size(doc),
            work: 0,
        }
    }

    fn write(&mut self, doc: &mut Value, target: &str) -> Result<(), StepError> {
        if !paths::is_plain(target) {
            self.spend(self.bytes as u64 / BYTES_PER_UNIT)?;
        }
        let current = paths::get(doc, target)?;
        let new = match &self.step.action {
            Action::Delete => return Ok(()),
            Action::Literal(text) => Value::String(text.clone()),
            Action::Regex { regex, replacement } => {
                let replaced = regex.replace_all(&current.text, replacement, MAX_DOCUMENT_BYTES);
                Value::String(replaced.map_err(|_| StepError::TooLarge)?)
            }
            Action::Template(template) => {
                // The engine makes values of its own of both objects, each time.
                self.spend(1 + (size(&self.data) as u64) / BYTES_PER_UNIT)?;
                self.data["Value"] = current.value();
                let (text, work) = template.render_counted(&self.data)?;
                self.spend(work)?;
                Value::String(text.trim().to_owned())
            }
            Action::Cel(program) => {
                let Some(scope) = &self.scope else {
                    return Ok(());
                };
                let (result, cost) = program.evaluate(&current.value(), scope)?;
                self.spend(cost)?;
                result
            }
        };
        self.bytes = self.bytes.saturating_add(size(&new));
        if self.bytes > MAX_DOCUMENT_BYTES {
            return Err(StepError::TooLarge);
        }
        paths::set(doc, target, new)?;
        Ok(())
    }

    fn spend(&mut self, work: u64) -> Result<(), StepError> {
        self.work = self.work.saturating_add(work);
        if self.work > MAX_STEP_WORK {
            Err(StepError::TooMuchWork)
        } else {
            Ok(())
        }
    }
}

/// About how many bytes a value takes as compact JSON.
fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(elements) => {
            2 + elements
                .iter()
                .map(|element| size(element) + 1)
                .sum::<usize>()
        }
        Value::Object(members) => {
            2 + members
                .iter()
                .map(|(key, member)| key.len() + 4 + size(member))
                .sum::<usize>()
        }
    }
}
