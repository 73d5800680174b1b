//! Creates. Objects are prepared before the transaction that stores them, so that many can be prepared concurrently.

use std::sync::Arc;

use bytes::Bytes;

use super::complaints::Complaints;
use super::ground::Ground;
use super::owning::{self, Account};
use super::query::FieldValidation;
use super::write::{self, Recorded, Shaped, Written};
use super::{Call, Rest, body, metadata};
use crate::builtin::namespaces;
use crate::catalog::{Admission, Flavour, Resource, Verbs};
use crate::status::Status;
use crate::store::{Key, Stored, Tx};
use kube_lang::object::Object;
use kube_schema::json::Document;

/// The number of attempts to generate a free name.
const NAME_TRIES: usize = 8;

/// An object that is prepared for storing, or that is never stored.
struct Ready {
    resource: Arc<Resource>,
    made: Made,
}

enum Made {
    ToStore(Key, Shaped),
    /// An answer without a stored object.
    Answer(Object),
}

/// A create request, as it was sent.
struct Sent<'a> {
    manager: &'a str,
    validation: FieldValidation,
    body: &'a Bytes,
}

impl Rest {
    pub(super) fn create(&self, call: &Call<'_>) -> Result<Written, Status> {
        let mut document = Some(self.document(call, "create")?);
        let sent = Sent {
            manager: &owning::manager(call, "CreateOptions")?,
            validation: call.query.field_validation("CreateOptions")?,
            body: &call.request.body,
        };
        let dry_run = call.query.dry_run("CreateOptions")?;
        let ahead = self.meant_alone(call).and_then(|resource| {
            let ground = Ground::Ahead(&self.store);
            let ready = self.ready_to_create(ground, call, (Ok(resource), document.take()?), &sent);
            // Errors are reported with the state of the transaction.
            ready.ok()
        });
        let outcome = self.transact(dry_run, |tx| {
            let ahead = ahead.filter(|(ready, _)| self.still_fits(tx, call, ready));
            let (ready, complaints) = if let Some(ready) = ahead {
                ready
            } else {
                let document = match document {
                    Some(document) => document,
                    None => body::document(&call.request.headers, sent.body)?,
                };
                let found = self.meant(tx, call, "create");
                self.ready_to_create(Ground::Inside(tx), call, (found, document), &sent)?
            };
            let left = put(tx, call, ready).map_err(|status| complaints.beside(status))?;
            Ok(left.warned(&complaints))
        });
        write::answer(call, 201, outcome?)
    }

    /// The resource of the request, if preparing its object does not depend on other objects.
    fn meant_alone(&self, call: &Call<'_>) -> Option<Arc<Resource>> {
        let found = self.store.read(|read| self.meant(read, call, "create"));
        found.ok().filter(|resource| {
            let strategy = resource.strategy.as_ref();
            strategy.is_none_or(|strategy| !strategy.looks_around())
        })
    }

    fn ready_to_create(
        &self,
        ground: Ground<'_>,
        call: &Call<'_>,
        (found, document): (Result<Arc<Resource>, Status>, Document),
        sent: &Sent<'_>,
    ) -> Result<(Ready, Complaints), Status> {
        let mut complaints = Complaints::about(sent.validation, &document, sent.body);
        let ready = || {
            let resource = found?;
            let mut object = write::decode(document.value, &resource, &mut complaints)?;
            write::fit_namespace(&mut object, &call.path)?;
            let account = Account::Update {
                manager: sent.manager,
                live: None,
            };
            complaints.doubt((&resource, &call.path), &object, None);
            self.ready(ground, call, resource, object, account)
        };
        match ready() {
            Ok(ready) => Ok((ready, complaints)),
            Err(status) => Err(complaints.beside(status)),
        }
    }

    /// Stores an object under a free key.
    pub(super) fn create_object(
        &self,
        tx: &mut Tx<'_>,
        call: &Call<'_>,
        resource: Arc<Resource>,
        object: Object,
        account: Account<'_>,
    ) -> Result<Recorded, Status> {
        let ready = self.ready(Ground::Inside(tx), call, resource, object, account)?;
        put(tx, call, ready)
    }

