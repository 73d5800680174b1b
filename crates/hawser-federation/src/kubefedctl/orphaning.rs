//! `kubefedctl orphaning-deletion`: whether copies outlive their federated object.

use serde_json::{Value, json};

use kube_lang::object::Object;

use super::shown;
use crate::check::{is_orphaned, is_orphaned_by_default};
use crate::types::type_config::ApiResource;
use crate::types::{ORPHAN, TYPES_GROUP};

/// The requested change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Orphaning {
    Enable,
    Disable,
}

/// A missing argument.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OrphaningError {
    #[error("resource type is required")]
    Type,
    #[error("resource name is required")]
    Name,
}

/// Checks the arguments, type and name.
pub fn check(arguments: &[String]) -> Result<(), OrphaningError> {
    match arguments.len() {
        0 => Err(OrphaningError::Type),
        1 => Err(OrphaningError::Name),
        _ => Ok(()),
    }
}

/// The output of `status`.
pub fn status(object: &Object) -> &'static str {
    if is_orphaned(object) {
        "Enabled"
    } else {
        "Disabled"
    }
}

/// The merge patch for the change; `None` if nothing changes.
pub fn patch(object: &Object, wanted: Orphaning) -> Option<Value> {
    let value = match wanted {
        Orphaning::Enable if object.annotation(ORPHAN) == Some("true") => return None,
        Orphaning::Enable => json!("true"),
        Orphaning::Disable if is_orphaned_by_default(object) => {
            if !is_orphaned(object) {
                return None;
            }
            json!("false")
        }
        Orphaning::Disable if object.annotation(ORPHAN).is_none() => return None,
        Orphaning::Disable => Value::Null,
    };
    Some(json!({"metadata": {"annotations": {ORPHAN: value}}}))
}

/// The warning about a type that does not look federated.
pub fn warning(api: &ApiResource) -> Option<String> {
    let is_federated = api.kind.starts_with("Federated") || api.group == TYPES_GROUP;
    (!is_federated).then(|| {
        let name = shown(api);
        format!("Warning: {name} might not be a federated resource")
    })
}

#[cfg(test)]
mod tests {
    use super::super::resource;
    use super::*;

    fn object(value: &Value) -> Object {
        Object::new(json!({"metadata": {"annotations": {"kubefed.io/orphan": value}}})).unwrap()
    }

    #[test]
    fn copies_stay_by_the_very_word() {
        assert_eq!(status(&object(&json!("true"))), "Enabled");
        for other in [json!("True"), json!("1"), Value::Null] {
            assert_eq!(status(&object(&other)), "Disabled");
        }
    }

    #[test]
    fn nothing_is_written_that_is_so_already() {
        let (on, off) = (object(&json!("true")), object(&Value::Null));
        assert_eq!(patch(&on, Orphaning::Enable), None);
        assert_eq!(patch(&off, Orphaning::Disable), None);
        let annotation =
            |value: Value| Some(json!({"metadata": {"annotations": {"kubefed.io/orphan": value}}}));
        assert_eq!(patch(&off, Orphaning::Enable), annotation(json!("true")));
        assert_eq!(
            patch(&object(&json!("false")), Orphaning::Disable),
            annotation(Value::Null)
        );
    }

    #[test]
    fn copies_of_a_workload_with_preferences_stay_unless_an_annotation_says_otherwise() {
        let workload = |orphan: Value| {
            let preferences = "federation.kubernetes.io/replica-set-preferences";
            let annotations = json!({preferences: "{}", "kubefed.io/orphan": orphan});
            let value =
                json!({"kind": "FederatedDeployment", "metadata": {"annotations": annotations}});
            Object::new(value).unwrap()
        };
        let (plain, off) = (workload(Value::Null), workload(json!("false")));
        assert_eq!([status(&plain), status(&off)], ["Enabled", "Disabled"]);
        let annotation =
            |value: &str| Some(json!({"metadata": {"annotations": {"kubefed.io/orphan": value}}}));
        assert_eq!(patch(&plain, Orphaning::Enable), annotation("true"));
        assert_eq!(patch(&plain, Orphaning::Disable), annotation("false"));
        assert_eq!(patch(&off, Orphaning::Disable), None);
        assert_eq!(patch(&off, Orphaning::Enable), annotation("true"));
    }

    #[test]
    fn arguments_and_types_are_checked() {
        let one = ["x".to_owned()];
        assert_eq!(
            check(&[]).unwrap_err().to_string(),
            "resource type is required"
        );
        assert_eq!(
            check(&one).unwrap_err().to_string(),
            "resource name is required"
        );
        assert!(check(&["x".to_owned(), "y".to_owned()]).is_ok());
        let plain = resource("", "v1", "ConfigMap", "configmaps", &[]);
        assert_eq!(
            warning(&plain.api).as_deref(),
            Some("Warning: configmaps/v1 might not be a federated resource")
        );
        let federated = resource(
            "types.kubefed.io",
            "v1beta1",
            "FederatedJob",
            "federatedjobs",
            &[],
        );
        assert_eq!(warning(&federated.api), None);
    }
}
