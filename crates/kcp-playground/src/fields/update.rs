//! The effect of writes and applied configurations on objects and on the sets of their managers.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde_json::Value;

use super::check::{self, Duplicates};
use super::compare::{self, Comparison};
use super::element::ElementPath;
use super::managed::{Manager, Operation, Owned};
use super::remove::{remove, with_named_fields};
use super::set::Set;
use super::types::Type;
use super::{extract, merge, reconcile};

/// The limit for the paths in a list of conflicts, together, in bytes. A path repeats the names of its parents, so a
/// small object could cause a huge list.
const MAX_LISTED: usize = 4 << 20;

/// A value and its type.
#[derive(Clone, Debug)]
pub(crate) struct Typed<'v> {
    pub value: Cow<'v, Value>,
    pub kind: Type,
}

/// The versions that objects of a kind are served in.
pub(crate) trait Versions {
    /// Converts the object to a version; `None` if that is not served.
    fn convert<'v>(&self, object: &'v Value, version: &str) -> Result<Option<Typed<'v>>, String>;

    /// The fields that an endpoint does not write in a version, so that no manager comes to own them there.
    fn unwritten(&self, version: &str) -> &Set;
}

/// A field with another manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Conflict {
    pub manager: Manager,
    pub path: ElementPath,
}

/// The reason why nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum UpdateError {
    #[error("fields of other managers would change")]
    Conflicts(Vec<Conflict>),
    #[error("more fields of other managers would change than can be listed")]
    TooManyConflicts,
    #[error("{0}")]
    Type(String),
}

/// The effect of a write on an object in one version.
struct WriteEffect<'a>(Cow<'a, Comparison>);

impl<'a> WriteEffect<'a> {
    fn new(comparison: Cow<'a, Comparison>, unwritten: &Set) -> Self {
        if unwritten.is_empty() {
            return Self(comparison);
        }
        Self(Cow::Owned(comparison.into_owned().without(unwritten)))
    }

    /// The changed fields of a manager.
    fn changed_of(&self, owned: &Set) -> Set {
        let mut changed = owned.intersection(&self.0.modified);
        changed.extend(owned.intersection(&self.0.added));
        changed
    }

    fn take_from(&self, owned: &mut Set) {
        for taken in [&self.0.modified, &self.0.added, &self.0.removed] {
            owned.subtract(taken);
        }
    }
}

impl UpdateError {
    fn at(what: &str, why: impl std::fmt::Display) -> Self {
        Self::Type(format!("failed to {what}: {why}"))
    }
}

/// How conflicts are handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Force {
    Take,
    Refuse,
}

pub(super) type Fields = BTreeMap<Manager, Owned>;

/// Writes in one version.
pub(super) struct Updater<'a> {
    pub(super) versions: &'a dyn Versions,
    /// `group/version`
    pub(super) version: &'a str,
}

/// The result of an apply without conflicts.
pub(super) struct Applied {
    /// `None` if the object did not change.
    pub(super) object: Option<Value>,
    pub(super) fields: Fields,
}

