//! The options of a deletion: `DeleteOptions` in the body or, without a body, in the query.

use serde_json::Value;

use super::discovery::is_namespaces;
use super::query::Query;
use super::{Call, body, query};
use crate::catalog::Resource;
use crate::status::Status;
use crate::store::{FOREGROUND, ORPHAN};
use kube_lang::object::Object;
use kube_schema::field::FieldError;

const OPTIONS: &str = "DeleteOptions";
const POLICIES: [&str; 4] = ["Foreground", "Background", "Orphan", "nil"];

/// The propagation to dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    /// Dependents are deleted afterwards.
    Background,
    /// Dependents are deleted first.
    Foreground,
    /// Dependents stay, without the owner reference.
    Orphan,
}

#[derive(Debug, Default)]
pub(super) struct DeleteOptions {
    pub(super) dry_run: bool,
    /// `None`: by the finalizers of the object, else in the background.
    pub(super) propagation: Option<Propagation>,
    uid: Option<String>,
    resource_version: Option<String>,
}

/// The options before validation.
#[derive(Default)]
struct Given {
    dry_run: Vec<String>,
    policy: Option<String>,
    orphan: Option<bool>,
    uid: Option<String>,
    resource_version: Option<String>,
}

impl Propagation {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "Background" => Self::Background,
            "Foreground" => Self::Foreground,
            "Orphan" => Self::Orphan,
            _ => return None,
        })
    }

    /// The finalizers of an object with this propagation; `None` if it has them already.
    pub(super) fn finalizers(policy: Option<Self>, object: &Object) -> Option<Vec<String>> {
        let meant = policy.or_else(|| {
            // The finalizers of the object come first; of the two, the first one counts.
            object.finalizers().find_map(|finalizer| match finalizer {
                ORPHAN => Some(Self::Orphan),
                FOREGROUND => Some(Self::Foreground),
                _ => None,
            })
        });
        let wanted = match meant {
            Some(Self::Orphan) => Some(ORPHAN),
            Some(Self::Foreground) => Some(FOREGROUND),
            Some(Self::Background) | None => None,
        };
        let mut finalizers: Vec<String> = object
            .finalizers()
            .filter(|finalizer| ![ORPHAN, FOREGROUND].contains(finalizer))
            .map(str::to_owned)
            .collect();
        finalizers.extend(wanted.map(str::to_owned));
        let same = finalizers.len() == object.finalizers().count()
            && finalizers.iter().all(|one| object.has_finalizer(one));
        (!same).then_some(finalizers)
    }
}

impl DeleteOptions {
    pub(super) fn read(call: &Call<'_>) -> Result<Self, Status> {
        let given = if call.request.body.is_empty() {
            Given::of_query(&call.query)?
        } else {
            Given::of_body(call)?
        };
        given.checked()
    }

    /// Checks the preconditions.
    pub(super) fn check(&self, resource: &Resource, object: &Object) -> Result<(), Status> {
        if is_namespaces(resource) {
            return self.check_namespace(object);
        }
        let fail = |why: String| {
            // The message names the kind, not the resource.
            Err(Status::conflict(
                &resource.group,
                &resource.kind,
                object.name(),
                &why,
            ))
        };
        let is = object.uid().unwrap_or_default();
        match self.uid.as_deref() {
            Some(uid) if uid != is => {
                return fail(format!(
                    "the UID in the precondition ({uid}) does not match the UID in record ({is}). The object might have been deleted and then recreated"
                ));
            }
            _ => {}
        }
        let is = object.resource_version().unwrap_or_default();
        match self.resource_version.as_deref() {
            Some(version) if version != is => fail(format!(
                "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({is}). The object might have been modified"
            )),
            _ => Ok(()),
        }
    }

    /// The same check for a namespace, whose message differs.
    fn check_namespace(&self, object: &Object) -> Result<(), Status> {
        let rows = [
            ("UID", self.uid.as_deref(), object.uid()),
            (
                "ResourceVersion",
                self.resource_version.as_deref(),
                object.resource_version(),
            ),
        ];
        for (what, wanted, is) in rows {
            let (Some(wanted), is) = (wanted, is.unwrap_or_default()) else {
                continue;
            };
            if wanted != is {
                let why = format!(
                    "Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {is}"
                );
                return Err(Status::conflict("", "namespaces", object.name(), &why));
            }
        }
        Ok(())
    }
}

