//! Selects the objects of a workspace that are synchronized: by their labels and by those of their namespace.

use kube_lang::object::Object;
use kube_lang::selector::{Selector, SelectorError};

use super::types::{Filter, LabelSelector};

/// The field of the filter that needs the namespace of an object.
pub const NAMESPACE_FILTER: &str = "spec.filter.namespace";

/// Whether a part of a filter matches an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterResult {
    pub field: &'static str,
    pub selector: String,
    pub matches: bool,
}

/// A compiled filter. An absent or empty part matches everything.
#[derive(Clone, Debug)]
pub struct Filters {
    resource: Option<Selector>,
    namespace: Option<Selector>,
}

impl Filters {
    pub fn compile(filter: Option<&Filter>) -> Result<Self, SelectorError> {
        let compile = |selector: Option<&LabelSelector>| {
            let value = selector.map(|selector| serde_json::json!(selector));
            value.as_ref().map(Selector::from_value).transpose()
        };
        Ok(Self {
            resource: compile(filter.and_then(|filter| filter.resource.as_ref()))?,
            namespace: compile(filter.and_then(|filter| filter.namespace.as_ref()))?,
        })
    }

    /// Whether the filter needs the labels of the namespace.
    pub fn needs_namespace(&self) -> bool {
        self.namespace.is_some()
    }

    /// Whether the object is synchronized. A cluster-scoped object has no namespace labels.
    pub fn matches(&self, object: &Object, namespace: Option<&Object>) -> bool {
        let matches = |selector: &Option<Selector>, of| {
            let selector = selector.as_ref();
            selector.is_none_or(|selector| are_matched(selector, of))
        };
        matches(&self.resource, Some(object)) && matches(&self.namespace, namespace)
    }

    /// Whether each selector matches.
    pub fn results(&self, object: &Object, namespace: Option<&Object>) -> Vec<FilterResult> {
        let of = |(field, selector, of): (_, &Option<Selector>, Option<&Object>)| {
            let selector = selector.as_ref()?;
            Some(FilterResult {
                field,
                selector: selector.to_string(),
                matches: are_matched(selector, of),
            })
        };
        let all = [
            ("spec.filter.resource", &self.resource, Some(object)),
            (NAMESPACE_FILTER, &self.namespace, namespace),
        ];
        all.into_iter().filter_map(of).collect()
    }
}

fn are_matched(selector: &Selector, of: Option<&Object>) -> bool {
    let labels: Vec<_> = of.into_iter().flat_map(Object::labels).collect();
    selector.matches(labels.iter().copied())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn labelled(labels: &Value) -> Object {
        Object::new(json!({
            "apiVersion": "v1", "kind": "X", "metadata": { "name": "x", "labels": labels },
        }))
        .unwrap()
    }

    #[track_caller]
    fn check(filter: Value, want: bool) {
        let filter: Option<Filter> = serde_json::from_value(filter).unwrap();
        let filters = Filters::compile(filter.as_ref()).unwrap();
        let object = labelled(&json!({ "a": "1" }));
        let namespace = labelled(&json!({ "b": "2" }));
        assert_eq!(filters.matches(&object, Some(&namespace)), want);
    }

    #[test]
    fn both_selectors_must_match_and_absent_or_empty_ones_do() {
        let a = json!({ "matchLabels": { "a": "1" } });
        let b = json!({ "matchLabels": { "b": "2" } });
        check(json!(null), true);
        check(json!({}), true);
        check(json!({ "resource": {}, "namespace": {} }), true);
        check(json!({ "resource": a, "namespace": b }), true);
        check(json!({ "resource": b }), false);
        check(json!({ "resource": a, "namespace": a }), false);
        let lacks =
            json!({ "matchExpressions": [{ "key": "z", "operator": "NotIn", "values": ["q"] }] });
        check(json!({ "resource": lacks }), true);
    }

    #[test]
    fn an_empty_namespace_selector_still_asks_for_the_namespace() {
        let filter: Filter = serde_json::from_value(json!({ "namespace": {} })).unwrap();
        assert!(Filters::compile(Some(&filter)).unwrap().needs_namespace());
        assert!(!Filters::compile(None).unwrap().needs_namespace());
    }
}
