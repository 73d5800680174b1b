//! Field ownership after a write: the inputs from requests and catalogs.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};

use super::ground::Ground;
use super::query::{MAX_MANAGER, is_printed};
use super::{Call, Rest};
use crate::builtin::namespaces;
use crate::catalog::{Admission, Catalog, Flavour, Resource, Scope, Verbs};
use crate::fields::builtin::Struct;
use crate::fields::{Managed, Ownership, Set, Typed, Versions};
use crate::status::Status;
use kube_lang::object::{Gvk, Object};

/// How a write changes the entries.
#[derive(Clone, Copy)]
pub(super) enum Account<'a> {
    /// The object already has its entries.
    Given,
    /// As an update of the earlier object, if there was one.
    Update {
        manager: &'a str,
        live: Option<&'a Object>,
    },
}

/// The manager: from the request, or from the beginning of its user agent.
pub(super) fn manager(call: &Call<'_>, options: &str) -> Result<String, Status> {
    let named = call.query.field_manager(options)?;
    if !named.is_empty() {
        return Ok(named.to_owned());
    }
    let agent = call.request.headers.get(http::header::USER_AGENT);
    let agent = agent.map(|value| String::from_utf8_lossy(value.as_bytes()));
    let agent = agent.unwrap_or_default();
    let mut manager = String::new();
    let first = agent.split('/').next().unwrap_or_default();
    for c in first.chars().filter(|c| is_printed(*c)) {
        if manager.len() + c.len_utf8() > MAX_MANAGER {
            break;
        }
        manager.push(c);
    }
    Ok(manager)
}

impl Rest {
    /// Updates the entries of an object in its served version.
    pub(super) fn account(
        &self,
        ground: Ground<'_>,
        admission: &Admission<'_>,
        account: Account<'_>,
        object: &mut Value,
    ) {
        let Account::Update { manager, live } = account else {
            return;
        };
        if admission.resource.verbs == Verbs::CreateOnly {
            if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
                metadata.remove("managedFields");
            }
            return;
        }
        let live = match live {
            Some(live) => live.as_value(),
            None => unset(admission.resource),
        };
        let served = Served::new(self, ground, admission);
        let now = namespaces::in_metadata(self.store.now());
        served.ownership(&now).update(live, object, manager);
    }
}

/// The fields that an object of a kind has even if no field is set.
fn unset(resource: &Resource) -> &'static Value {
    static NOTHING: LazyLock<Value> = LazyLock::new(|| json!({}));
    let known = resource.fields.structure();
    known.map_or(&NOTHING, Struct::zero)
}

/// An object of a kind without any field set.
pub(super) fn zero(resource: &Resource) -> Value {
    let gvk = Gvk::new(&resource.group, &resource.version, &resource.kind);
    let mut zero = unset(resource).clone();
    if resource.flavour != Flavour::Custom {
        zero["metadata"] = json!({});
    }
    zero["apiVersion"] = gvk.api_version().into();
    zero["kind"] = gvk.kind.into();
    zero
}

/// Keeps the times of unchanged entries of an unchanged object, so that the write has no effect.
pub(super) fn keep_times(object: &mut Object, old: &Object) {
    fn entries(object: &Object) -> Option<&Value> {
        object.root().get("metadata")?.get("managedFields")
    }
    if !is_as_it_was(object, old) {
        return;
    }
    let (Some(mine), Some(before)) = (entries(object), entries(old)) else {
        return;
    };
    if mine != before && timeless(mine) == timeless(before) {
        let before = before.clone();
        object.metadata_mut().insert("managedFields".into(), before);
    }
}

/// Whether objects differ only in their entries and revisions.
fn is_as_it_was(object: &Object, old: &Object) -> bool {
    fn content(object: &Object) -> impl Iterator<Item = (&String, &Value)> {
        let fields = object.root().iter();
        fields.filter(|(field, _)| *field != "metadata")
    }
    fn metadata(object: &Object) -> impl Iterator<Item = (&String, &Value)> {
        let metadata = object.root().get("metadata").and_then(Value::as_object);
        let fields = metadata.into_iter().flatten();
        fields.filter(|(field, _)| !matches!(field.as_str(), "managedFields" | "resourceVersion"))
    }
    metadata(object).eq(metadata(old)) && content(object).eq(content(old))
}

