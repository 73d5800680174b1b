//! Server-side apply: the manager owns the fields of its configuration.

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::Value;

use super::body;
use super::complaints::Complaints;
use super::ground::Ground;
use super::owning::{self, Account, Served};
use super::replace::There;
use super::write::{self, Recorded, Written};
use super::{Call, Rest};
use crate::builtin::namespaces;
use crate::catalog::{Admission, Resource};
use crate::fields::{Apply, ApplyError, Conflict};
use crate::status::{Cause, Status};
use crate::store::{Outcome, Tx};
use kube_lang::object::Gvk;
use kube_schema::field::FieldError;
use kube_schema::json::Document;

impl Rest {
    pub(super) fn apply(&self, call: &Call<'_>, name: &str) -> Result<Written, Status> {
        let options = "PatchOptions";
        let manager = call.query.field_manager(options)?;
        if manager.is_empty() {
            let error = FieldError::required("fieldManager", "is required for apply patch");
            return Err(Status::invalid("meta.k8s.io", options, "", &[error]));
        }
        let validation = call.query.field_validation(options)?;
        let dry_run = call.query.dry_run(options)?;
        let document = body::configuration(&call.request.body)?;
        let mut complaints = Complaints::about_configuration(validation, &document);
        let outcome = self.transact(dry_run, |tx| {
            let resource = self.meant(tx, call, "patch")?;
            self.apply_in(
                tx,
                call,
                resource,
                (name, manager, &document),
                &mut complaints,
            )
            .map(|(left, code)| (left.warned(&complaints), code))
        });
        let Outcome {
            value: (left, code),
            revision,
            reported,
        } = outcome.map_err(|status| complaints.beside(status))?;
        let outcome = Outcome {
            value: left,
            revision,
            reported,
        };
        write::answer(call, code, outcome)
    }

    fn apply_in(
        &self,
        tx: &mut Tx<'_>,
        call: &Call<'_>,
        resource: Arc<Resource>,
        (name, manager, document): (&str, &str, &Document),
        complaints: &mut Complaints,
    ) -> Result<(Recorded, u16), Status> {
        let there = match There::find(tx, call, &resource, name) {
            Ok(there) => Some(there),
            // An apply creates only the object itself, never through a subresource.
            Err(status) if status.code == 404 && call.path.subresource.is_empty() => None,
            Err(status) => return Err(status),
        };
        check_kind(&document.value, &resource)?;
        let zero = owning::zero(&resource);
        let cluster = call.cluster()?;
        let applied = {
            let admission = Admission {
                user: &call.request.user,
                scope: &call.request.scope,
                cluster: &cluster,
                resource: &resource,
                subresource: &call.path.subresource,
                old: None,
            };
            let apply = Apply {
                manager,
                config: &document.value,
                force: call.query.force().unwrap_or_default(),
                zero: &zero,
            };
            let now = namespaces::timestamp(tx);
            let versions = Served::new(self, Ground::Inside(tx), &admission);
            let live = there.as_ref().map(|there| there.served().as_value());
            let live = live.unwrap_or(&zero);
            versions
                .ownership(&now)
                .apply(live, &apply)
                .map_err(refuse)?
        };
        complaints.check(&resource)?;
        let mut object = write::decode(applied, &resource, complaints)?;
        if there.is_none()
            && let Some(uid) = object.uid()
        {
            let why = format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            );
            let (group, plural) = (&resource.group, &resource.plural);
            return Err(Status::conflict(group, plural, name, &why));
        }
        write::fit_namespace(&mut object, &call.path)?;
        write::fit_name(&object, name)?;
        let live = there.as_ref().map(There::served);
        complaints.doubt((&resource, &call.path), &object, live);
        let Some(there) = there else {
            object.metadata_mut().remove("resourceVersion");
            let left = self.create_object(tx, call, resource, object, Account::Given)?;
            let code = if call.request.scope.is_view() {
                200
            } else {
                201
            };
            return Ok((left, code));
        };
        let gone = self.replace(tx, call, (&there, &resource), object, Account::Given)?;
        Ok((Recorded::new(resource, gone), 200))
    }
}

/// Whether a configuration has this kind and version.
fn check_kind(config: &Value, resource: &Resource) -> Result<(), Status> {
    let text = |field: &str| {
        config
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let (given, kind) = (text("apiVersion"), text("kind"));
    let expected = Gvk::new(&resource.group, &resource.version, &resource.kind);
    if given == expected.api_version() && kind == expected.kind {
        return Ok(());
    }
    let (group, version) = given.split_once('/').unwrap_or(("", given));
    Err(Status::bad_request(format!(
        "invalid object type: {group}/{version}, Kind={kind}"
    )))
}

fn refuse(error: ApplyError) -> Status {
    match error {
        ApplyError::Conflicts(conflicts) => conflict(&conflicts),
        ApplyError::TooManyConflicts => Status::new(
            409,
            "Conflict",
            "Apply failed with more conflicts than can be listed: apply fewer fields at once, or take them from their managers with force",
        ),
        ApplyError::BadRequest(why) => Status::bad_request(why),
        ApplyError::Type(why) => Status::new(500, "", why),
    }
}

/// Lists the fields in conflict, manager by manager.
fn conflict(conflicts: &[Conflict]) -> Status {
    let message = if let [one] = conflicts {
        format!(
            "Apply failed with 1 conflict: conflict with {}: {}",
            one.manager, one.path
        )
    } else {
        let mut lines = Vec::new();
        let mut last = None;
        for conflict in conflicts {
            if last != Some(&conflict.manager) {
                lines.push(format!("conflicts with {}:", conflict.manager));
                last = Some(&conflict.manager);
            }
            lines.push(format!("- {}", conflict.path));
        }
        let mut text = format!("Apply failed with {} conflicts: ", conflicts.len());
        let _ = write!(text, "{}", lines.join("\n"));
        text
    };
    let mut status = Status::new(409, "Conflict", message);
    let details = status.details.get_or_insert_default();
    details.causes = conflicts
        .iter()
        .map(|conflict| Cause {
            reason: "FieldManagerConflict".to_owned(),
            message: format!("conflict with {}", conflict.manager),
            field: conflict.path.to_string(),
        })
        .collect();
    status
}
