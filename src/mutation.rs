//! Mutation steps: delete, regex, template, CEL.
//!
//! A pipeline is compiled once and changes documents of any origin. Each step gets the result of the previous step; a
//! path with `[*]` is one write for each existing element. The document alone limits work and size, never a clock, so
//! the same input always gives the same result.

mod cel;

#[cfg(test)]
mod tests;

use std::fmt;

use serde_json::Value;
use thiserror::Error;

pub use self::cel::EvalError;
use kube_lang::go_regex::GoRegex;
use kube_lang::paths::{self, PathError, Use};
use kube_lang::template::{self, Prepared, RenderError, Template};

/// The most steps a pipeline may have.
pub const MAX_STEPS: usize = 256;
/// The largest document a pipeline takes or makes, in bytes of compact JSON.
pub const MAX_DOCUMENT_BYTES: usize = 8 * 1024 * 1024;
/// The work that all steps of a pipeline may do for one object, over all elements of their paths. A unit is a
/// microsecond or less.
pub const MAX_WORK: u64 = 250_000;
/// The number of bytes of a document that are read for one unit of work.
const BYTES_PER_UNIT: u64 = 64;
/// The number of bytes that a regular expression reads or writes for one unit of work.
const MATCHED_PER_UNIT: u64 = 16;
/// The number of steps of an expression that are one unit of work.
const COST_PER_UNIT: u64 = 10;
/// The work of finding and replacing one value, besides reading it.
const WORK_PER_TARGET: u64 = 2;

/// One configured step.
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
    steps: Vec<CompiledStep>,
}

impl fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Pipeline");
        debug.field("steps", &self.steps.len()).finish()
    }
}

/// The reason why a step cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("mutation step {step}, {field}: {message}")]
pub struct CompileError {
    pub step: usize,
    /// The field of the step that is wrong.
    pub field: &'static str,
    pub message: String,
    /// The place in that field, in bytes.
    pub offset: Option<usize>,
    pub hint: Option<String>,
}

/// The reason why a document cannot be mutated.
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

/// The failure of a step.
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
        "the steps up to this one exceed the work limit of one object: shorten its lists and texts, or use fewer steps on each element"
    )]
    TooMuchWork,
}

