//! The discovery documents, and the kinds in them.

use serde::Deserialize;
use serde_json::Value;

/// A served kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kind {
    pub group: String,
    pub kind: String,
    pub plural: String,
    /// Empty if the server does not say it.
    pub singular: String,
    pub namespaced: bool,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    /// In the order of the server.
    pub versions: Vec<KindVersion>,
    /// The version that the server prefers among those that have the kind.
    pub preferred: String,
    /// Versions of the group that did not respond: the kind may be in them too.
    pub unknown_versions: Vec<String>,
}

/// One version, with the subresources that it serves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KindVersion {
    pub name: String,
    pub status: bool,
    pub scale: bool,
}

/// A group, from the responses of its versions.
#[derive(Clone, Debug, Default)]
pub(super) struct Group {
    name: String,
    preferred: String,
    versions: Vec<(String, Vec<Resource>)>,
    /// Versions that did not respond, and why.
    pub(super) failures: Vec<(String, String)>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Resource {
    name: String,
    #[serde(default)]
    singular_name: String,
    #[serde(default)]
    namespaced: bool,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    short_names: Option<Vec<String>>,
    #[serde(default)]
    categories: Option<Vec<String>>,
}

/// The versions of a group, and the preferred one.
pub(super) fn versions(document: &Value) -> (Vec<String>, String) {
    let text = |value: &Value| value["version"].as_str().map(str::to_owned);
    let listed = document["versions"].as_array();
    let versions: Vec<String> = listed.into_iter().flatten().filter_map(text).collect();
    let preferred = text(&document["preferredVersion"]).or_else(|| versions.first().cloned());
    (versions, preferred.unwrap_or_default())
}

impl Group {
    pub(super) fn new(name: &str, preferred: String) -> Self {
        Self {
            name: name.to_owned(),
            preferred,
            ..Self::default()
        }
    }

    pub(super) fn add(&mut self, version: String, document: &Value) -> Result<(), String> {
        let resources = Vec::deserialize(&document["resources"]);
        let resources = resources.map_err(|error| error.to_string())?;
        self.versions.push((version, resources));
        Ok(())
    }

    pub(super) fn kind(&self, kind: &str) -> Option<Kind> {
        let named = |resource: &&Resource| !resource.is_part() && resource.kind == kind;
        let found = self
            .in_order_of_preference()
            .find_map(|(_, list)| list.iter().find(named))?;
        Some(self.describe(found))
    }

    pub(super) fn resource(&self, version: &str, plural: &str) -> Option<Kind> {
        let (_, list) = self.versions.iter().find(|(name, _)| name == version)?;
        let found = list.iter().find(|resource| resource.name == plural)?;
        (!found.is_part()).then(|| self.describe(found))
    }

    fn in_order_of_preference(&self) -> impl Iterator<Item = &(String, Vec<Resource>)> {
        let preferred = |version: &&(String, _)| version.0 == self.preferred;
        let first = self.versions.iter().filter(preferred);
        first.chain(self.versions.iter().filter(move |v| !preferred(v)))
    }

