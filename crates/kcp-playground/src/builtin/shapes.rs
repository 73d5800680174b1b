//! Decodes built-in kinds as a server with typed kinds does: unknown fields are dropped, and an object with values of
//! other types is not accepted.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock, OnceLock};

use serde_json::Value;

use super::{members, typed};
use crate::catalog::{Admission, ObjectSchema, Strategy};
use crate::custom;
use crate::openapi::builtin::types;
use crate::status::Status;
use crate::store::{Read, Tx};
use kube_lang::object::Object;
use kube_schema::field::{FieldError, Path};
use kube_schema::schema::Schema;

/// The decoder of a kind. Created with the table, and computed when the first object is written.
pub(super) struct Shape {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    /// The type, if the kind has one.
    members: OnceLock<Option<members::MemberType>>,
    schema: OnceLock<Schema>,
}

impl Shape {
    pub(super) fn new(group: &'static str, version: &'static str, kind: &'static str) -> Self {
        Self {
            group,
            version,
            kind,
            members: OnceLock::new(),
            schema: OnceLock::new(),
        }
    }

    fn name(&self) -> Option<&'static str> {
        types().name_of(self.group, self.version, self.kind)
    }

    fn members(&self) -> Option<members::MemberType> {
        *self
            .members
            .get_or_init(|| self.name().and_then(members::named))
    }

    /// The types of the kind's fields.
    fn schema(&self) -> &Schema {
        self.schema.get_or_init(|| {
            let document = self.name().and_then(typed::structural);
            document.map_or_else(Schema::anything, |document| {
                Schema::compile(&document, &Path::Root)
                    .expect("a test compiles the type of every kind of the table")
            })
        })
    }
}

/// Drops unknown fields and nulls. [`DecodedKind`] checks the types, so that a wrong type is a bad request and not an
/// invalid object.
pub(super) struct Dropping(pub(super) Arc<Shape>);

impl ObjectSchema for Dropping {
    fn stamp(&self) -> u64 {
        // The types of a built-in kind do not change.
        custom::hash(("built-in", self.0.group, self.0.version, self.0.kind))
    }

    fn prune(&self, object: &mut Value) -> Vec<String> {
        self.0
            .members()
            .map_or_else(Vec::new, |kind| kind.prune(object))
    }

    fn default(&self, object: &mut Value) {
        // Types have no other default than this one.
        if has_null(object) {
            self.0.schema().default(object);
        }
    }

    fn validate(&self, _object: &Value, _old: Option<&Value>) -> Vec<FieldError> {
        Vec::new()
    }
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(has_null),
        Value::Object(map) => map.values().any(has_null),
        _ => false,
    }
}

/// The types of the fields that all objects have.
static METADATA: LazyLock<Schema> = LazyLock::new(|| {
    let document = typed::structural(typed::METADATA);
    let compiled = document.map(|document| Schema::compile(&document, &Path::Root));
    compiled
        .expect("metadata have a published type")
        .expect("a test compiles it")
});

/// The values that have another type than their field.
fn misfit(schema: &Schema, value: &Value) -> Option<FieldError> {
    // Go treats null as a missing value.
    let mut decoded = Cow::Borrowed(value);
    if has_null(&decoded) {
        schema.default(decoded.to_mut());
    }
    schema.validate(&decoded, None).into_iter().next()
}

/// A kind whose objects have to decode before any other check.
pub(super) struct DecodedKind {
    pub(super) shape: Arc<Shape>,
    pub(super) rules: Option<Arc<dyn Strategy>>,
}

impl Strategy for DecodedKind {
    fn looks_around(&self) -> bool {
        self.rules
            .as_ref()
            .is_some_and(|rules| rules.looks_around())
    }

    fn prepare(
        &self,
        read: &dyn Read,
        admission: &Admission<'_>,
        object: &mut Object,
    ) -> Result<(), Status> {
        let metadata = object.root().get("metadata");
        let wrong = misfit(self.shape.schema(), object.as_value());
        let wrong = wrong.or_else(|| misfit(&METADATA, metadata?));
        if let Some(error) = wrong {
            let (kind, version) = (&admission.resource.kind, &admission.resource.version);
            return Err(Status::bad_request(format!(
                "{kind} in version {version:?} cannot be handled as a {kind}: {error}"
            )));
        }
        match &self.rules {
            Some(rules) => rules.prepare(read, admission, object),
            None => Ok(()),
        }
    }

    fn validate(&self, admission: &Admission<'_>, object: &Object) -> Vec<FieldError> {
        match &self.rules {
            Some(rules) => rules.validate(admission, object),
            None => Vec::new(),
        }
    }

    fn before_delete(
        &self,
        tx: &mut Tx<'_>,
        admission: &Admission<'_>,
        object: &Object,
    ) -> Result<(), Status> {
        match &self.rules {
            Some(rules) => rules.before_delete(tx, admission, object),
            None => Ok(()),
        }
    }

    fn field<'o>(&self, object: &'o Object, field: &str) -> Option<&'o str> {
        self.rules.as_ref()?.field(object, field)
    }

    fn answer(&self, admission: &Admission<'_>, object: &Object) -> Option<Object> {
        self.rules.as_ref()?.answer(admission, object)
    }
}
