//! The entries of `metadata.managedFields`: manager, fields, and kind of write.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};

use super::set::Set;

/// The maximum number of managers by update. The oldest ones are combined into one.
const MAX_UPDATERS: usize = 10;
const ANCIENT: &str = "ancient-changes";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    Apply,
    Update,
}

/// The identity of an entry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Manager {
    pub name: String,
    pub operation: Operation,
    /// Empty for applies, which have one entry for all versions.
    pub api_version: String,
    pub subresource: String,
}

/// The fields of one manager, as paths in one API version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owned {
    pub api_version: String,
    pub set: Set,
}

/// All entries of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Managed {
    pub fields: BTreeMap<Manager, Owned>,
    pub times: BTreeMap<Manager, String>,
}

/// The reason why entries cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct ManagedError(String);

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// The name of a manager in messages about conflicts.
impl fmt::Display for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quote = kube_lang::go_text::quote;
        f.write_str(&quote(&self.name))?;
        if !self.subresource.is_empty() {
            write!(f, " with subresource {}", quote(&self.subresource))?;
        }
        if self.operation == Operation::Update {
            write!(f, " using {}", self.api_version)?;
        }
        Ok(())
    }
}

/// Whether a client asks to remove all entries.
pub(super) fn is_reset(entries: Option<&Value>) -> bool {
    match entries.and_then(Value::as_array).map(Vec::as_slice) {
        Some([]) => true,
        Some([one]) => one.as_object().is_some_and(Map::is_empty),
        _ => false,
    }
}

impl Managed {
    /// Parses `metadata.managedFields`.
    pub(crate) fn decode(entries: Option<&Value>) -> Result<Self, ManagedError> {
        let mut managed = Self::default();
        for (index, entry) in entries
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .enumerate()
        {
            let text = |field: &str| entry.get(field).and_then(Value::as_str).unwrap_or_default();
            let refuse = |why: String| Err(ManagedError(why));
            let operation = match text("operation") {
                "Apply" => Operation::Apply,
                "Update" => Operation::Update,
                _ => return refuse("operation must be `Apply` or `Update`".to_owned()),
            };
            let api_version = text("apiVersion").to_owned();
            if api_version.is_empty() {
                return refuse("apiVersion must not be empty".to_owned());
            }
            match text("fieldsType") {
                "FieldsV1" => {}
                "" => {
                    return refuse(format!(
                        "missing fieldsType in managed fields entry {index}"
                    ));
                }
                other => {
                    return refuse(format!(
                        "invalid fieldsType {other:?} in managed fields entry {index}"
                    ));
                }
            }
            let set = Set::from_json(entry.get("fieldsV1").unwrap_or(&Value::Null))
                .map_err(|why| ManagedError(format!("error decoding set: {why}")))?;
            let manager = Manager {
                name: text("manager").to_owned(),
                operation,
                api_version: match operation {
                    Operation::Apply => String::new(),
                    Operation::Update => api_version.clone(),
                },
                subresource: text("subresource").to_owned(),
            };
            if let Some(time) = entry.get("time").and_then(Value::as_str) {
                managed.times.insert(manager.clone(), time.to_owned());
            }
            managed.fields.insert(manager, Owned { api_version, set });
        }
        Ok(managed)
    }

    /// The sorted entries; `None` if no field has a manager.
    pub(crate) fn encode(&self) -> Option<Value> {
        if self.fields.is_empty() {
            return None;
        }
        let mut entries: Vec<(&Manager, &Owned)> = self.fields.iter().collect();
        entries.sort_by_key(|(manager, owned)| {
            (
                manager.operation,
                self.times.get(manager),
                &manager.name,
                &owned.api_version,
                &manager.subresource,
            )
        });
        let encoded = entries
            .into_iter()
            .map(|(manager, owned)| {
                let time = self.times.get(manager).map(String::as_str);
                entry(manager, &owned.api_version, owned.set.to_json(), time)
            })
            .collect();
        Some(Value::Array(encoded))
    }

    /// Combines the oldest managers by update of a version, if there are too many.
    pub(super) fn cap(&mut self) {
        let mut updaters: Vec<Manager> = self
            .fields
            .keys()
            .filter(|manager| manager.operation == Operation::Update)
            .cloned()
            .collect();
        let mut count = updaters.len();
        if count <= MAX_UPDATERS {
            return;
        }
        updaters.sort_by_key(|manager| (self.times.get(manager).cloned(), manager.clone()));
        let mut first: BTreeMap<String, Manager> = BTreeMap::new();
        for manager in updaters {
            if count <= MAX_UPDATERS {
                return;
            }
            let Some(owned) = self.fields.get(&manager).cloned() else {
                continue;
            };
            let version = owned.api_version.clone();
            let Some(first) = first.get(&version) else {
                first.insert(version, manager);
                continue;
            };
            let bucket = Manager {
                name: ANCIENT.to_owned(),
                operation: Operation::Update,
                api_version: version,
                subresource: String::new(),
            };
            if !self.fields.contains_key(&bucket)
                && let Some(oldest) = self.fields.remove(first)
            {
                self.fields.insert(bucket.clone(), oldest);
            }
            if let Some(gathered) = self.fields.get_mut(&bucket) {
                gathered.set.extend(owned.set);
            }
            self.fields.remove(&manager);
            count -= 1;
            if let Some(time) = self.times.get(&manager).cloned() {
                self.times.insert(bucket, time);
            }
        }
    }
}

/// One entry in its served form.
pub(super) fn entry(
    manager: &Manager,
    api_version: &str,
    fields: Value,
    time: Option<&str>,
) -> Value {
    let mut entry = Map::new();
    let mut put = |field: &str, value: Value| entry.insert(field.to_owned(), value);
    put("operation", manager.operation.name().into());
    put("apiVersion", api_version.into());
    put("fieldsType", "FieldsV1".into());
    put("fieldsV1", fields);
    let optional = [
        ("manager", &*manager.name),
        ("subresource", &*manager.subresource),
        ("time", time.unwrap_or_default()),
    ];
    for (field, value) in optional {
        if !value.is_empty() {
            put(field, value.into());
        }
    }
    Value::Object(entry)
}
