//! Mutation steps as manifests have them.

use crate::mutation::CompileError;
use crate::mutation::MAX_STEPS;
use crate::mutation::Pipeline;
use crate::mutation::Step;
use crate::publish::problem::Problem;
use crate::publish::types::{MutationSpec, ResourceMutation};

/// The pipelines to the service cluster and back.
pub(super) fn mutations(
    spec: Option<&MutationSpec>,
    field: &str,
    problems: &mut Vec<Problem>,
) -> (Option<Pipeline>, Option<Pipeline>) {
    let empty = MutationSpec::default();
    let spec = spec.unwrap_or(&empty);
    let mut compile = |steps: &[ResourceMutation], list: &str| {
        let field = format!("{field}.{list}");
        // With where each stands: those that say nothing are told of and left out.
        let (mut read, mut places) = (Vec::new(), Vec::new());
        for (index, step) in steps.iter().enumerate() {
            if let Some(step) = step_of(step) {
                read.push(step);
                places.push(index);
            } else {
                problems.push(Problem::new(
                    format!("{field}[{index}]"),
                    "lacks an action: set one of delete, regex, template and cel",
                ));
            }
        }
        match Pipeline::compile(&read) {
            Ok(pipeline) => (read.len() == steps.len()).then_some(pipeline),
            Err(errors) => {
                let found = errors
                    .into_iter()
                    .map(|error| of_step(&field, &read, &places, error));
                problems.extend(found);
                None
            }
        }
    };
    (compile(&spec.spec, "spec"), compile(&spec.status, "status"))
}

fn of_step(field: &str, steps: &[Step], places: &[usize], error: CompileError) -> Problem {
    let (kind, place) = match (steps.get(error.step), places.get(error.step)) {
        (Some(step), Some(place)) if steps.len() <= MAX_STEPS => (kind_of(step), place),
        _ => return Problem::new(field, error.message),
    };
    Problem {
        offset: error.offset,
        hint: error.hint,
        ..Problem::new(
            format!("{field}[{place}].{kind}.{}", error.field),
            error.message,
        )
    }
}

fn kind_of(step: &Step) -> &'static str {
    match step {
        Step::Delete { .. } => "delete",
        Step::Regex { .. } => "regex",
        Step::Template { .. } => "template",
        Step::Cel { .. } => "cel",
    }
}

/// The action of a step; of several, the first in the order of the contract.
fn step_of(step: &ResourceMutation) -> Option<Step> {
    if let Some(delete) = &step.delete {
        let path = delete.path.clone();
        return Some(Step::Delete { path });
    }
    if let Some(regex) = &step.regex {
        return Some(Step::Regex {
            path: regex.path.clone(),
            pattern: regex.pattern.clone(),
            replacement: regex.replacement.clone(),
        });
    }
    if let Some(template) = &step.template {
        return Some(Step::Template {
            path: template.path.clone(),
            template: template.template.clone(),
        });
    }
    step.cel.as_ref().map(|cel| Step::Cel {
        path: cel.path.clone(),
        expression: cel.expression.clone(),
    })
}
