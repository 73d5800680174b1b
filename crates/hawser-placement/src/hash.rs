//! Hashes of policies, resources and overrides, equal to KubeFleet's: a different hash would cause new snapshots when
//! Hawser replaces KubeFleet's hub agent.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use kube_lang::go_json;

use crate::types::policy::PlacementPolicy;

/// The hash of a policy, without the number of clusters. It is stored as the bytes of this text.
pub fn policy_hash(policy: Option<&PlacementPolicy>) -> String {
    let policy = policy.map(|policy| PlacementPolicy {
        number_of_clusters: None,
        ..policy.clone()
    });
    hash_of(&policy)
}

/// The hash of selected resources, in their order, and the bytes of the JSON of each.
pub fn resource_hash(resources: &[Value]) -> (String, Vec<usize>) {
    let mut text = "{\"selectedResources\":[".to_owned();
    let mut sizes = Vec::with_capacity(resources.len());
    for (index, resource) in resources.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        let json = go_json::to_string(resource);
        sizes.push(json.len());
        text.push_str(&json);
    }
    text.push_str("]}");
    (hex(&text), sizes)
}

/// The hash of a value whose fields have the order of the original's structs.
pub fn hash_of<T: Serialize>(value: &T) -> String {
    let text = serde_json::to_string(value).expect("a type of the API is made of JSON values");
    hex(&go_json::compact(&text))
}

fn hex(text: &str) -> String {
    let digest = Sha256::digest(text);
    hex_digits(&digest)
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex_digits(bytes: &[u8]) -> String {
    let mut out = String::new();
    for byte in bytes {
        write!(out, "{byte:02x}").expect("writing to a String does not fail");
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_policy_of_the_seed_has_the_hash_of_the_seed() {
        let policy = json!({"placementType": "PickN", "numberOfClusters": 2});
        let policy: PlacementPolicy = serde_json::from_value(policy).unwrap();
        assert_eq!(
            policy_hash(Some(&policy)),
            "479f405eb7808cfc58366b2648680a3a815ef914fe6756ae8df0d6f74885416a"
        );
    }

    #[test]
    fn the_resources_of_the_seed_have_the_hash_of_the_seed() {
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"labels": {"kubernetes.io/metadata.name": "test"}, "name": "test"},
            "spec": {"finalizers": ["kubernetes"]},
        });
        let config_map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "data": {"key1": "value1", "key2": "value2", "key3": "value3"},
            "metadata": {"name": "test-1", "namespace": "test"},
        });
        assert_eq!(
            resource_hash(&[namespace, config_map]).0,
            "e0927e7d75c7f52542a6d4299855995018f4a6de46edf0f814cfaa6e806543f3"
        );
    }

    #[test]
    fn no_policy_hashes_as_null() {
        assert_eq!(policy_hash(None), hex("null"));
    }

    #[test]
    fn fields_stand_in_the_order_of_the_original() {
        let policy = json!({
            "tolerations": [{"effect": "NoSchedule", "value": "<v>", "operator": "Equal", "key": "k"}],
            "topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule", "topologyKey": "t", "maxSkew": 1}],
            "affinity": {"clusterAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{
                    "preference": {"propertySorter": {"sortOrder": "Ascending", "name": "p"}}, "weight": 3,
                }],
                "requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": [{
                    "propertySelector": {"matchExpressions": [{"values": ["1"], "operator": "Gt", "name": "n"}]},
                    "labelSelector": {"matchExpressions": [{"values": ["w"], "operator": "In", "key": "k"}],
                                      "matchLabels": {"b": "2", "a": "1"}},
                }]},
            }},
            "placementType": "PickN",
        });
        let policy: PlacementPolicy = serde_json::from_value(policy).unwrap();
        let text = concat!(
            r#"{"placementType":"PickN","affinity":{"clusterAffinity":{"#,
            r#""requiredDuringSchedulingIgnoredDuringExecution":{"clusterSelectorTerms":[{"labelSelector":"#,
            r#"{"matchLabels":{"a":"1","b":"2"},"matchExpressions":[{"key":"k","operator":"In","values":["w"]}]},"#,
            r#""propertySelector":{"matchExpressions":[{"name":"n","operator":"Gt","values":["1"]}]}}]},"#,
            r#""preferredDuringSchedulingIgnoredDuringExecution":[{"weight":3,"preference":"#,
            r#"{"propertySorter":{"name":"p","sortOrder":"Ascending"}}}]}},"#,
            r#""topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"t","whenUnsatisfiable":"DoNotSchedule"}],"#,
            r#""tolerations":[{"key":"k","operator":"Equal","value":"\u003cv\u003e","effect":"NoSchedule"}]}"#,
        );
        assert_eq!(policy_hash(Some(&policy)), hex(text));
    }
}
