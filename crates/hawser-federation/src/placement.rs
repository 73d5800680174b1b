//! Placement: the members that a federated object selects.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use kube_lang::object::{Object, json_type};
use kube_lang::selector::{Selector, SelectorError};

/// Why nothing but the metadata of an object is known.
pub(crate) const TOO_DEEP: &str =
    "the object is nested more than 127 levels deep and cannot be read: nest it less deeply";

/// The labels of all registered members, ready or not, by name.
pub type Members = BTreeMap<String, BTreeMap<String, String>>;

/// The limits of an object's own placement.
#[derive(Clone, Copy, Debug)]
pub enum PlacementLimits<'a> {
    /// Nothing: the target is cluster-scoped.
    Nothing,
    /// The `FederatedNamespace` of the object's namespace, if it exists, under a control plane of this scope.
    Namespace(Option<&'a Object>, Scope),
}

/// The scope of the control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Cluster,
    Namespaced,
}

/// The selected members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    pub members: BTreeSet<String>,
    /// Names in the object's own list that are not registered.
    pub unknown: BTreeSet<String>,
    /// Whether no member is selected because the namespace is not federated.
    pub namespace_not_federated: bool,
}

/// An invalid placement. Nothing is created or deleted because of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    #[error("{}", selector_text(.0))]
    Selector(SelectorError),
    #[error("{TOO_DEEP}")]
    Unreadable,
    #[error("FederatedNamespace: {TOO_DEEP}")]
    UnreadableNamespace,
    #[error("{field} must be {expected}, found {found}")]
    Shape {
        field: &'static str,
        expected: &'static str,
        found: &'static str,
    },
}

fn selector_text(error: &SelectorError) -> String {
    match error {
        SelectorError::Operator { operator } => {
            let operator = kube_lang::go_text::quote(operator);
            format!("{operator} is not a valid pod selector operator")
        }
        other => other.to_string(),
    }
}

/// The members that `object` selects.
pub fn placement(
    object: &Object,
    members: &Members,
    around: PlacementLimits<'_>,
) -> Result<Placement, PlacementError> {
    let own = match own(object, members) {
        // Its copies may be anywhere.
        Err(PlacementError::Unreadable) if object.in_deletion() => {
            members.keys().cloned().collect()
        }
        own => own?,
    };
    let listed = placement_field(object, "clusters")?.and_then(Value::as_array);
    let names = listed.into_iter().flatten();
    let names = names.filter_map(|entry| entry["name"].as_str());
    let unknown = names.filter(|name| !members.contains_key(*name));
    let unknown = unknown.map(str::to_owned).collect();
    let (members, namespace_not_federated) = match around {
        PlacementLimits::Nothing | PlacementLimits::Namespace(None, Scope::Namespaced) => {
            (own, false)
        }
        PlacementLimits::Namespace(None, Scope::Cluster) => (BTreeSet::new(), true),
        PlacementLimits::Namespace(Some(namespace), _) => match self::own(namespace, members) {
            Err(PlacementError::Unreadable) if object.in_deletion() => (own, false),
            Err(PlacementError::Unreadable) => return Err(PlacementError::UnreadableNamespace),
            there => (own.intersection(&there?).cloned().collect(), false),
        },
    };
    Ok(Placement {
        members,
        unknown,
        namespace_not_federated,
    })
}

/// The members that the cluster selector of `object` selects, regardless of its list of clusters: the candidates of a
/// `ReplicaSchedulingPreference` with `intersectWithClusterSelector`.
pub fn selected(object: &Object, members: &Members) -> Result<BTreeSet<String>, PlacementError> {
    if object.is_fragment() {
        return Err(PlacementError::Unreadable);
    }
    let selector = placement_field(object, "clusterSelector")?;
    by_selector(selector.unwrap_or(&Value::Null), members)
}

/// The members that `spec.placement` selects.
fn own(object: &Object, members: &Members) -> Result<BTreeSet<String>, PlacementError> {
    match placement_field(object, "clusters")? {
        None => selected(object, members),
        Some(Value::Array(list)) => {
            let names = list.iter().map(|entry| {
                let name = entry.get("name").unwrap_or(&Value::Null);
                name.as_str().ok_or(PlacementError::Shape {
                    field: "spec.placement.clusters[].name",
                    expected: "a string",
                    found: json_type(name),
                })
            });
            let names: BTreeSet<&str> = names.collect::<Result<_, _>>()?;
            let known = members.keys().filter(|name| names.contains(&***name));
            Ok(known.cloned().collect())
        }
        Some(other) => Err(PlacementError::Shape {
            field: "spec.placement.clusters",
            expected: "a list",
            found: json_type(other),
        }),
    }
}

