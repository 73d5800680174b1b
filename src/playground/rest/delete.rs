//! Deletions of one object or of many.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use super::query;
use super::select::{self, Chosen};
use super::write::{self, Written};
use super::{Call, Rest, body, view};
use crate::object::Object;
use crate::playground::builtin::namespaces;
use crate::playground::catalog::{Admission, Resource};
use crate::playground::field::FieldError;
use crate::playground::status::Status;
use crate::playground::store::{Filter as _, Key, Stored, Tx};

const OPTIONS: &str = "DeleteOptions";

/// How a deletion is meant, from its query and its body.
#[derive(Debug, Default)]
struct DeleteOptions {
    dry_run: bool,
    uid: Option<String>,
    resource_version: Option<String>,
}

/// What became of an object.
enum Fate {
    Gone(Object),
    /// Something holds it back.
    Marked(Object),
}

impl DeleteOptions {
    fn read(call: &Call<'_>) -> Result<Self, Status> {
        let mut options = Self {
            dry_run: call.query.dry_run(OPTIONS)?,
            ..Self::default()
        };
        check_policy(call.query.get("propagationPolicy"))?;
        if call.request.body.is_empty() {
            return Ok(options);
        }
        let document = body::document(&call.request.headers, &call.request.body)?.value;
        let Some(fields) = document.as_object() else {
            return Err(Status::bad_request(
                "the body of a deletion must be DeleteOptions",
            ));
        };
        if let Some(kind) = fields.get("kind").filter(|kind| *kind != "DeleteOptions") {
            return Err(Status::bad_request(format!(
                "the body of a deletion must be DeleteOptions, not {kind}"
            )));
        }
        check_policy(fields.get("propagationPolicy").and_then(Value::as_str))?;
        match fields
            .get("dryRun")
            .and_then(Value::as_array)
            .map(Vec::as_slice)
        {
            None | Some([]) => {}
            Some([all]) if all == "All" => options.dry_run = true,
            Some([other, ..]) => {
                let other = other.as_str().unwrap_or_default();
                return Err(query::unsupported_dry_run(OPTIONS, other));
            }
        }
        let text = |field: &str| {
            let value = fields.get("preconditions")?.get(field)?.as_str()?;
            (!value.is_empty()).then(|| value.to_owned())
        };
        options.uid = text("uid");
        options.resource_version = text("resourceVersion");
        Ok(options)
    }
}

impl DeleteOptions {
    /// Whether the object is the one that is meant.
    fn check(&self, resource: &Resource, object: &Object) -> Result<(), Status> {
        let fail = |why: String| {
            // Known by its kind here, not by its resource.
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
}

fn check_policy(policy: Option<&str>) -> Result<(), Status> {
    match policy {
        None | Some("" | "Background" | "Foreground" | "Orphan") => Ok(()),
        Some(other) => Err(query::bad_options(
            OPTIONS,
            FieldError::not_supported(
                "propagationPolicy",
                other,
                ["Foreground", "Background", "Orphan", "nil"],
            ),
        )),
    }
}

impl Rest {
    pub(super) fn delete(&self, call: &Call<'_>, name: &str) -> Result<Written, Status> {
        let options = DeleteOptions::read(call)?;
        let outcome = self.transact(options.dry_run, |tx| {
            let resource = self.find(tx, &call.request.scope, &call.path, "delete")?;
            let (key, stored) = write::existing(tx, call, &resource, name)?;
            options.check(&resource, &stored.object())?;
            let fate = Self::delete_in(tx, call, &resource, (&key, &stored))?;
            tx.report(&key);
            Ok((resource, fate))
        })?;
        let (resource, fate) = outcome.value;
        let view = call.view(Arc::clone(&resource));
        let body = match (outcome.reported, fate) {
            (Some(stored), _) => view.body(&stored)?,
            (None, Fate::Marked(object)) => view.transient(object)?,
            (None, Fate::Gone(object)) => success(&resource, &object),
        };
        Ok(Written {
            code: 200,
            body,
            warnings: Vec::new(),
        })
    }

    pub(super) fn delete_collection(&self, call: &Call<'_>) -> Result<Written, Status> {
        let options = DeleteOptions::read(call)?;
        let limit = call.query.number("limit")?.filter(|limit| *limit > 0);
        let limit = limit.map_or(usize::MAX, |l| usize::try_from(l).unwrap_or(usize::MAX));
        let outcome = self.transact(options.dry_run, |tx| {
            let resource = self.find(tx, &call.request.scope, &call.path, "deletecollection")?;
            write::cluster(call)?;
            let chosen = Chosen::parse(&call.query, &resource)?;
            let range = select::range(&call.request.scope, &resource, &call.path);
            let mut items = Vec::new();
            let doomed = tx.list(&range).into_iter();
            for stored in doomed.filter(|stored| chosen.matches(stored)).take(limit) {
                let key = stored.key.clone();
                let (Fate::Gone(object) | Fate::Marked(object)) =
                    Self::delete_in(tx, call, &resource, (&key, &stored))?;
                items.push(object);
            }
            Ok((resource, items))
        })?;
        let (resource, items) = outcome.value;
        let view = call.view(resource);
        let items: Vec<Bytes> = items
            .into_iter()
            .map(|object| view.transient_item(object))
            .collect::<Result<_, Status>>()?;
        let mut meta = json!({"resourceVersion": outcome.revision.to_string()});
        view.complete(&mut meta);
        Ok(Written {
            code: 200,
            body: view.list(&meta, &items)?,
            warnings: Vec::new(),
        })
    }

    /// Removes an object, or marks one that finalizers hold.
    fn delete_in(
        tx: &mut Tx<'_>,
        call: &Call<'_>,
        resource: &Arc<Resource>,
        (key, stored): (&Key, &Stored),
    ) -> Result<Fate, Status> {
        let old = stored.object();
        if let Some(strategy) = &resource.strategy {
            let admission = Admission {
                user: &call.request.user,
                scope: &call.request.scope,
                cluster: key.cluster(),
                resource,
                subresource: "",
                old: Some(&old),
            };
            strategy.before_delete(tx, &admission, &old)?;
        }
        // The strategy may have taken part in the deletion.
        let Some(now) = tx.get(key) else {
            return Ok(Fate::Gone(old));
        };
        let mut object = now.object();
        if object.in_deletion() {
            return Ok(Fate::Marked(object));
        }
        if object.finalizers().next().is_none() {
            tx.remove(key);
            return Ok(Fate::Gone(object));
        }
        namespaces::mark(tx, &mut object);
        tx.put(key, object.clone())?;
        Ok(Fate::Marked(object))
    }
}

fn success(resource: &Resource, object: &Object) -> Bytes {
    let mut details = json!({"name": object.name(), "kind": &*resource.plural});
    if !resource.group.is_empty() {
        details["group"] = (&*resource.group).into();
    }
    if let Some(uid) = object.uid() {
        details["uid"] = uid.into();
    }
    view::bytes(&json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details,
    }))
}
