//! The kinds of kcp itself, as embedded documents in the form of an `APIResourceSchema`'s spec. Other modules interpret
//! the schemas.

use serde_json::Value;

/// Served in every logical cluster.
const APIS: &str = include_str!("definitions/apis.yaml");
const CORE: &str = include_str!("definitions/core.yaml");
/// Bound in every workspace by its type.
const TENANCY: &str = include_str!("definitions/tenancy.yaml");
const TOPOLOGY: &str = include_str!("definitions/topology.yaml");
/// Exported by root, and served in clusters that bind the export.
const CACHE: &str = include_str!("definitions/cache.yaml");

/// An embedded document that cannot be parsed: a fault of the build, returned instead of a panic.
#[derive(Debug, thiserror::Error)]
#[error("the embedded definitions of {group} are no list of definitions: {message}")]
pub(crate) struct DefinitionError {
    group: &'static str,
    message: String,
}

/// The definitions of one group of kcp; none for another group.
pub(crate) fn of_group(group: &str) -> Result<Vec<Value>, DefinitionError> {
    match group {
        "apis.kcp.io" => read("apis.kcp.io", APIS),
        "core.kcp.io" => read("core.kcp.io", CORE),
        "tenancy.kcp.io" => read("tenancy.kcp.io", TENANCY),
        "topology.kcp.io" => read("topology.kcp.io", TOPOLOGY),
        "cache.kcp.io" => read("cache.kcp.io", CACHE),
        _ => Ok(Vec::new()),
    }
}

fn read(group: &'static str, text: &str) -> Result<Vec<Value>, DefinitionError> {
    serde_saphyr::from_str(text).map_err(|error| DefinitionError {
        group,
        message: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(group: &str, plurals: &[&str]) {
        let found = of_group(group).unwrap();
        let names: Vec<_> = found
            .iter()
            .map(|d| d["names"]["plural"].as_str().unwrap())
            .collect();
        assert_eq!(names, plurals);
        for definition in &found {
            assert_eq!(definition["group"], group);
            let versions = definition["versions"].as_array().unwrap();
            let stored = versions.iter().filter(|v| v["storage"] == true).count();
            assert_eq!(stored, 1, "{}", definition["names"]["plural"]);
            assert!(versions.iter().all(|v| v["schema"]["type"] == "object"));
        }
    }

    #[test]
    fn every_group_of_kcp_has_its_kinds_with_one_stored_version_each() {
        check(
            "apis.kcp.io",
            &[
                "apiresourceschemas",
                "apiexports",
                "apibindings",
                "apiexportendpointslices",
                "apiconversions",
            ],
        );
        check("core.kcp.io", &["logicalclusters", "shards"]);
        check(
            "tenancy.kcp.io",
            &[
                "workspaces",
                "workspacetypes",
                "workspaceauthenticationconfigurations",
            ],
        );
        check("topology.kcp.io", &["partitions", "partitionsets"]);
        check("cache.kcp.io", &["cachedresources"]);
        check("example.com", &[]);
    }

    #[test]
    fn a_fragment_written_once_is_there_wherever_it_is_named() {
        let apis = of_group("apis.kcp.io").unwrap();
        let status = |kind: usize, version: usize| {
            &apis[kind]["versions"][version]["schema"]["properties"]["status"]["properties"]
        };
        assert_eq!(status(1, 0)["conditions"], status(2, 1)["conditions"]);
        assert_eq!(
            status(1, 0)["conditions"]["items"]["required"][2],
            Value::from("type")
        );
    }
}
