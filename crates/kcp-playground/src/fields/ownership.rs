//! The `managedFields` after one write, from the live object, the written object and the manager.

use std::borrow::Cow;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::check::{self, Duplicates};
use super::managed::{self, Managed, Manager, Operation, Owned};
use super::set::Set;
use super::types::Type;
use super::update::{self, Applied, Conflict, Force, Typed, UpdateError, Updater, Versions};
use super::{compare, extract, fresh};
use kube_schema::json;

/// The annotation of client-side `kubectl apply`.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
const MAX_ANNOTATIONS: usize = 256 * 1024;
/// The manager of fields that were set before the object had `managedFields`.
const BEFORE: &str = "before-first-apply";
const UNKNOWN: &str = "unknown";
const KUBECTL: &str = "kubectl";

/// Fields that no manager owns.
static NEVER_OWNED: LazyLock<Set> = LazyLock::new(|| {
    Set::of_fields(&[
        "apiVersion",
        "kind",
        "metadata",
        "metadata.name",
        "metadata.namespace",
        "metadata.creationTimestamp",
        "metadata.selfLink",
        "metadata.uid",
        "metadata.clusterName",
        "metadata.generation",
        "metadata.managedFields",
        "metadata.resourceVersion",
    ])
});

/// One write in one version of a kind.
pub(crate) struct Ownership<'a> {
    pub versions: &'a dyn Versions,
    /// The type in this version.
    pub kind: &'a Type,
    /// `group/version`
    pub version: &'a str,
    /// The subresource; empty for the object itself.
    pub subresource: &'a str,
    pub now: &'a str,
}

/// A configuration to apply.
pub(crate) struct Apply<'a> {
    pub manager: &'a str,
    pub config: &'a Value,
    /// Whether the apply takes fields from other managers.
    pub force: bool,
    /// An object without any field set.
    pub zero: &'a Value,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ApplyError {
    /// 409
    #[error("fields of other managers would change")]
    Conflicts(Vec<Conflict>),
    /// 409
    #[error("more fields of other managers would change than can be listed")]
    TooManyConflicts,
    /// 400
    #[error("{0}")]
    BadRequest(String),
    /// The configuration, or the object that it is merged into, is not of its type.
    #[error("{0}")]
    Type(String),
}

fn entries(object: &Value) -> Option<&Value> {
    object.get("metadata")?.get("managedFields")
}

/// The object without `managedFields`.
fn stripped(object: &Value) -> Cow<'_, Value> {
    if entries(object).is_none() {
        return Cow::Borrowed(object);
    }
    let mut object = object.clone();
    set_entries(&mut object, None);
    Cow::Owned(object)
}

fn set_entries(object: &mut Value, entries: Option<Value>) {
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        match entries {
            Some(entries) => metadata.insert("managedFields".to_owned(), entries),
            None => metadata.remove("managedFields"),
        };
    }
}