    fn describe(&self, resource: &Resource) -> Kind {
        let is_it = |other: &Resource| other.name == resource.name && other.kind == resource.kind;
        let having = |(_, list): &&(String, Vec<Resource>)| list.iter().any(is_it);
        let preferred = self.in_order_of_preference().find(having);
        let versions = self.versions.iter().filter(having).map(|(name, list)| {
            // A part of another kind, such as a Scale, is nothing that travels with the object.
            let part = |part: &str| {
                list.iter().any(|other| {
                    let name = other.name.strip_prefix(&*resource.name);
                    name.and_then(|n| n.strip_prefix('/')) == Some(part)
                        && other.kind == resource.kind
                })
            };
            KindVersion {
                name: name.clone(),
                status: part("status"),
                scale: part("scale"),
            }
        });
        let unknown = self.failures.iter().map(|(version, _)| version.clone());
        Kind {
            group: self.name.clone(),
            kind: resource.kind.clone(),
            plural: resource.name.clone(),
            singular: resource.singular_name.clone(),
            namespaced: resource.namespaced,
            short_names: resource.short_names.clone().unwrap_or_default(),
            categories: resource.categories.clone().unwrap_or_default(),
            versions: versions.collect(),
            preferred: preferred.map(|(name, _)| name.clone()).unwrap_or_default(),
            unknown_versions: unknown.collect(),
        }
    }
}

impl Resource {
    /// `deployments/status`: a subresource.
    fn is_part(&self) -> bool {
        self.name.contains('/')
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn resource(name: &str, kind: &str) -> Value {
        json!({"name": name, "singularName": "", "namespaced": true, "kind": kind, "verbs": ["get"]})
    }

    fn group(preferred: &str, versions: &[(&str, Value)]) -> Group {
        let mut group = Group::new("a.org", preferred.to_owned());
        for (name, resources) in versions {
            let list = json!({"resources": resources});
            group.add((*name).to_owned(), &list).unwrap();
        }
        group
    }

    #[track_caller]
    fn check(group: &Group, kind: &str, plural: &str, preferred: &str, versions: &[&str]) {
        let found = group.kind(kind).unwrap();
        let said: Vec<String> = found
            .versions
            .iter()
            .map(|version| {
                let status = if version.status { "+status" } else { "" };
                let scale = if version.scale { "+scale" } else { "" };
                format!("{}{status}{scale}", version.name)
            })
            .collect();
        assert_eq!(
            (found.plural.as_str(), found.preferred.as_str()),
            (plural, preferred)
        );
        assert_eq!(said, versions);
    }

    #[test]
    fn a_kind_has_the_versions_that_list_it_and_only_its_own_parts() {
        let group = group(
            "v1",
            &[
                (
                    "v1",
                    json!([
                        resource("things/status", "Thing"),
                        resource("things/scale", "Scale"),
                        resource("things", "Thing"),
                        resource("thingsets/status", "ThingSet"),
                    ]),
                ),
                (
                    "v1beta1",
                    json!([resource("things", "Thing"), resource("olds", "Old")]),
                ),
            ],
        );
        check(&group, "Thing", "things", "v1", &["v1+status", "v1beta1"]);
        check(&group, "Old", "olds", "v1beta1", &["v1beta1"]);
        assert_eq!(group.kind("Scale"), None, "that is a part of something");
        assert_eq!(group.kind("ThingSet"), None, "only its status is listed");
    }

    #[test]
    fn the_preferred_version_is_asked_first_wherever_it_stands() {
        let group = group(
            "v2",
            &[
                ("v1", json!([resource("oldthings", "Thing")])),
                ("v2", json!([resource("things", "Thing")])),
            ],
        );
        check(&group, "Thing", "things", "v2", &["v2"]);
    }

    #[test]
    fn a_resource_is_found_by_version_and_plural() {
        let group = group(
            "v1",
            &[(
                "v1",
                json!([
                    resource("things", "Thing"),
                    resource("things/status", "Thing")
                ]),
            )],
        );
        assert_eq!(group.resource("v1", "things").unwrap().kind, "Thing");
        assert_eq!(group.resource("v2", "things"), None);
        assert_eq!(group.resource("v1", "things/status"), None);
    }

    #[test]
    fn lists_may_be_null_and_a_document_that_is_none_is_told() {
        let mut group = Group::default();
        let entry = json!({"name": "a", "kind": "A", "namespaced": false, "shortNames": null});
        assert_eq!(
            group.add("v1".into(), &json!({"resources": [entry]})),
            Ok(())
        );
        assert!(group.add("v1".into(), &json!({"items": []})).is_err());
    }

    #[test]
    fn a_group_says_its_versions_and_the_preferred_one() {
        let version =
            |name: &str| json!({"groupVersion": format!("a.org/{name}"), "version": name});
        let document =
            json!({"versions": [version("v1"), version("v2")], "preferredVersion": version("v2")});
        assert_eq!(
            versions(&document),
            (vec!["v1".into(), "v2".into()], "v2".into())
        );
        let document = json!({"versions": [version("v1")]});
        assert_eq!(versions(&document).1, "v1");
    }
}
