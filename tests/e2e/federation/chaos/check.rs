//! Whether a federation is as the contract says.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::super::world::MEMBER_NAMES;
use super::wishes::{MANAGED, MEMBERS, NAMESPACES, Of, Wanted, Wish};
use super::{Life, all, data, kind, namespace_name, object_name, path, path_of_namespace};
use crate::agent::plane::Kind;
use crate::chaos::name_of;

impl Life {
    pub(super) async fn check_all(&self, wanted: &Wanted) -> Result<()> {
        for namespace in 0..NAMESPACES {
            for of in [Of::Map, Of::Secret] {
                let found = self.host.list(&all((namespace, of, 0))).await?;
                let found: BTreeSet<String> = found.iter().map(name_of).collect();
                let expected = wanted.objects.keys();
                let expected = expected.filter(|at| at.0 == namespace && at.1 == of);
                let expected: BTreeSet<String> = expected.map(|at| object_name(at.2)).collect();
                ensure!(
                    found == expected,
                    "the host has {found:?} in namespace {namespace}, not {expected:?}"
                );
            }
            let found = self.host.find(&path_of_namespace(namespace)).await?;
            let is_wanted = wanted.namespaces.contains_key(&namespace);
            ensure!(
                found.is_some() == is_wanted,
                "the namespace {namespace} is federated: {found:#?}"
            );
        }
        self.check_members(wanted).await?;
        for (at, wish) in &wanted.objects {
            let members = wanted.members(*at, wish);
            let members = members.into_iter().map(|one| (one, wish.is_unfit(one)));
            let members: Vec<(usize, bool)> = members.collect();
            let is_around = wanted.namespaces.contains_key(&at.0);
            self.check_status(&path(*at), &members, is_around).await?;
        }
        for (number, place) in &wanted.namespaces {
            let on = (0..MEMBERS).filter(|member| wanted.selects(place, *member));
            let on: Vec<(usize, bool)> = on.map(|member| (member, false)).collect();
            self.check_status(&path_of_namespace(*number), &on, true)
                .await?;
        }
        self.check_versions(wanted).await
    }

    /// What the host says of a federated object: that it is where it should be.
    async fn check_status(
        &self,
        path: &str,
        members: &[(usize, bool)],
        is_around: bool,
    ) -> Result<()> {
        let found = self.host.get(path).await?;
        let (metadata, status) = (&found["metadata"], &found["status"]);
        ensure!(
            metadata["deletionTimestamp"].is_null(),
            "{path} is in deletion"
        );
        ensure!(
            metadata["finalizers"] == json!(["kubefed.io/sync-controller"]),
            "{path} has {}",
            metadata["finalizers"]
        );
        let condition = &status["conditions"][0];
        let (is, reason) = if !is_around {
            ("False", "NamespaceNotFederated".into())
        } else if members.iter().any(|(_, is_unfit)| *is_unfit) {
            ("False", "CheckClusters".into())
        } else {
            ("True", Value::Null)
        };
        ensure!(
            condition["type"] == "Propagation"
                && condition["status"] == is
                && condition["reason"] == reason
                && status["observedGeneration"] == metadata["generation"],
            "{path} says {status:#}"
        );
        let clusters = status["clusters"].as_array().into_iter().flatten();
        let clusters: BTreeSet<[&str; 2]> = clusters
            .map(|one| ["name", "status"].map(|field| one[field].as_str().unwrap_or_default()))
            .collect();
        let expected = members.iter().map(|(number, is_unfit)| {
            let status = if *is_unfit {
                "ApplyOverridesFailed"
            } else {
                ""
            };
            [MEMBER_NAMES[*number], status]
        });
        let expected: BTreeSet<[&str; 2]> = expected.collect();
        ensure!(clusters == expected, "{path} is in {status:#}");
        Ok(())
    }

