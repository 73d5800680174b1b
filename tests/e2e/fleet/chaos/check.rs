//! Whether a fleet is as the contract says.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use super::wishes::{MEMBERS, Of, PLACEMENT, PLACEMENTS, Wanted};
use super::{
    Life, TAKEN, all, condition, kind, member_name, namespace_name, namespace_path, placement_path,
    text,
};
use crate::chaos::name_of;

impl Life {
    /// The members of a placement as its status says, after a look at the status itself.
    pub(super) async fn check_placement(
        &self,
        wanted: &Wanted,
        number: usize,
    ) -> Result<BTreeSet<usize>> {
        let placement = self.hub.get(&placement_path(number)).await?;
        let placed = &wanted.placements[&number];
        let (metadata, status) = (&placement["metadata"], &placement["status"]);
        ensure!(
            metadata["deletionTimestamp"].is_null(),
            "p{number} is in deletion"
        );
        let all = status["placementStatuses"].as_array();
        let named = all.into_iter().flatten();
        let named: Vec<&Value> = named.filter(|one| one["clusterName"].is_string()).collect();
        let mut picked = BTreeSet::new();
        for one in &named {
            let name = one["clusterName"].as_str().unwrap_or_default();
            let member = (0..MEMBERS).find(|member| member_name(*member) == name);
            picked.insert(member.with_context(|| format!("p{number} is on {name}"))?);
            ensure!(
                one["observedResourceIndex"] == status["observedResourceIndex"],
                "p{number} is on its way: {status:#}"
            );
        }
        let is_fulfilled = wanted
            .check_picked(placed, &picked)
            .with_context(|| format!("p{number}: {status:#}"))?;
        for which in [
            "Scheduled",
            "RolloutStarted",
            "Overridden",
            "WorkSynchronized",
            "Applied",
            "Available",
        ] {
            let said = condition(status, &format!("ClusterResourcePlacement{which}"));
            let expected = if which == "Scheduled" {
                if is_fulfilled {
                    "True".into()
                } else {
                    "False".into()
                }
            } else if picked.is_empty() {
                Value::Null
            } else {
                "True".into()
            };
            ensure!(
                said["status"] == expected
                    && (expected.is_null() || said["observedGeneration"] == metadata["generation"]),
                "p{number} should be {which} {expected}: {status:#}"
            );
            for one in &named {
                ensure!(
                    condition(one, which)["status"] == "True",
                    "p{number} is not {which} on {one:#}"
                );
            }
        }
        let selected = status["selectedResources"].as_array().into_iter().flatten();
        let selected: BTreeSet<String> = selected
            .map(|one| format!("{} {}", one["kind"], one["name"]))
            .collect();
        let objects = wanted.objects.keys().filter(|at| at.0 == number);
        let objects = objects.map(|at| format!("\"{}\" \"c{}\"", kind(at.1).name, at.2));
        let namespace = format!("\"Namespace\" \"{}\"", namespace_name(number));
        let expected: BTreeSet<String> = objects.chain([namespace]).collect();
        ensure!(
            selected == expected,
            "p{number} selects {selected:?}, not {expected:?}"
        );
        Ok(picked)
    }

    pub(super) async fn check_member(
        &self,
        wanted: &Wanted,
        number: usize,
        placed: &BTreeSet<usize>,
    ) -> Result<()> {
        let (member, name) = (&self.members[number], member_name(number));
        let expected = placed.iter().map(|one| format!("p{one}-work"));
        let taken = wanted.is_taken_placed.then(|| format!("{TAKEN}-work"));
        let expected: BTreeSet<String> = expected.chain(taken).collect();
        let names = |objects: Vec<Value>| objects.iter().map(name_of).collect::<BTreeSet<_>>();
        let works = format!("{PLACEMENT}/namespaces/fleet-member-{name}/works");
        let works = names(self.hub.list(&works).await?);
        ensure!(
            works == expected,
            "Works of {name}: {works:?}, not {expected:?}"
        );
        let applied = names(member.list(&format!("{PLACEMENT}/appliedworks")).await?);
        ensure!(
            applied == expected,
            "AppliedWorks of {name}: {applied:?}, not {expected:?}"
        );
        for namespace in 0..PLACEMENTS {
            let found = member.find(&namespace_path(namespace)).await?;
            let Some(found) = found else {
                ensure!(!placed.contains(&namespace), "{name} lacks app{namespace}");
                continue;
            };
            ensure!(
                placed.contains(&namespace),
                "{name} has app{namespace} left: {found:#}"
            );
            check_owner(&found).with_context(|| name.clone())?;
            let shade = wanted.labels.get(&namespace);
            let shade = shade.map_or(Value::Null, |shade| shade.to_string().into());
            ensure!(
                found["metadata"]["labels"]["shade"] == shade,
                "app{namespace} on {name} lacks the shade {shade}: {found:#}"
            );
            for of in [Of::Map, Of::Secret] {
                let found = member.list(&all((namespace, of, 0))).await?;
                let mut found: BTreeMap<String, Value> =
                    found.into_iter().map(|one| (name_of(&one), one)).collect();
                // What others have there of their own.
                found.retain(|name, _| name.starts_with('c'));
                for (at, object) in &wanted.objects {
                    if at.0 != namespace || at.1 != of {
                        continue;
                    }
                    let Some(copy) = found.remove(&format!("c{}", at.2)) else {
                        bail!("{name} lacks {at:?}");
                    };
                    let value = text(of, wanted.value(*at, number));
                    let more = object
                        .more
                        .map_or(Value::Null, |more| text(of, more).into());
                    ensure!(
                        copy["data"]["k"] == value
                            && copy["data"]["more"] == more
                            && copy["metadata"]["labels"]["color"] == "red",
                        "{at:?} on {name} is {copy:#}, not {object:?} with {value}"
                    );
                    check_owner(&copy).with_context(|| name.clone())?;
                }
                let owned = found.values().find(|one| check_owner(one).is_ok());
                ensure!(owned.is_none(), "{name} has {owned:#?} left");
            }
        }
        Ok(())
    }