impl Given {
    fn of_query(query: &Query<'_>) -> Result<Self, Status> {
        let text = |name: &str| query.get(name).map(str::to_owned);
        let orphan = match query.get("orphanDependents") {
            None => None,
            Some(_) => Some(query.flag("orphanDependents")?),
        };
        query.number("gracePeriodSeconds")?;
        Ok(Self {
            dry_run: text("dryRun").into_iter().collect(),
            policy: text("propagationPolicy").filter(|policy| !policy.is_empty()),
            orphan,
            uid: text("uid"),
            resource_version: None,
        })
    }

    fn of_body(call: &Call<'_>) -> Result<Self, Status> {
        let document = body::document(&call.request.headers, &call.request.body)?.value;
        let Some(fields) = document.as_object() else {
            return Err(Status::bad_request(
                "the body of a deletion must be DeleteOptions",
            ));
        };
        if let Some(kind) = fields.get("kind").filter(|kind| *kind != OPTIONS) {
            return Err(Status::bad_request(format!(
                "the body of a deletion must be {OPTIONS}, not {kind}"
            )));
        }
        let grace = fields.get("gracePeriodSeconds");
        if grace.is_some_and(|grace| !grace.is_null() && !grace.is_i64()) {
            return Err(Status::bad_request(format!(
                "{OPTIONS} cannot be handled: gracePeriodSeconds must be a whole number"
            )));
        }
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        let precondition = |field: &str| {
            let value = text(fields.get("preconditions")?.get(field))?;
            (!value.is_empty()).then_some(value)
        };
        let dry_run = fields.get("dryRun").and_then(Value::as_array);
        Ok(Self {
            dry_run: dry_run
                .into_iter()
                .flatten()
                .filter_map(|one| text(Some(one)))
                .collect(),
            policy: text(fields.get("propagationPolicy")),
            orphan: fields.get("orphanDependents").and_then(Value::as_bool),
            uid: precondition("uid"),
            resource_version: precondition("resourceVersion"),
        })
    }

    fn checked(self) -> Result<DeleteOptions, Status> {
        let policy = self.policy.as_deref();
        let mut errors = Vec::new();
        if let (Some(policy), Some(_)) = (policy, self.orphan) {
            errors.push(FieldError::invalid(
                "propagationPolicy",
                policy,
                "orphanDependents and deletionPropagation cannot be both set",
            ));
        }
        let parsed = policy.and_then(Propagation::parse);
        if let (Some(policy), None) = (policy, parsed) {
            let error = FieldError::not_supported("propagationPolicy", policy, POLICIES);
            errors.push(error);
        }
        if let Some(status) = query::refused_options(OPTIONS, &errors) {
            return Err(status);
        }
        if let Some(other) = self.dry_run.iter().find(|one| *one != "All") {
            return Err(query::unsupported_dry_run(OPTIONS, other));
        }
        Ok(DeleteOptions {
            dry_run: !self.dry_run.is_empty(),
            propagation: match self.orphan {
                Some(true) => Some(Propagation::Orphan),
                Some(false) => Some(Propagation::Background),
                None => parsed,
            },
            uid: self.uid,
            resource_version: self.resource_version,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn finalizers(policy: Option<Propagation>, before: &[&str], after: Option<&[&str]>) {
        let object = Object::new(json!({"metadata": {"finalizers": before}})).unwrap();
        let after = after.map(|all| all.iter().map(|one| (*one).to_owned()).collect());
        assert_eq!(
            Propagation::finalizers(policy, &object),
            after,
            "{policy:?} {before:?}"
        );
    }

    #[test]
    fn a_policy_decides_about_the_finalizers_of_dependents_and_leaves_others_alone() {
        use Propagation::{Background, Foreground, Orphan};
        finalizers(None, &[], None);
        finalizers(None, &["a"], None);
        finalizers(None, &["orphan"], None);
        finalizers(None, &["orphan", "foregroundDeletion"], Some(&["orphan"]));
        finalizers(Some(Background), &["a"], None);
        finalizers(Some(Background), &["orphan", "a"], Some(&["a"]));
        finalizers(Some(Foreground), &["a"], Some(&["a", "foregroundDeletion"]));
        finalizers(Some(Foreground), &["foregroundDeletion"], None);
        finalizers(Some(Orphan), &["foregroundDeletion"], Some(&["orphan"]));
    }
}
