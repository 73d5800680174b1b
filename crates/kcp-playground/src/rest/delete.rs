//! Deletions of one object or of several, by requests and by garbage collection.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::json;

use super::delete_options::{DeleteOptions, Propagation};
use super::discovery::is_namespaces;
use super::select::{self, Chosen};
use super::write::{self, Written};
use super::{Call, Rest, paging, view};
use crate::builtin::namespaces;
use crate::catalog::{Admission, Resource, Scope, User};
use crate::status::Status;
use crate::store::{Filter as _, Key, Stored, Tx};
use kube_lang::object::Object;

/// The result of a deletion.
pub(crate) enum Fate {
    Gone(Object),
    /// The object is in deletion and has finalizers.
    Marked(Object),
}

impl Rest {
    pub(super) fn delete(&self, call: &Call<'_>, name: &str) -> Result<Written, Status> {
        let options = DeleteOptions::read(call)?;
        let outcome = self.transact(options.dry_run, |tx| {
            let resource = self.meant(tx, call, "delete")?;
            let (key, stored) = write::existing(tx, call, &resource, name)
                .map_err(|status| left_out(tx, call, &resource, name).unwrap_or(status))?;
            options.check(&resource, &stored.object())?;
            let fate = deletion(call, &options, &resource).apply(tx, (&key, &stored))?;
            tx.report(&key);
            Ok((resource, fate))
        })?;
        let (resource, fate) = outcome.value;
        let view = call.view(Arc::clone(&resource));
        let mut media_type = view.media_type();
        let body = match (outcome.reported, fate) {
            (Some(stored), _) => view.body(&stored)?,
            (None, Fate::Marked(object)) => view.transient(object)?,
            (None, Fate::Gone(object)) if is_shown_at_its_end(&resource) => {
                view.transient(object)?
            }
            (None, Fate::Gone(object)) => {
                media_type = None;
                success(&resource, &object)
            }
        };
        Ok(Written {
            code: 200,
            body,
            media_type,
            warnings: Vec::new(),
        })
    }

    pub(super) fn delete_collection(&self, call: &Call<'_>) -> Result<Written, Status> {
        let options = DeleteOptions::read(call)?;
        let limit = call.query.number("limit")?.filter(|limit| *limit > 0);
        let limit = limit.map_or(usize::MAX, |l| usize::try_from(l).unwrap_or(usize::MAX));
        let outcome = self.transact(options.dry_run, |tx| {
            let resource = self.meant(tx, call, "deletecollection")?;
            let cluster = call.cluster()?;
            let chosen = Chosen::parse(&call.query, &resource)?;
            let range = select::range(&call.request.scope, &resource, &call.path)?;
            let mut items = Vec::new();
            let doomed = tx.list(&range).into_iter();
            let mut doomed = doomed.filter(|stored| chosen.matches(stored));
            for stored in doomed.by_ref().take(limit) {
                let key = stored.key.clone();
                options.check(&resource, &stored.object())?;
                deletion(call, &options, &resource).apply(tx, (&key, &stored))?;
                // The object in its listed state.
                items.push(stored.object());
            }
            // The place where the next page begins.
            let next = doomed.next().and(items.last()).map(|last| {
                let namespace = last.namespace().unwrap_or_default();
                resource.table.key(&cluster, namespace, last.name()).place
            });
            let next = next.map(|next| (range, next));
            Ok((resource, items, next))
        })?;
        let (resource, items, next) = outcome.value;
        let view = call.view(resource);
        let items = items
            .into_iter()
            .map(|object| view.transient_item(object))
            .collect::<Result<_, Status>>()?;
        let mut meta = json!({"resourceVersion": outcome.revision.to_string()});
        if let Some((range, next)) = next {
            meta["continue"] = paging::next_page(outcome.revision, &range, &next).into();
        }
        view.complete(&mut meta);
        Ok(Written {
            code: 200,
            body: view.list(&meta, items)?.whole(),
            media_type: view.media_type(),
            warnings: Vec::new(),
        })
    }
}

/// A deletion: user, scope, kind and propagation.
pub(crate) struct Deletion<'a> {
    pub(crate) user: &'a User,
    pub(crate) scope: &'a Scope,
    pub(crate) resource: &'a Arc<Resource>,
    pub(crate) propagation: Option<Propagation>,
}

impl Deletion<'_> {
    /// Removes an object, or marks it as in deletion if it has finalizers.
    pub(crate) fn apply(
        &self,
        tx: &mut Tx<'_>,
        (key, stored): (&Key, &Stored),
    ) -> Result<Fate, Status> {
        let old = stored.object();
        if let Some(strategy) = &self.resource.strategy {
            let admission = Admission {
                user: self.user,
                scope: self.scope,
                cluster: key.cluster(),
                resource: self.resource,
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
        let finalizers = if is_events(self.resource) {
            None
        } else {
            Propagation::finalizers(self.propagation, &object)
        };
        let changed = finalizers.is_some();
        if let Some(finalizers) = finalizers {
            let metadata = object.metadata_mut();
            if finalizers.is_empty() {
                metadata.remove("finalizers");
            } else {
                metadata.insert("finalizers".into(), finalizers.into());
            }
        }
        let was_in_deletion = object.in_deletion();
        if was_in_deletion && !changed {
            return Ok(Fate::Marked(object));
        }
        // A namespace has finalizers of its own in its spec, and is removed when these are gone.
        let waits = was_in_deletion && is_namespaces(self.resource);
        if object.finalizers().next().is_none() && !waits {
            tx.remove(key);
            return Ok(Fate::Gone(object));
        }
        if !was_in_deletion {
            namespaces::mark(tx, &mut object);
        }
        tx.put(key, object.clone())?;
        Ok(Fate::Marked(object))
    }
}

/// The refusal for an object that exists, but that no permission claim covers.
fn left_out(tx: &Tx<'_>, call: &Call<'_>, resource: &Resource, name: &str) -> Option<Status> {
    let key = write::named(call, resource, name).ok()?;
    tx.get(&key).filter(|_| call.request.scope.is_view())?;
    let why = "no permission claim covers it";
    Some(Status::forbidden(
        &resource.group,
        &resource.plural,
        name,
        why,
    ))
}

/// Whether the response to a deletion is the object instead of a `Status`.
fn is_shown_at_its_end(resource: &Resource) -> bool {
    let shown = ["serviceaccounts", "resourcequotas"];
    resource.group.is_empty() && shown.contains(&&*resource.plural)
}

/// Events have no owners and no dependents, so propagation does not apply.
fn is_events(resource: &Resource) -> bool {
    resource.table.group.is_empty() && *resource.table.resource == *"events"
}

fn deletion<'a>(
    call: &'a Call<'_>,
    options: &DeleteOptions,
    resource: &'a Arc<Resource>,
) -> Deletion<'a> {
    Deletion {
        user: &call.request.user,
        scope: &call.request.scope,
        resource,
        propagation: options.propagation,
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