    /// Each member keeps its own objects, says so, and gets the object that it does not have.
    pub(super) async fn check_taken(&self, wanted: &Wanted) -> Result<()> {
        for (number, member) in self.members.iter().enumerate() {
            let namespace = member.get(&format!("/api/v1/namespaces/{TAKEN}")).await?;
            ensure!(
                namespace["metadata"]["labels"]["color"].is_null()
                    && namespace["metadata"]["ownerReferences"].is_null(),
                "{} lost its namespace: {namespace:#}",
                member_name(number)
            );
            let free = member.find(&kind(Of::Map).at(TAKEN, "free")).await?;
            ensure!(free.is_some() == wanted.is_taken_placed, "{free:#?}");
            if let Some(free) = free {
                check_owner(&free)?;
            }
        }
        if !wanted.is_taken_placed {
            return Ok(());
        }
        let path = format!("{PLACEMENT}/clusterresourceplacements/{TAKEN}");
        let status = self.hub.get(&path).await?["status"].clone();
        let members = status["placementStatuses"].as_array();
        let members = members.map(Vec::as_slice).unwrap_or_default();
        ensure!(members.len() == MEMBERS, "{status:#}");
        for one in members {
            let failed = one["failedPlacements"].as_array().into_iter().flatten();
            let failed: BTreeSet<String> = failed
                .map(|one| format!("{} {}", one["kind"], one["name"]))
                .collect();
            let expected = [
                r#""ConfigMap" "bystander""#,
                r#""Namespace" "taken""#,
                r#""Secret" "bystander""#,
            ];
            ensure!(
                condition(one, "Applied")["status"] == "False" && failed.iter().eq(expected),
                "what is taken was placed: {one:#}"
            );
        }
        Ok(())
    }

    /// No snapshots and bindings are left of placements that are gone.
    pub(super) async fn check_left(&self, wanted: &Wanted) -> Result<()> {
        let is_wanted = |parent: &Value| {
            let names = wanted.placements.keys().map(|number| format!("p{number}"));
            let mut names = names.chain(wanted.is_taken_placed.then(|| TAKEN.to_owned()));
            names.any(|name| *parent == *name)
        };
        for plural in [
            "clusterresourcebindings",
            "clusterresourcesnapshots",
            "clusterschedulingpolicysnapshots",
        ] {
            for one in self.hub.list(&format!("{PLACEMENT}/{plural}")).await? {
                let parent = &one["metadata"]["labels"]["kubernetes-fleet.io/parent-CRP"];
                ensure!(is_wanted(parent), "{plural} {} is left", name_of(&one));
            }
        }
        let all = format!("{PLACEMENT}/resourceoverridesnapshots");
        for one in self.hub.list(&all).await? {
            let namespace = &one["metadata"]["namespace"];
            let mut numbers = wanted.overrides.keys();
            ensure!(
                numbers.any(|number| *namespace == *namespace_name(*number)),
                "an override in {namespace} is left"
            );
        }
        Ok(())
    }
}

/// Whether an object belongs to a Work, and to nothing else.
fn check_owner(object: &Value) -> Result<()> {
    let owners = object["metadata"]["ownerReferences"].as_array();
    let owners = owners.map(Vec::as_slice).unwrap_or_default();
    ensure!(
        matches!(owners, [owner] if owner["kind"] == "AppliedWork")
            && object["metadata"]["deletionTimestamp"].is_null(),
        "{:#}",
        object["metadata"]
    );
    Ok(())
}
