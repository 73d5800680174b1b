//! The fields of `metadata` that belong to the server.

use serde_json::Value;

use super::query::no_version;
use crate::catalog::Resource;
use crate::status::Status;
use crate::store::Key;
use kube_lang::object::Object;
use kube_schema::field::{ErrorKind, FieldError};
use kube_schema::names::{NO_DOMAIN, has_domain};

/// The characters after a prefix of `generateName`: letters and digits that form no words.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX: usize = 5;
const MAX_PREFIX: usize = 63 - SUFFIX;

/// Fields that clients cannot set.
const OWNED: [&str; 6] = [
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "selfLink",
];

/// Sets the identity of a new object.
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

/// Restores the server's fields from the stored object.
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

/// A random name with this prefix.
pub(super) fn generate(prefix: &str) -> String {
    let mut end = prefix.len().min(MAX_PREFIX);
    while !prefix.is_char_boundary(end) {
        end -= 1;
    }
    let chance = uuid::Uuid::new_v4();
    // Bytes 6 and 8 of a random UUID are partly fixed; the last ones are random.
    let suffix = chance.as_bytes()[16 - SUFFIX..]
        .iter()
        .map(|byte| char::from(ALPHABET[usize::from(*byte) % ALPHABET.len()]));
    prefix[..end].chars().chain(suffix).collect()
}

/// Checks the preconditions: uid and resource version.
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
        // A kube-apiserver detects this in its storage, and responds with 500.
        Some(version) if version.parse::<u64>().is_err() => {
            Err(Status::new(500, "", no_version(version)))
        }
        Some(_) => Err(Status::stale(group, resource, name)),
    }
}

/// Refuses changes of the deletion fields. An update without them keeps them.
pub(super) fn check_deletion(object: &Object, old: &Object) -> Vec<FieldError> {
    fn of<'o>(object: &'o Object, field: &str) -> Option<&'o Value> {
        let found = object.root().get("metadata")?.get(field)?;
        (!found.is_null()).then_some(found)
    }
    ["deletionTimestamp", "deletionGracePeriodSeconds"]
        .into_iter()
        .filter_map(|field| {
            let new = of(object, field).filter(|new| of(old, field) != Some(*new))?;
            let field = format!("metadata.{field}");
            Some(FieldError::invalid(
                field,
                new.clone(),
                "field is immutable",
            ))
        })
        .collect()
}

/// How often a kube-apiserver repeats an error about metadata in an update: once for the check of all objects, and once
/// for each check of the kind.
struct Told {
    /// The checks of immutable fields, and those that come with them.
    changes: usize,
    /// The checks that also apply to new objects.
    contents: usize,
}

impl Told {
    fn of(resource: &Resource) -> Self {
        let (changes, contents) = match (&*resource.table.group, &*resource.table.resource) {
            ("", "events") => (1, 1),
            ("admissionregistration.k8s.io", _) => (1, 2),
            ("", "resourcequotas") => (2, 1),
            ("" | "rbac.authorization.k8s.io", _) => (2, 2),
            _ => (2, 1),
        };
        Self { changes, contents }
    }

    fn times(&self, error: &FieldError) -> usize {
        match error.field.strip_prefix("metadata.") {
            // New finalizers on an object in deletion.
            Some("finalizers") if error.kind == ErrorKind::Forbidden => self.changes,
            Some("uid" | "deletionTimestamp" | "deletionGracePeriodSeconds") => self.changes,
            Some(field) if field.starts_with("finalizers") => self.contents,
            Some(field)
                if ["labels", "annotations", "ownerReferences"]
                    .iter()
                    .any(|one| field.starts_with(one)) =>
            {
                self.changes + self.contents
            }
            _ => 1,
        }
    }
}

/// Repeats errors as often as a kube-apiserver does.
pub(super) fn as_often_as_told(errors: &[FieldError], resource: &Resource) -> Vec<FieldError> {
    let told = Told::of(resource);
    let most = told.changes + told.contents;
    (0..most)
        .flat_map(|round| {
            let more = errors.iter().filter(|one| told.times(one) > round);
            more.cloned().collect::<Vec<_>>()
        })
        .collect()
}

/// Finalizers of built-in kinds need a domain, except for those of the server.
pub(super) fn check_domains(object: &Object, resource: &Resource) -> Vec<FieldError> {
    let strict = match &*resource.table.group {
        "" => &*resource.table.resource != "events",
        group => group == "rbac.authorization.k8s.io",
    };
    if !strict {
        return Vec::new();
    }
    let finalizers = object.finalizers().enumerate();
    finalizers
        .filter(|(_, name)| !has_domain(name))
        .map(|(at, name)| {
            let field = format!("metadata.finalizers[{at}]");
            FieldError::invalid(field, name, NO_DOMAIN)
        })
        .collect()
}

/// The warnings about new finalizers without a domain.
pub(super) fn doubtful_finalizers(object: &Object, old: Option<&Object>) -> Vec<String> {
    let new = object
        .finalizers()
        .filter(|name| old.is_none_or(|old| !old.has_finalizer(name)));
    let mut doubtful: Vec<&str> = new.filter(|name| !has_domain(name)).collect();
    doubtful.sort_unstable();
    doubtful.dedup();
    let told = doubtful.iter().map(|name| {
        format!(
            "metadata.finalizers: {name:?}: prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers"
        )
    });
    told.collect()
}

/// Refuses new finalizers on an object in deletion.
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
    fn custom_finalizers_without_a_domain_are_doubted_once_and_only_as_new_ones() {
        let object = |finalizers: &[&str]| {
            Object::new(serde_json::json!({"metadata": {"finalizers": finalizers}})).unwrap()
        };
        let old = object(&["b"]);
        let new = object(&["a", "a", "b", "orphan", "kubernetes", "e.com/x"]);
        assert_eq!(
            doubtful_finalizers(&new, Some(&old)),
            [
                "metadata.finalizers: \"a\": prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers"
            ]
        );
        assert_eq!(doubtful_finalizers(&new, None).len(), 2);
    }

    #[test]
    fn generated_names_keep_their_prefix_and_fit_a_label() {
        let name = generate("web-");
        assert!(name.starts_with("web-") && name.len() == 9, "{name}");
        assert_eq!(generate(&"x".repeat(100)).len(), 63);
        assert_eq!(generate(&"ü".repeat(40)).chars().count(), 29 + SUFFIX);
        assert_ne!(generate("a"), generate("a"));
    }
}