    /// Sets the identity of a new object, and converts it to its stored form.
    fn ready(
        &self,
        ground: Ground<'_>,
        call: &Call<'_>,
        resource: Arc<Resource>,
        mut object: Object,
        account: Account<'_>,
    ) -> Result<Ready, Status> {
        metadata::stamp_new(&mut object, &namespaces::in_metadata(self.store.now()))?;
        let cluster = call.cluster()?;
        let stored = resource.verbs != Verbs::CreateOnly;
        let prefix = object.root()["metadata"]["generateName"].as_str();
        if object.name().is_empty()
            && let Some(prefix) = prefix.filter(|prefix| !prefix.is_empty())
        {
            let name = free_name(ground, call, &resource, prefix)?;
            object.metadata_mut().insert("name".into(), name.into());
        }
        let name = object.name().to_owned();
        if let (Some(namespace), true) = (&call.path.namespace, stored) {
            ground
                .read(|read| namespaces::check_open(read, &cluster, namespace, &resource, &name))?;
        }
        self.admit(ground, call, (&resource, true), &mut object)?;
        let admission = Admission {
            user: &call.request.user,
            scope: &call.request.scope,
            cluster: &cluster,
            resource: &resource,
            subresource: "",
            old: None,
        };
        if resource.has_status {
            object.root_mut().remove("status");
        }
        if resource.flavour != Flavour::BuiltIn {
            object.metadata_mut().insert("generation".into(), 1.into());
        }
        let shaped = self.shape(ground, &admission, object, account)?;
        let made = if stored {
            Made::ToStore(write::named(call, &resource, &name)?, shaped)
        } else {
            let strategy = resource.strategy.as_ref();
            let answer = strategy.and_then(|s| s.answer(&admission, &shaped.object));
            Made::Answer(answer.unwrap_or(shaped.object))
        };
        Ok(Ready { resource, made })
    }

    /// Whether the prepared object is still valid and can be stored.
    fn still_fits(&self, tx: &Tx<'_>, call: &Call<'_>, ready: &Ready) -> bool {
        let Ready { resource, made } = ready;
        let Made::ToStore(key, _) = made else {
            return false;
        };
        let found = self.meant(tx, call, "create");
        let open = || match &call.path.namespace {
            Some(namespace) => {
                let (cluster, name) = (key.cluster(), key.name());
                namespaces::check_open(tx, cluster, namespace, resource, name).is_ok()
            }
            None => true,
        };
        // Labels of a view are added in the transaction.
        let admitted = || {
            let scope = &call.request.scope;
            !scope.is_view() && self.scopes.admit(tx, scope, resource, true).is_ok()
        };
        let same = found.is_ok_and(|found| Arc::ptr_eq(&found, resource));
        same && open() && admitted() && tx.get(key).is_none()
    }
}

fn put(tx: &mut Tx<'_>, call: &Call<'_>, ready: Ready) -> Result<Recorded, Status> {
    let Ready { resource, made } = ready;
    let (key, shaped) = match made {
        Made::ToStore(key, shaped) => (key, shaped),
        Made::Answer(answer) => return Ok(Recorded::new(resource, Some(answer))),
    };
    if let Some(there) = tx.get(&key) {
        return Err(already_there(&resource, &there));
    }
    write::check_size(call, 0, &shaped.object)?;
    tx.put_stamped(&key, shaped.object, shaped.stamp)?;
    tx.report(&key);
    Ok(Recorded::new(resource, None))
}

fn free_name(
    ground: Ground<'_>,
    call: &Call<'_>,
    resource: &Resource,
    prefix: &str,
) -> Result<String, Status> {
    for _ in 0..NAME_TRIES {
        let name = metadata::generate(prefix);
        let key = write::named(call, resource, &name)?;
        if ground.read(|read| read.get(&key)).is_none() {
            return Ok(name);
        }
    }
    Err(Status::already_exists(
        &resource.group,
        &resource.plural,
        prefix,
    ))
}

fn already_there(resource: &Resource, there: &Stored) -> Status {
    let name = there.key.name();
    let mut status = Status::already_exists(&resource.group, &resource.plural, name);
    if there.object().in_deletion() {
        status.message = format!("object is being deleted: {}", status.message);
    }
    status
}
