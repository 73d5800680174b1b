//! The fields of `metadata` that belong to the server.

use serde_json::Value;

use super::query::no_version;
use crate::object::Object;
use crate::playground::field::FieldError;
use crate::playground::status::Status;
use crate::playground::store::Key;

/// After a prefix of `generateName`: letters and digits that spell no words.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX: usize = 5;
const MAX_PREFIX: usize = 63 - SUFFIX;

/// What a client may not bring along.
const OWNED: [&str; 6] = [
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "selfLink",
];

/// Gives a new object its identity.
pub(super) fn stamp_new(object: &mut Object, now: &str) -> Result<(), Status> {
    let version = object.resource_version().unwrap_or("0");
    if version != "0" {
        return Err(Status::new(
            500,
            "",
            "resourceVersion should not be set on objects to be created",
        ));
    }
    let metadata = object.metadata_mut();
    for field in OWNED {
        metadata.remove(field);
    }
    metadata.remove("resourceVersion");
    let uid = uuid::Uuid::new_v4().to_string();
    metadata.insert("uid".into(), uid.into());
    metadata.insert("creationTimestamp".into(), now.into());
    Ok(())
}

/// Keeps what the server owns as it is in the stored object.
pub(super) fn keep_owned(object: &mut Object, old: &Object) {
    let metadata = object.metadata_mut();
    let kept = old.root().get("metadata").and_then(Value::as_object);
    for field in OWNED {
        match kept.and_then(|kept| kept.get(field)) {
            Some(value) => metadata.insert(field.to_owned(), value.clone()),
            None => metadata.remove(field),
        };
    }
}

/// A name of that prefix which nobody has, most likely.
pub(super) fn generate(prefix: &str) -> String {
    let mut end = prefix.len().min(MAX_PREFIX);
    while !prefix.is_char_boundary(end) {
        end -= 1;
    }
    let chance = uuid::Uuid::new_v4();
    // Bytes 6 and 8 of a random UUID are partly fixed; the last ones are all chance.
    let suffix = chance.as_bytes()[16 - SUFFIX..]
        .iter()
        .map(|byte| char::from(ALPHABET[usize::from(*byte) % ALPHABET.len()]));
    prefix[..end].chars().chain(suffix).collect()
}

/// The optimistic lock, and that the object is the one that is meant.
pub(super) fn check_precondition(
    key: &Key,
    old: &Object,
    uid: Option<&str>,
    resource_version: Option<&str>,
) -> Result<(), Status> {
    let (group, resource, name) = (&key.table.group, &key.table.resource, key.name());
    if let Some(uid) = uid
        && old.uid() != Some(uid)
    {
        let why = format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            old.uid().unwrap_or_default()
        );
        return Err(Status::conflict(group, resource, name, &why));
    }
    match resource_version {
        None | Some("0") => Ok(()),
        version if version == old.resource_version() => Ok(()),
        // Found out where objects are stored, which knows no better word for it.
        Some(version) if version.parse::<u64>().is_err() => {
            Err(Status::new(500, "", no_version(version)))
        }
        Some(_) => Err(Status::stale(group, resource, name)),
    }
}

/// When an object goes is up to its deletion alone; what says nothing about it is kept as it is.
pub(super) fn check_deletion(object: &Object, old: &Object) -> Vec<FieldError> {
    let of = |object: &'_ Object, field: &str| {
        let found = object.root().get("metadata")?.get(field)?;
        (!found.is_null()).then(|| found.clone())
    };
    ["deletionTimestamp", "deletionGracePeriodSeconds"]
        .into_iter()
        .filter_map(|field| {
            let new = of(object, field).filter(|new| of(old, field).as_ref() != Some(new))?;
            let field = format!("metadata.{field}");
            Some(FieldError::invalid(field, new, "field is immutable"))
        })
        .collect()
}

/// Who is being deleted takes no new finalizers.
pub(super) fn check_finalizers(object: &Object, old: &Object) -> Option<FieldError> {
    if !old.in_deletion() {
        return None;
    }
    let new: Vec<&str> = object
        .finalizers()
        .filter(|finalizer| !old.has_finalizer(finalizer))
        .collect();
    if new.is_empty() {
        return None;
    }
    let detail = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
        new.iter()
            .map(|name| format!("{name:?}"))
            .collect::<Vec<_>>()
            .join(", ")
    );
    Some(FieldError::forbidden("metadata.finalizers", &detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_names_keep_their_prefix_and_fit_a_label() {
        let name = generate("web-");
        assert!(name.starts_with("web-") && name.len() == 9, "{name}");
        assert_eq!(generate(&"x".repeat(100)).len(), 63);
        assert_eq!(generate(&"ü".repeat(40)).chars().count(), 29 + SUFFIX);
        assert_ne!(generate("a"), generate("a"));
    }
}