fn timeless(entries: &Value) -> Managed {
    let mut managed = Managed::decode(Some(entries)).unwrap_or_default();
    managed.times.clear();
    managed
}

/// The versions of a kind in the scope of a request.
pub(super) struct Served<'a> {
    rest: &'a Rest,
    ground: Ground<'a>,
    scope: &'a Scope,
    resource: &'a Resource,
    subresource: &'a str,
    version: String,
    catalog: OnceCell<Option<Arc<Catalog>>>,
}

impl<'a> Served<'a> {
    pub(super) fn new(rest: &'a Rest, ground: Ground<'a>, admission: &Admission<'a>) -> Self {
        let resource = admission.resource;
        Self {
            rest,
            ground,
            scope: admission.scope,
            resource,
            subresource: admission.subresource,
            version: Gvk::new(&resource.group, &resource.version, "").api_version(),
            catalog: OnceCell::new(),
        }
    }

    pub(super) fn ownership<'s>(&'s self, now: &'s str) -> Ownership<'s> {
        Ownership {
            versions: self,
            kind: &self.resource.fields,
            version: &self.version,
            subresource: self.subresource,
            now,
        }
    }

    fn find(&self, version: &str) -> Option<&Arc<Resource>> {
        let catalog = self
            .catalog
            .get_or_init(|| self.rest.catalog(self.ground, self.scope).ok());
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let plural = &self.resource.plural;
        let found = catalog.as_ref()?.find(group, version, plural)?;
        (found.table == self.resource.table).then_some(found)
    }
}

fn converted(from: &Resource, to: &Resource, object: &Value) -> Result<Value, Status> {
    let mut object = Object::new(object.clone()).map_err(Status::internal)?;
    if let Some(conversion) = &from.conversion {
        object = conversion.to_storage(object)?;
    }
    if let Some(conversion) = &to.conversion {
        object = conversion.to_served(object)?;
    }
    object.set_gvk(&Gvk::new(&to.group, &to.version, &to.kind));
    Ok(object.into_value())
}

impl Versions for Served<'_> {
    fn convert<'v>(&self, object: &'v Value, version: &str) -> Result<Option<Typed<'v>>, String> {
        let from = object["apiVersion"].as_str().unwrap_or(&self.version);
        if from == version && version == self.version {
            return Ok(Some(Typed {
                value: Cow::Borrowed(object),
                kind: self.resource.fields.clone(),
            }));
        }
        let resource = |version: &str| {
            if version == self.version {
                Some(self.resource)
            } else {
                self.find(version).map(|found| &**found)
            }
        };
        let Some(to) = resource(version) else {
            return Ok(None);
        };
        let value = match resource(from) {
            Some(source) if from != version => {
                let value = converted(source, to, object).map_err(|status| status.message)?;
                Cow::Owned(value)
            }
            _ => Cow::Borrowed(object),
        };
        let kind = to.fields.clone();
        Ok(Some(Typed { value, kind }))
    }

    fn unwritten(&self, version: &str) -> &Set {
        let own = version == self.version;
        let found = if own { None } else { self.find(version) };
        let resource = found.map_or(self.resource, |found| &**found);
        unwritten(resource, self.subresource)
    }
}

/// The fields that an endpoint does not change, whatever a client sends.
fn unwritten(resource: &Resource, subresource: &str) -> &'static Set {
    macro_rules! fields {
        ($($path:literal),*) => {{
            static FIELDS: LazyLock<Set> = LazyLock::new(|| Set::of_fields(&[$($path),*]));
            &*FIELDS
        }};
    }
    let custom = resource.flavour == Flavour::Custom;
    match (&*resource.kind, subresource) {
        (_, "") if custom && resource.has_status => fields!("status"),
        (_, "status") if custom => fields!("metadata", "spec"),
        // The server sets the defaults of a namespace.
        ("Namespace" | "CertificateSigningRequest", "") => fields!("spec", "status"),
        ("CertificateSigningRequest", "status") => fields!("spec", "status.conditions"),
        ("ValidatingAdmissionPolicy", "status") => fields!("spec", "metadata"),
        (_, "status") => fields!("spec"),
        (_, "finalize") => fields!("status"),
        _ if resource.has_status => fields!("status"),
        _ => fields!(),
    }
}