fn by_selector(selector: &Value, members: &Members) -> Result<BTreeSet<String>, PlacementError> {
    let selector = Selector::from_value(selector).map_err(PlacementError::Selector)?;
    let fits = members.iter().filter(|(_, labels)| {
        selector.matches(labels.iter().map(|(key, value)| (&**key, &**value)))
    });
    Ok(fits.map(|(name, _)| name.clone()).collect())
}

fn placement_field<'a>(
    object: &'a Object,
    field: &str,
) -> Result<Option<&'a Value>, PlacementError> {
    let spec = object.root().get("spec").unwrap_or(&Value::Null);
    let placement = member_of(spec, "placement", "spec")?;
    let found = member_of(placement, field, "spec.placement")?;
    Ok(Some(found).filter(|value| !value.is_null()))
}

fn member_of<'a>(
    value: &'a Value,
    field: &str,
    path: &'static str,
) -> Result<&'a Value, PlacementError> {
    match value {
        Value::Null => Ok(&Value::Null),
        Value::Object(fields) => Ok(fields.get(field).unwrap_or(&Value::Null)),
        other => Err(PlacementError::Shape {
            field: path,
            expected: "an object",
            found: json_type(other),
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn members() -> Members {
        let labels = |text: &str| {
            let pairs = text
                .split_terminator(',')
                .map(|pair| pair.split_once('=').unwrap());
            pairs.map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
        };
        [("c1", "foo=bar"), ("c2", "foo=baz,zone=a"), ("c3", "")]
            .map(|(name, text)| (name.to_owned(), labels(text)))
            .into()
    }

    fn object(placement: &Value) -> Object {
        Object::new(json!({"spec": {"placement": placement}})).unwrap()
    }

    fn placed(placement: &Value) -> Result<String, String> {
        let got = super::placement(&object(placement), &members(), PlacementLimits::Nothing);
        let got = got.map_err(|error| error.to_string())?;
        Ok(got.members.into_iter().collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn every_form_of_placement_selects_what_the_table_says() {
        let foo = json!({"matchLabels": {"foo": "bar"}});
        let by = |operator: &str, values: Value| json!({"clusterSelector": {"matchExpressions": [{"key": "foo", "operator": operator, "values": values}]}});
        for (placement, wanted) in [
            (json!(null), ""),
            (json!({}), ""),
            (json!({"clusters": null, "clusterSelector": null}), ""),
            (json!({"clusterSelector": {}}), "c1 c2 c3"),
            (json!({"clusterSelector": {"matchLabels": {}}}), "c1 c2 c3"),
            (json!({"clusterSelector": foo}), "c1"),
            (json!({"clusters": null, "clusterSelector": foo}), "c1"),
            (by("In", json!(["bar", "baz"])), "c1 c2"),
            (by("NotIn", json!(["bar"])), "c2 c3"),
            (by("Exists", json!(null)), "c1 c2"),
            (by("DoesNotExist", json!([])), "c3"),
            (json!({"clusters": [], "clusterSelector": foo}), ""),
            (json!({"clusters": []}), ""),
            (
                json!({"clusters": [{"name": "c2"}, {"name": "c1"}], "clusterSelector": foo}),
                "c1 c2",
            ),
            (
                json!({"clusters": [{"name": "c3"}, {"name": "gone"}, {"name": "c3"}]}),
                "c3",
            ),
            (
                json!({"clusters": [{"name": "c3"}], "clusterSelector": {"matchExpressions": [{"key": "a", "operator": "Bogus"}]}}),
                "c3",
            ),
        ] {
            assert_eq!(placed(&placement).as_deref(), Ok(wanted), "{placement}");
        }
        let without = Object::new(json!({"kind": "FederatedSecret"})).unwrap();
        let got = super::placement(&without, &members(), PlacementLimits::Nothing).unwrap();
        assert!(
            got.members.is_empty(),
            "an object without a spec is for nobody"
        );
    }

    #[test]
    fn a_selector_that_means_nothing_is_told() {
        let by = |operator: &str, values: Value| json!({"clusterSelector": {"matchExpressions": [{"key": "foo", "operator": operator, "values": values}]}});
        for (placement, wanted) in [
            (
                by("Bogus", json!([])),
                "\"Bogus\" is not a valid pod selector operator",
            ),
            (
                by("In", json!([])),
                "operator 'in' on key 'foo' needs at least one value",
            ),
            (
                by("NotIn", json!(null)),
                "operator 'notin' on key 'foo' needs at least one value",
            ),
            (
                by("Exists", json!(["a"])),
                "operator 'exists' on key 'foo' needs an empty list of values",
            ),
            (json!([]), "spec.placement must be an object, found a list"),
            (
                json!({"clusters": "c1"}),
                "spec.placement.clusters must be a list, found a string",
            ),
            (
                json!({"clusters": ["c1"]}),
                "spec.placement.clusters[].name must be a string, found null",
            ),
        ] {
            assert_eq!(placed(&placement), Err(wanted.to_owned()), "{placement}");
        }
    }

    #[test]
    fn an_object_in_a_namespace_is_where_its_namespace_is() {
        let all = object(&json!({"clusterSelector": {}}));
        let two = object(&json!({"clusters": [{"name": "c1"}, {"name": "c2"}]}));
        let ask = |object: &Object, namespace: Option<&Object>, scope| {
            placement(
                object,
                &members(),
                PlacementLimits::Namespace(namespace, scope),
            )
            .unwrap()
        };
        let names = |placement: &Placement| placement.members.iter().cloned().collect::<Vec<_>>();
        assert_eq!(names(&ask(&all, Some(&two), Scope::Cluster)), ["c1", "c2"]);
        assert_eq!(
            names(&ask(&two, Some(&all), Scope::Namespaced)),
            ["c1", "c2"]
        );
        let gone = object(&json!({"clusters": [{"name": "c1"}, {"name": "x"}, {"name": "gone"}]}));
        let placed = ask(&gone, Some(&two), Scope::Cluster);
        assert_eq!(names(&placed), ["c1"]);
        assert_eq!(
            placed.unknown.into_iter().collect::<Vec<_>>(),
            ["gone", "x"]
        );
        let nowhere = ask(&all, None, Scope::Cluster);
        assert!(nowhere.members.is_empty() && nowhere.namespace_not_federated);
        let verbatim = ask(&two, None, Scope::Namespaced);
        assert_eq!(names(&verbatim), ["c1", "c2"]);
        assert!(!verbatim.namespace_not_federated);
    }

    #[test]
    fn an_object_that_cannot_be_read_selects_nothing_else_and_waits_for_all_in_deletion() {
        let deep = |deleted: Value| {
            let metadata = json!({"name": "a", "deletionTimestamp": deleted});
            Object::fragment(json!({"metadata": metadata})).unwrap()
        };
        let there = deep(Value::Null);
        let around = |namespace| PlacementLimits::Namespace(Some(namespace), Scope::Cluster);
        let place = |object: &Object, around: PlacementLimits<'_>| {
            placement(object, &members(), around).map(|placed| placed.members.len())
        };
        let unreadable = Err(PlacementError::Unreadable);
        assert_eq!(place(&there, PlacementLimits::Nothing), unreadable);
        assert_eq!(
            selected(&there, &members()),
            Err(PlacementError::Unreadable)
        );
        let mut plain = object(&json!({"clusters": [{"name": "c1"}]}));
        let of_namespace = Err(PlacementError::UnreadableNamespace);
        assert_eq!(place(&plain, around(&there)), of_namespace);
        let going = deep(json!("2026-01-01T00:00:00Z"));
        assert_eq!(place(&going, PlacementLimits::Nothing), Ok(3));
        let time = json!("2026-01-01T00:00:00Z");
        plain
            .metadata_mut()
            .insert("deletionTimestamp".to_owned(), time);
        assert_eq!(place(&plain, around(&there)), Ok(1));
    }

    #[test]
    fn replicas_go_by_the_selector_alone() {
        let object = object(
            &json!({"clusters": [{"name": "c1"}], "clusterSelector": {"matchLabels": {"zone": "a"}}}),
        );
        assert_eq!(
            selected(&object, &members()).unwrap(),
            ["c2".to_owned()].into()
        );
    }
}
