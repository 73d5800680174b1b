//! Requirements of properties: well-formed, and together satisfiable.

use kube_cel::quantity_in_billionths;
use kube_lang::names::qualified_name;

use crate::scheduler::check_property_name;
use crate::types::policy::{PropertyOperator, PropertyRequirement};

pub(super) fn check_name(name: &str, problems: &mut Vec<String>) {
    if let Err(error) = check_property_name(name) {
        problems.push(error.to_string());
    }
    for problem in qualified_name(name) {
        problems.push(format!("name of property \"{name}\" is invalid: {problem}"));
    }
}

/// The values that all requirements of one property admit.
#[derive(Default)]
struct Range {
    least: Option<(i128, bool)>,
    most: Option<(i128, bool)>,
    not: Vec<i128>,
}

impl Range {
    /// Narrows the range; a bound is a value and whether the value itself is admitted.
    fn narrow(&mut self, operator: PropertyOperator, value: i128) {
        let at_least = |bound: (i128, bool), old: Option<(i128, bool)>| {
            let is_narrower = old.is_none_or(|old| bound.0 > old.0 || bound.0 == old.0 && !bound.1);
            if is_narrower { Some(bound) } else { old }
        };
        let at_most = |bound: (i128, bool), old: Option<(i128, bool)>| {
            let is_narrower = old.is_none_or(|old| bound.0 < old.0 || bound.0 == old.0 && !bound.1);
            if is_narrower { Some(bound) } else { old }
        };
        match operator {
            PropertyOperator::Gt => self.least = at_least((value, false), self.least),
            PropertyOperator::Ge => self.least = at_least((value, true), self.least),
            PropertyOperator::Lt => self.most = at_most((value, false), self.most),
            PropertyOperator::Le => self.most = at_most((value, true), self.most),
            PropertyOperator::Ne => self.not.push(value),
            PropertyOperator::Eq => {
                self.least = at_least((value, true), self.least);
                self.most = at_most((value, true), self.most);
            }
        }
    }

    fn is_empty(&self) -> bool {
        let (Some((least, with_least)), Some((most, with_most))) = (self.least, self.most) else {
            return false;
        };
        let is_point = least == most && with_least && with_most;
        least > most || least == most && !is_point || is_point && self.not.contains(&least)
    }
}

pub(super) fn check(requirements: &[PropertyRequirement], problems: &mut Vec<String>) {
    let mut ranges: std::collections::BTreeMap<&str, Range> = std::collections::BTreeMap::new();
    for requirement in requirements {
        let name = requirement.name.as_str();
        check_name(name, problems);
        let [value] = &requirement.values[..] else {
            problems.push(format!(
                "operator {:?} of property {name} requires exactly one value, got {}",
                requirement.operator,
                requirement.values.len()
            ));
            continue;
        };
        match quantity_in_billionths(value) {
            Ok(value) => ranges
                .entry(name)
                .or_default()
                .narrow(requirement.operator, value),
            Err(error) => problems.push(format!(
                "value \"{value}\" of property {name} is not a valid quantity: {error}"
            )),
        }
    }
    for (name, range) in ranges {
        if range.is_empty() {
            problems.push(format!(
                "the requirements of property {name} contradict each other"
            ));
        }
    }
}