impl Ownership<'_> {
    /// Updates the `managedFields` of `object` after a write that is not an apply. `live` is the stored object, or an
    /// empty one.
    pub(crate) fn update(&self, live: &Value, object: &mut Value, manager: &str) {
        let mut managed = self.before(live, object);
        let uid = live
            .get("metadata")
            .and_then(|metadata| metadata.get("uid"));
        let created = uid.and_then(Value::as_str).is_none_or(str::is_empty);
        // An object whose `managedFields` were removed gets none before the next apply.
        if managed.fields.is_empty() && !created {
            set_entries(object, None);
            return;
        }
        set_entries(object, None);
        if managed.fields.is_empty() && live.as_object().is_none_or(Map::is_empty) {
            let entries = self.first(object, manager);
            set_entries(object, entries);
            return;
        }
        // No manager owns `managedFields`, so comparing them too has no effect. They are removed only before a
        // conversion to another version, whose type check does not know them.
        let other_versions = managed
            .fields
            .values()
            .any(|owned| owned.api_version != self.version);
        let live = if other_versions {
            stripped(live)
        } else {
            Cow::Borrowed(live)
        };
        let accounted = self.account(&live, object, &mut managed, manager);
        // If the fields cannot be determined, the object gets no entries rather than wrong ones.
        let entries = accounted.ok().and_then(|()| {
            managed.cap();
            managed.encode()
        });
        set_entries(object, entries);
    }

    /// The entries of a new object.
    fn first(&self, object: &Value, manager: &str) -> Option<Value> {
        let left = fresh::Unowned {
            alone: Some(&NEVER_OWNED),
            whole: Some(self.versions.unwritten(self.version)),
        };
        let fields = fresh::fields(object, self.kind, left).ok()?;
        if fields.is_empty() {
            return None;
        }
        let manager = self.manager(manager, Operation::Update);
        let fields = Value::Object(fields);
        let entry = managed::entry(&manager, self.version, fields, Some(self.now));
        Some(Value::Array(vec![entry]))
    }

    /// The entries before a write: those that the client sends, if it sends any.
    fn before(&self, live: &Value, object: &Value) -> Managed {
        let stored = || Managed::decode(entries(live)).unwrap_or_default();
        if !self.subresource.is_empty() {
            return stored();
        }
        if managed::is_reset(entries(object)) {
            return Managed::default();
        }
        match Managed::decode(entries(object)) {
            Ok(managed) if !managed.fields.is_empty() => managed,
            _ => stored(),
        }
    }

    fn manager(&self, name: &str, operation: Operation) -> Manager {
        Manager {
            name: if name.is_empty() { UNKNOWN } else { name }.to_owned(),
            operation,
            api_version: match operation {
                Operation::Apply => String::new(),
                Operation::Update => self.version.to_owned(),
            },
            subresource: self.subresource.to_owned(),
        }
    }

    fn updater(&self) -> Updater<'_> {
        Updater {
            versions: self.versions,
            version: self.version,
        }
    }

    fn typed<'v>(&self, value: &'v Value) -> Typed<'v> {
        Typed {
            value: Cow::Borrowed(value),
            kind: self.kind.clone(),
        }
    }

    fn account(
        &self,
        live: &Value,
        object: &Value,
        managed: &mut Managed,
        manager: &str,
    ) -> Result<(), UpdateError> {
        let current = update::current();
        let fields = std::mem::take(&mut managed.fields);
        let (live, object) = (self.typed(live), self.typed(object));
        managed.fields = self.updater().update(&live, &object, fields, &current)?;
        let Some(Owned { mut set, .. }) = managed.fields.remove(&current) else {
            return Ok(());
        };
        set.subtract(&NEVER_OWNED);
        if set.is_empty() {
            return Ok(());
        }
        let manager = self.manager(manager, Operation::Update);
        if let Some(before) = managed.fields.remove(&manager) {
            set.extend(before.set);
        }
        let api_version = self.version.to_owned();
        managed.times.insert(manager.clone(), self.now.to_owned());
        managed.fields.insert(manager, Owned { api_version, set });
        Ok(())
    }

    /// Applies a configuration to an object. Returns the object with its entries.
    pub(crate) fn apply(&self, live: &Value, apply: &Apply<'_>) -> Result<Value, ApplyError> {
        if entries(apply.config).is_some_and(|entries| !entries.is_null()) {
            let why = "metadata.managedFields must be nil";
            return Err(ApplyError::BadRequest(why.to_owned()));
        }
        let what = |why: &dyn std::fmt::Display| ApplyError::Type(why.to_string());
        let mut managed = Managed::decode(entries(live))
            .map_err(|why| ApplyError::Type(format!("failed to decode managed fields: {why}")))?;
        let live = stripped(live);
        if managed.fields.is_empty() {
            self.account(apply.zero, &live, &mut managed, BEFORE)
                .map_err(|why| what(&why))?;
        }
        self.check(apply.config, "patch", Duplicates::Refused)?;
        self.check(&live, "live", Duplicates::Allowed)?;
        let manager = self.manager(apply.manager, Operation::Apply);
        let applied = self.merge(&live, apply, &managed, &manager)?;
        managed.fields = applied.fields;
        if let Some(owned) = managed.fields.get_mut(&manager) {
            owned.set.subtract(&NEVER_OWNED);
            if owned.set.is_empty() {
                managed.fields.remove(&manager);
            }
        }
        if applied.object.is_some() {
            managed.times.insert(manager, self.now.to_owned());
        }
        let mut object = applied.object.unwrap_or_else(|| live.into_owned());
        if apply.manager == KUBECTL {
            keep_last_applied(&mut object, apply.config);
        }
        set_entries(&mut object, managed.encode());
        Ok(object)
    }

    /// Merges the configuration. kubectl may take over fields that it applied on the client side.
    fn merge(
        &self,
        live: &Value,
        apply: &Apply<'_>,
        managed: &Managed,
        manager: &Manager,
    ) -> Result<Applied, ApplyError> {
        let merge = |force: Force| {
            let (live, config) = (self.typed(live), self.typed(apply.config));
            let fields = managed.fields.clone();
            let updater = self.updater();
            updater.apply(&live, &config, fields, (manager, force))
        };
        let force = if apply.force {
            Force::Take
        } else {
            Force::Refuse
        };
        let conflicts = match merge(force) {
            Ok(applied) => return Ok(applied),
            Err(UpdateError::Type(why)) => return Err(ApplyError::Type(why)),
            Err(UpdateError::TooManyConflicts) => return Err(ApplyError::TooManyConflicts),
            Err(UpdateError::Conflicts(conflicts)) => conflicts,
        };
        let allowed = (apply.manager == KUBECTL)
            .then(|| self.last_applied(live))
            .flatten();
        let Some(allowed) = allowed else {
            return Err(ApplyError::Conflicts(conflicts));
        };
        let left: Vec<Conflict> = conflicts
            .into_iter()
            .filter(|conflict| !allowed.has(&conflict.path))
            .collect();
        if !left.is_empty() {
            return Err(ApplyError::Conflicts(left));
        }
        merge(Force::Take).map_err(|error| ApplyError::Type(error.to_string()))
    }

    /// The fields that client-side apply set, and that have not changed since.
    fn last_applied(&self, live: &Value) -> Option<Set> {
        let annotations = live.get("metadata")?.get("annotations")?;
        let text = annotations.get(LAST_APPLIED)?.as_str()?;
        let mut config = json::parse(text.as_bytes()).ok()?.value;
        json::settle(&mut config);
        if config.get("apiVersion")?.as_str()? != self.version {
            return None;
        }
        check::value(&config, self.kind, Duplicates::Refused).ok()?;
        check::value(live, self.kind, Duplicates::Refused).ok()?;
        let fields = extract::fields(&config, self.kind).ok()?;
        let changes = compare::compare(&config, live, self.kind).ok()?;
        Some(
            fields
                .difference(&changes.modified)
                .difference(&changes.added)
                .difference(&changes.removed),
        )
    }

    fn check(&self, object: &Value, what: &str, duplicates: Duplicates) -> Result<(), ApplyError> {
        check::value(object, self.kind, duplicates).map_err(|error| {
            let name = |field: &str| {
                let pointer = format!("/metadata/{field}");
                let name = object.pointer(&pointer).and_then(Value::as_str);
                name.unwrap_or_default().to_owned()
            };
            let (group, version) = self.version.split_once('/').unwrap_or(("", self.version));
            let kind = object["kind"].as_str().unwrap_or_default();
            ApplyError::Type(format!(
                "failed to create typed {what} object ({}/{}; {group}/{version}, Kind={kind}): {error}",
                name("namespace"),
                name("name"),
            ))
        })
    }
}

