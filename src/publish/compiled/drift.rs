//! Rules about drift as manifests have them.

use crate::publish::problem::Problem;
use crate::publish::projection::Types;
use crate::publish::types::{DriftRule, DriftTreatment};
use hawser_sync::{DriftMode, DriftRules};
use kube_lang::paths;

pub(super) fn drift(given: &[DriftRule], types: &Types, problems: &mut Vec<Problem>) -> DriftRules {
    let mut rules: Vec<(Vec<String>, DriftMode)> = Vec::new();
    for (index, rule) in given.iter().enumerate() {
        let field = |index: usize| format!("spec.drift[{index}].path");
        let keys = match paths::keys(&rule.path) {
            Ok(keys) => keys,
            Err(error) => {
                problems.push(Problem::new(field(index), error));
                Vec::new()
            }
        };
        if let Some(why) = not_copied(&keys, types) {
            problems.push(Problem::new(field(index), why));
        }
        let same = |(known, _): &(Vec<String>, DriftMode)| !keys.is_empty() && *known == keys;
        if let Some(first) = rules.iter().position(same) {
            let message = format!("names the same field as {}", field(first));
            problems.push(Problem::new(field(index), message));
        }
        rules.push((keys, mode(rule.mode)));
    }
    DriftRules::new(rules)
}

fn mode(given: DriftTreatment) -> DriftMode {
    match given {
        DriftTreatment::Keep => DriftMode::Keep,
        DriftTreatment::Revert => DriftMode::Revert,
        DriftTreatment::Report => DriftMode::Report,
    }
}

/// The reason why a field is never copied, so that it cannot drift.
fn not_copied(keys: &[String], types: &Types) -> Option<String> {
    let first = keys.first()?.as_str();
    let is_copied = match (first, keys.get(1).map(String::as_str)) {
        ("apiVersion" | "kind", _) => false,
        ("metadata", second) => matches!(second, None | Some("labels" | "annotations")),
        _ => true,
    };
    if !is_copied {
        return Some("is not copied: of the metadata, only labels and annotations are".to_owned());
    }
    let is_subresource = types.subresources.contains(&first);
    is_subresource
        .then(|| format!("is not copied: {first} is a subresource on the service cluster"))
}