impl Updater<'_> {
    /// Determines the fields that a write took from other managers, and those of the writer.
    pub(super) fn update(
        &self,
        live: &Typed<'_>,
        new: &Typed<'_>,
        fields: Fields,
        manager: &Manager,
    ) -> Result<Fields, UpdateError> {
        let mut fields = self.reconcile(&live.value, fields)?;
        let comparison = self.settle(live, new, &mut fields, (manager, Force::Take))?;
        let mut set = fields
            .get(manager)
            .map(|owned| owned.set.difference(&comparison.removed))
            .unwrap_or_default();
        set.extend(comparison.modified);
        set.extend(comparison.added);
        set.subtract_whole(self.versions.unwritten(self.version));
        self.own(&mut fields, manager, set);
        Ok(fields)
    }

    /// Merges a configuration into an object. Fields that it no longer has are removed, unless other managers own them.
    pub(super) fn apply(
        &self,
        live: &Typed<'_>,
        config: &Typed<'_>,
        fields: Fields,
        (manager, force): (&Manager, Force),
    ) -> Result<Applied, UpdateError> {
        let mut fields = self.reconcile(&live.value, fields)?;
        let merged = merge::merge(&live.value, &config.value, &live.kind)
            .map_err(|error| UpdateError::at("merge config", error))?;
        let last = fields.remove(manager);
        let mut set = extract::fields(&config.value, &config.kind)
            .map_err(|error| UpdateError::at("get field set", error))?;
        set.subtract_whole(self.versions.unwritten(self.version));
        let api_version = self.version.to_owned();
        fields.insert(manager.clone(), Owned { api_version, set });
        let merged = self
            .prune(merged, &fields, last.as_ref())
            .map_err(|error| UpdateError::at("prune fields", error))?;
        let new = Typed {
            value: Cow::Owned(merged),
            kind: live.kind.clone(),
        };
        self.settle(live, &new, &mut fields, (manager, force))?;
        let changed = new.value != live.value;
        Ok(Applied {
            object: changed.then(|| new.value.into_owned()),
            fields,
        })
    }

    fn own(&self, fields: &mut Fields, manager: &Manager, set: Set) {
        if set.is_empty() {
            fields.remove(manager);
            return;
        }
        let api_version = self.version.to_owned();
        fields.insert(manager.clone(), Owned { api_version, set });
    }

    fn convert<'v>(&self, value: &'v Value, version: &str) -> Result<Option<Typed<'v>>, String> {
        let Some(typed) = self.versions.convert(value, version)? else {
            return Ok(None);
        };
        if version != self.version {
            check::value(&typed.value, &typed.kind, Duplicates::Allowed)
                .map_err(|error| error.to_string())?;
        }
        Ok(Some(typed))
    }

    /// Removes the changed fields from the other managers.
    fn settle(
        &self,
        live: &Typed<'_>,
        new: &Typed<'_>,
        fields: &mut Fields,
        (manager, force): (&Manager, Force),
    ) -> Result<Comparison, UpdateError> {
        let whole = compare::compare(&live.value, &new.value, &live.kind)
            .map_err(|error| UpdateError::at("compare objects", error))?;
        let others: Vec<Manager> = fields.keys().filter(|m| *m != manager).cloned().collect();
        if !others.is_empty() {
            self.take(live, new, fields, (&whole, &others, force))?;
        }
        if fields.get(manager).is_some_and(|own| own.set.is_empty()) {
            fields.remove(manager);
        }
        Ok(whole)
    }

    fn take(
        &self,
        live: &Typed<'_>,
        new: &Typed<'_>,
        fields: &mut Fields,
        (whole, others, force): (&Comparison, &[Manager], Force),
    ) -> Result<(), UpdateError> {
        let written = WriteEffect::new(Cow::Borrowed(whole), self.versions.unwritten(self.version));
        let mut by_version = BTreeMap::from([(self.version.to_owned(), Some(written))]);
        for other in others {
            let version = fields[other].api_version.clone();
            if by_version.contains_key(&version) {
                continue;
            }
            let convert = |what: &str, value| {
                self.convert(value, &version)
                    .map_err(|why| UpdateError::at(&format!("convert {what} object"), why))
            };
            let (before, after) = (convert("old", &live.value)?, convert("new", &new.value)?);
            let comparison = match (before, after) {
                (Some(before), Some(after)) => {
                    let found = compare::compare(&before.value, &after.value, &before.kind)
                        .map_err(|error| UpdateError::at("compare objects", error))?;
                    let unwritten = self.versions.unwritten(&version);
                    Some(WriteEffect::new(Cow::Owned(found), unwritten))
                }
                _ => None,
            };
            by_version.insert(version, comparison);
        }
        if force == Force::Refuse {
            refuse_conflicts(fields, others, &by_version)?;
        }
        for other in others {
            let Some(owned) = fields.get_mut(other) else {
                continue;
            };
            if let Some(Some(written)) = by_version.get(&owned.api_version) {
                written.take_from(&mut owned.set);
                if !owned.set.is_empty() {
                    continue;
                }
            }
            fields.remove(other);
        }
        Ok(())
    }

    /// Adapts sets that were written with an earlier schema.
    fn reconcile(&self, live: &Value, fields: Fields) -> Result<Fields, UpdateError> {
        let mut result = Fields::new();
        let mut by_version = BTreeMap::new();
        for (manager, mut owned) in fields {
            let typed = match by_version.entry(owned.api_version.clone()) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(unknown) => {
                    let typed = self.convert(live, &owned.api_version);
                    unknown.insert(typed.map_err(UpdateError::Type)?)
                }
            };
            // The entries of a version that is no longer served are dropped.
            if let Some(typed) = typed {
                owned.set = reconcile::reconcile(&owned.set, &typed.kind);
                result.insert(manager, owned);
            }
        }
        Ok(result)
    }

    /// Removes the fields that the manager applied last time, does not apply now, and that no other manager owns.
    fn prune(&self, merged: Value, fields: &Fields, last: Option<&Owned>) -> Result<Value, String> {
        let Some(last) = last.filter(|last| !last.set.is_empty()) else {
            return Ok(merged);
        };
        let Some(typed) = self.convert(&merged, &last.api_version)? else {
            return Ok(merged.clone());
        };
        let kind = Some(&typed.kind);
        let last_set = with_named_fields(&last.set, kind);
        let pruned = remove(&typed.value, &last_set, &typed.kind);
        let pruned = self.add_back_owned(&typed, pruned, &last.api_version, fields)?;
        let Some(pruned) = self.convert(&pruned, &last.api_version)? else {
            return Ok(merged.clone());
        };
        // Only fields of the manager itself are removed.
        let all = |value: &Value, kind: &Type| {
            extract::fields(value, kind)
                .map(|set| with_named_fields(&set, Some(kind)))
                .map_err(|error| error.to_string())
        };
        let gone = all(&typed.value, &typed.kind)?
            .difference(&all(&pruned.value, &pruned.kind)?)
            .intersection(&last_set);
        let pruned = remove(&typed.value, &gone, &typed.kind);
        match self.convert(&pruned, self.version)? {
            Some(back) => Ok(back.value.into_owned()),
            None => Ok(pruned.clone()),
        }
    }

    /// Restores pruned fields that have a manager, version by version, the pruned version first.
    fn add_back_owned(
        &self,
        merged: &Typed<'_>,
        mut pruned: Value,
        version: &str,
        fields: &Fields,
    ) -> Result<Value, String> {
        let mut owned: BTreeMap<&str, Set> = BTreeMap::new();
        for entry in fields.values() {
            let set = owned.entry(&entry.api_version).or_default();
            set.extend(entry.set.clone());
        }
        let first = owned.remove_entry(version);
        for (version, owned) in first.into_iter().chain(owned) {
            let Some(whole) = self.convert(&merged.value, version)? else {
                continue;
            };
            let kept = match self.convert(&pruned, version)? {
                Some(kept) => extract::fields(&kept.value, &kept.kind),
                None => continue,
            };
            let kept = kept.map_err(|error| error.to_string())?;
            let all =
                extract::fields(&whole.value, &whole.kind).map_err(|error| error.to_string())?;
            let kind = Some(&whole.kind);
            let mut stays = with_named_fields(&kept, kind);
            stays.extend(with_named_fields(&owned, kind));
            let gone = with_named_fields(&all, kind).difference(&stays);
            pruned = remove(&whole.value, &gone, &whole.kind);
        }
        Ok(pruned)
    }
}

/// Lists the changed fields that other managers own, if there are any.
fn refuse_conflicts(
    fields: &Fields,
    others: &[Manager],
    by_version: &BTreeMap<String, Option<WriteEffect<'_>>>,
) -> Result<(), UpdateError> {
    let mut conflicts = Vec::new();
    let mut left_to_list = MAX_LISTED;
    for other in others {
        let owned = &fields[other];
        let Some(Some(written)) = by_version.get(&owned.api_version) else {
            continue;
        };
        let conflict = written.changed_of(&owned.set);
        let paths = conflict.paths_within(&mut left_to_list);
        let paths = paths.ok_or(UpdateError::TooManyConflicts)?;
        conflicts.extend(paths.into_iter().map(|path| Conflict {
            manager: other.clone(),
            path,
        }));
    }
    if conflicts.is_empty() {
        Ok(())
    } else {
        Err(UpdateError::Conflicts(conflicts))
    }
}

/// The writer, before its name in the entries is known.
pub(super) fn current() -> Manager {
    Manager {
        name: "current-operation".to_owned(),
        operation: Operation::Update,
        api_version: String::new(),
        subresource: String::new(),
    }
}
