//! The defaults that the webhook fills in, besides those of the definitions.

use serde_json::{Map, Value, json};

/// Fills in the spec of a placement of the cluster scope.
pub(super) fn complete(spec: &mut Value) {
    let Value::Object(spec) = spec else {
        return;
    };
    let policy = inner(spec, "policy");
    fill(policy, "placementType", "PickAll".into());
    for constraint in items(policy, "topologySpreadConstraints") {
        fill(constraint, "maxSkew", 1.into());
        fill(constraint, "whenUnsatisfiable", "DoNotSchedule".into());
    }
    for toleration in items(policy, "tolerations") {
        fill(toleration, "operator", "Equal".into());
    }
    let strategy = inner(spec, "strategy");
    fill(strategy, "type", "RollingUpdate".into());
    if strategy["type"] == "RollingUpdate" {
        let update = inner(strategy, "rollingUpdate");
        fill(update, "maxUnavailable", "25%".into());
        fill(update, "maxSurge", "25%".into());
        fill(update, "unavailablePeriodSeconds", 60.into());
    }
    let apply = inner(strategy, "applyStrategy");
    fill(apply, "type", "ClientSideApply".into());
    fill(apply, "comparisonOption", "PartialComparison".into());
    fill(apply, "whenToApply", "Always".into());
    fill(apply, "whenToTakeOver", "Always".into());
    if apply["type"] == "ServerSideApply" {
        fill(apply, "serverSideApplyConfig", json!({"force": false}));
    }
    fill(spec, "revisionHistoryLimit", 10.into());
}

fn fill(fields: &mut Map<String, Value>, field: &str, value: Value) {
    let known = fields.entry(field).or_insert(Value::Null);
    if known.is_null() {
        *known = value;
    }
}

/// The fields of a field, which is there afterwards.
fn inner<'a>(fields: &'a mut Map<String, Value>, field: &str) -> &'a mut Map<String, Value> {
    let known = fields.entry(field).or_insert(Value::Null);
    if !known.is_object() {
        // The definition admits nothing but an object.
        *known = json!({});
    }
    known.as_object_mut().expect("it was made an object")
}

fn items<'a>(
    fields: &'a mut Map<String, Value>,
    field: &str,
) -> impl Iterator<Item = &'a mut Map<String, Value>> {
    let items = fields.get_mut(field).and_then(Value::as_array_mut);
    items.into_iter().flatten().filter_map(Value::as_object_mut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_said_is_filled_in_and_what_is_said_stays() {
        let selectors = json!([{"group": "", "version": "v1", "kind": "Namespace", "name": "app"}]);
        let mut plain = json!({"resourceSelectors": selectors});
        complete(&mut plain);
        assert_eq!(
            plain,
            json!({
                "resourceSelectors": selectors,
                "policy": {"placementType": "PickAll"},
                "strategy": {
                    "type": "RollingUpdate",
                    "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%", "unavailablePeriodSeconds": 60},
                    "applyStrategy": {"type": "ClientSideApply", "comparisonOption": "PartialComparison",
                                      "whenToApply": "Always", "whenToTakeOver": "Always"},
                },
                "revisionHistoryLimit": 10,
            })
        );
        let again = plain.clone();
        complete(&mut plain);
        assert_eq!(plain, again);
        let said = json!({
            "policy": {"placementType": "PickN", "numberOfClusters": 2,
                       "topologySpreadConstraints": [{"topologyKey": "env"}],
                       "tolerations": [{"key": "a"}, {"key": "b", "operator": "Exists"}]},
            "strategy": {"type": "External", "applyStrategy": {"type": "ServerSideApply"}},
            "revisionHistoryLimit": 100,
        });
        let mut filled = said.clone();
        complete(&mut filled);
        assert_eq!(
            filled["policy"]["topologySpreadConstraints"][0],
            json!({"topologyKey": "env", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"})
        );
        assert_eq!(filled["policy"]["tolerations"][0]["operator"], "Equal");
        assert_eq!(filled["policy"]["tolerations"][1]["operator"], "Exists");
        // The definitions refuse the pace of a rollout that others control.
        assert!(filled["strategy"].get("rollingUpdate").is_none());
        assert_eq!(
            filled["strategy"]["applyStrategy"]["serverSideApplyConfig"],
            json!({"force": false})
        );
        assert_eq!(filled["revisionHistoryLimit"], 100);
        let mut unreadable = json!(["not", "an", "object"]);
        complete(&mut unreadable);
        assert_eq!(unreadable, json!(["not", "an", "object"]));
    }
}