    /// The copies of all objects in the members.
    async fn check_members(&self, wanted: &Wanted) -> Result<()> {
        for (number, member) in self.members.iter().enumerate() {
            for namespace in 0..NAMESPACES {
                let place = wanted.namespaces.get(&namespace);
                let is_wanted = place.is_some_and(|place| wanted.selects(place, number));
                let path = format!("/api/v1/namespaces/{}", namespace_name(namespace));
                let found = member.find(&path).await?.unwrap_or_default();
                let is_managed = found["metadata"]["labels"][MANAGED] == "true";
                let is_going = !found["metadata"]["deletionTimestamp"].is_null();
                ensure!(
                    is_managed == is_wanted && !is_going,
                    "{path} in member {number}, wanted: {is_wanted}: {found:#}"
                );
            }
            for of in [Of::Map, Of::Secret] {
                let selector = "labelSelector=kubefed.io%2Fmanaged%3Dtrue";
                let managed = format!("{}?{selector}", kind(of).everywhere());
                let managed = member.list(&managed).await?;
                let mut managed: BTreeMap<(String, String), &Value> = managed
                    .iter()
                    .map(|copy| {
                        let namespace = copy["metadata"]["namespace"].as_str();
                        (
                            (namespace.unwrap_or_default().to_owned(), name_of(copy)),
                            copy,
                        )
                    })
                    .collect();
                let mut expected: BTreeMap<_, &Wish> = BTreeMap::new();
                for (at, wish) in &wanted.objects {
                    if at.1 == of && wanted.members(*at, wish).contains(&number) {
                        let key = (namespace_name(at.0), object_name(at.2));
                        expected.insert(key, wish);
                    }
                }
                // What is unfit may be there as it was before.
                expected.retain(|key, wish| {
                    let is_unfit = wish.is_unfit(number);
                    if is_unfit {
                        managed.remove(key);
                    }
                    !is_unfit
                });
                ensure!(
                    managed.keys().eq(expected.keys()),
                    "member {number} has {:?}, not {:?}",
                    managed.keys(),
                    expected.keys()
                );
                for (key, wish) in expected {
                    let copy = managed[&key];
                    let value = wish.overrides[number].unwrap_or(wish.value);
                    let labels = if wish.overrides[number].is_some() {
                        json!({MANAGED: "true", "overridden": "yes"})
                    } else {
                        json!({MANAGED: "true", "color": "red"})
                    };
                    ensure!(
                        copy["data"] == json!({"k": data(of, value)})
                            && copy["metadata"]["labels"] == labels
                            && copy["metadata"]["deletionTimestamp"].is_null(),
                        "{key:?} in member {number} is {copy:#}, not {wish:?}"
                    );
                }
            }
        }
        Ok(())
    }

    /// No versions are left of objects that are gone. A record that could not be written costs nothing but a write later.
    async fn check_versions(&self, wanted: &Wanted) -> Result<()> {
        let kind = Kind::new(
            "core.kubefed.io",
            "v1alpha1",
            "propagatedversions",
            "PropagatedVersion",
        );
        for number in 0..NAMESPACES {
            let all = self
                .host
                .list(&kind.within(&namespace_name(number)))
                .await?;
            let objects = wanted.objects.keys().filter(|at| at.0 == number);
            let objects = objects.map(|at| format!("{}-{}", kind_name(at.1), object_name(at.2)));
            let namespace = wanted.namespaces.get(&number);
            let namespace = namespace.map(|_| format!("namespace-{}", namespace_name(number)));
            let expected: BTreeSet<String> = objects.chain(namespace).collect();
            let recorded: BTreeSet<String> = all.iter().map(name_of).collect();
            ensure!(
                recorded.is_subset(&expected),
                "versions of {recorded:?} are recorded, there are {expected:?}"
            );
        }
        Ok(())
    }
}

fn kind_name(of: Of) -> &'static str {
    match of {
        Of::Map => "configmap",
        Of::Secret => "secret",
    }
}