/// Updates the annotation of client-side apply, if the object has it.
fn keep_last_applied(object: &mut Value, config: &Value) {
    let Some(Value::Object(annotations)) = object
        .get_mut("metadata")
        .and_then(|metadata| metadata.get_mut("annotations"))
    else {
        return;
    };
    let used = |annotations: &Map<String, Value>| -> usize {
        let length = |value: &Value| value.as_str().unwrap_or_default().len();
        annotations
            .iter()
            .map(|(key, value)| key.len() + length(value))
            .sum()
    };
    let there = annotations.get(LAST_APPLIED).and_then(Value::as_str);
    if there.is_none_or(str::is_empty) {
        return;
    }
    let mut config = config.clone();
    let mut emptied = false;
    if let Some(Value::Object(applied)) = config.pointer_mut("/metadata/annotations") {
        applied.remove(LAST_APPLIED);
        emptied = applied.is_empty();
    }
    if emptied && let Some(Value::Object(metadata)) = config.get_mut("metadata") {
        metadata.remove("annotations");
    }
    // The server's encoder ends with a newline.
    let text = format!("{config}\n");
    annotations.insert(LAST_APPLIED.to_owned(), text.into());
    if used(annotations) > MAX_ANNOTATIONS {
        annotations.remove(LAST_APPLIED);
    }
}