struct CompiledStep {
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
    /// Compiles the steps; returns all errors of all steps at once.
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
        let (mut compiled, mut errors) = (Vec::new(), Vec::new());
        for (index, step) in steps.iter().enumerate() {
            match compile_step(index, step) {
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

    /// True if the pipeline has no steps.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Mutates a copy of `this`; `other` is the object on the other side, if there is one.
    pub fn apply(&self, this: &Value, other: Option<&Value>) -> Result<Value, MutationError> {
        self.apply_counted(this, other).map(|(doc, _)| doc)
    }

    /// The same, and the work that it took.
    fn apply_counted(
        &self,
        this: &Value,
        other: Option<&Value>,
    ) -> Result<(Value, u64), MutationError> {
        let mut doc = this.clone();
        if self.is_empty() {
            return Ok((doc, 0));
        }
        let bytes = size(&doc);
        if bytes > MAX_DOCUMENT_BYTES {
            return Err(MutationError::DocumentTooLarge);
        }
        let mut run = Run {
            other,
            prepared: None,
            bytes,
            left: MAX_WORK,
        };
        for (index, step) in self.steps.iter().enumerate() {
            let applied = run.apply(step, &mut doc);
            applied.map_err(|(path, source)| MutationError::Step {
                step: index,
                path,
                source,
            })?;
        }
        Ok((doc, MAX_WORK - run.left))
    }
}

fn compile_step(index: usize, step: &Step) -> Result<CompiledStep, Vec<CompileError>> {
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
        Step::Cel { expression, .. } => cel::Program::compile(expression)
            .map(Action::Cel)
            .map_err(|problem| error("expression", problem.message, Some(problem.offset))),
    };
    match action {
        Ok(action) if errors.is_empty() => Ok(CompiledStep {
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

// === impl Run ===

/// One pipeline over one document.
struct Run<'d> {
    other: Option<&'d Value>,
    /// The object converted for templates, once one has read it.
    prepared: Option<Prepared>,
    /// The document is not larger.
    bytes: usize,
    /// The work that may still be done.
    left: u64,
}

/// Both objects as one step sees them: as they were when it began.
enum PreparedObjects {
    Nothing,
    /// The fields of a template that it reads.
    Template(Vec<(&'static str, Prepared)>),
}

impl Run<'_> {
    fn apply(&mut self, step: &CompiledStep, doc: &mut Value) -> Result<(), (String, StepError)> {
        let at = |path: &str, error: StepError| (path.to_owned(), error);
        let targets =
            paths::expand(doc, &step.path).map_err(|error| at(&step.path, error.into()))?;
        let work = 1 + WORK_PER_TARGET * targets.len() as u64;
        self.spend(work).map_err(|error| at(&step.path, error))?;
        if matches!(step.action, Action::Delete) {
            // From the end, so that what is removed does not move what is still to be.
            for target in targets.iter().rev() {
                paths::delete(doc, target).map_err(|error| at(target, error.into()))?;
            }
            return Ok(());
        }
        if targets.is_empty() {
            return Ok(());
        }
        if let Action::Cel(program) = &step.action {
            return self.evaluate(program, doc, &targets);
        }
        let prepared = self.read_operands(&step.action, doc);
        let prepared = prepared.map_err(|error| at(&step.path, error))?;
        for target in &targets {
            self.write(&step.action, &prepared, doc, target)
                .map_err(|error| at(target, error))?;
        }
        Ok(())
    }

    /// Makes ready what a step looks at beside the value: once, however many values there are.
    fn read_operands(
        &mut self,
        action: &Action,
        doc: &Value,
    ) -> Result<PreparedObjects, StepError> {
        match action {
            Action::Delete | Action::Literal(_) | Action::Regex { .. } | Action::Cel(_) => {
                Ok(PreparedObjects::Nothing)
            }
            Action::Template(template) => {
                let mut fields = Vec::new();
                if template.reads("LocalObject") {
                    let local = Prepared::of(doc);
                    self.spend(local.work)?;
                    fields.push(("LocalObject", local));
                }
                if template.reads("RemoteObject") {
                    fields.push(("RemoteObject", self.prepared()?));
                }
                Ok(PreparedObjects::Template(fields))
            }
        }
    }

    /// The object on the other side, which no step changes, as templates see it.
    fn prepared(&mut self) -> Result<Prepared, StepError> {
        if let Some(prepared) = &self.prepared {
            return Ok(prepared.clone());
        }
        let prepared = Prepared::of(self.other.unwrap_or(&Value::Null));
        self.spend(prepared.work)?;
        Ok(self.prepared.insert(prepared).clone())
    }

    /// Writes results of an expression, which sees the object as it was before the first of them.
    fn evaluate(
        &mut self,
        program: &cel::Program,
        doc: &mut Value,
        targets: &[String],
    ) -> Result<(), (String, StepError)> {
        let mut results = Vec::with_capacity(targets.len());
        let mut bytes = 0;
        for target in targets {
            let result = self.result(program, doc, target);
            let result = result.map_err(|error| (target.clone(), error))?;
            // All of them are to stand in the object beside each other.
            bytes += size(&result);
            if bytes > MAX_DOCUMENT_BYTES {
                return Err((target.clone(), StepError::TooLarge));
            }
            results.push(result);
        }
        for (target, result) in targets.iter().zip(results) {
            self.write_value(doc, target, result)
                .map_err(|error| (target.clone(), error))?;
        }
        Ok(())
    }

    fn result(
        &mut self,
        program: &cel::Program,
        doc: &Value,
        target: &str,
    ) -> Result<Value, StepError> {
        let value = self.current(doc, target)?.value();
        let scope = cel::EvalScope {
            value: &value,
            this: doc,
            other: self.other,
        };
        let most = self.left.saturating_mul(COST_PER_UNIT);
        let (result, cost) = match program.evaluate(scope, most) {
            Err(EvalError::TooExpensive { .. }) if most < cel::MAX_COST => {
                return Err(StepError::TooMuchWork);
            }
            evaluated => evaluated?,
        };
        self.spend(cost.div_ceil(COST_PER_UNIT))?;
        Ok(result)
    }

    /// The value at a path.
    fn current(&mut self, doc: &Value, target: &str) -> Result<paths::GetResult, StepError> {
        if !paths::is_plain(target) {
            // It is written out, and read again.
            self.spend(2 * self.bytes as u64 / BYTES_PER_UNIT)?;
        }
        let (current, looked) = paths::get_counted(doc, target)?;
        self.spend(looked as u64 / BYTES_PER_UNIT)?;
        Ok(current)
    }

    fn write(
        &mut self,
        action: &Action,
        prepared: &PreparedObjects,
        doc: &mut Value,
        target: &str,
    ) -> Result<(), StepError> {
        let current = self.current(doc, target)?;
        let new = match (action, prepared) {
            (Action::Literal(text), _) => Value::String(text.clone()),
            (Action::Regex { regex, replacement }, _) => {
                self.spend(current.text.len() as u64 / MATCHED_PER_UNIT)?;
                let replaced = regex.replace_all(&current.text, replacement, MAX_DOCUMENT_BYTES);
                let replaced = replaced.map_err(|_| StepError::TooLarge)?;
                self.spend(replaced.len() as u64 / MATCHED_PER_UNIT)?;
                Value::String(replaced)
            }
            (Action::Template(template), PreparedObjects::Template(fields)) => {
                let value = Prepared::of(&current.value());
                self.spend(value.work)?;
                let fields = fields.iter().cloned().chain([("Value", value)]);
                let (text, work) = match template.render_fields(fields, self.left) {
                    Err(RenderError::TooMuchWork) => return Err(StepError::TooMuchWork),
                    rendered => rendered?,
                };
                self.spend(work)?;
                Value::String(text.trim().to_owned())
            }
            (Action::Delete | Action::Template(_) | Action::Cel(_), _) => return Ok(()),
        };
        self.write_value(doc, target, new)
    }

    fn write_value(&mut self, doc: &mut Value, target: &str, new: Value) -> Result<(), StepError> {
        let bytes = size(&new);
        self.spend(bytes as u64 / BYTES_PER_UNIT)?;
        paths::set(doc, target, new)?;
        self.grow(doc, bytes)
    }

    /// Counts the written bytes. Replaced bytes are subtracted only when necessary.
    fn grow(&mut self, doc: &Value, bytes: usize) -> Result<(), StepError> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes <= MAX_DOCUMENT_BYTES {
            return Ok(());
        }
        self.bytes = size(doc);
        if self.bytes > MAX_DOCUMENT_BYTES {
            return Err(StepError::TooLarge);
        }
        self.spend(self.bytes as u64 / BYTES_PER_UNIT)
    }

    fn spend(&mut self, work: u64) -> Result<(), StepError> {
        let left = self.left.checked_sub(work);
        self.left = left.ok_or(StepError::TooMuchWork)?;
        Ok(())
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
