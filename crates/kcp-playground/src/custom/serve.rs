//! From a definition to the resources that it serves.

use std::sync::Arc;

use super::{FittedSchema, hash};
use crate::catalog::{self, Flavour, ObjectSchema, Resource, Verbs};
use crate::fields;
use crate::status::Status;
use crate::store::{Name, Table};
use crate::table::{Custom, Printer};
use kube_lang::object::Object;
use kube_schema::crd::{Conversion, Definition};
use kube_schema::names::Scope;

/// The origin of a definition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin<'a> {
    /// The identity of the export, for a bound definition; otherwise empty.
    pub identity: &'a str,
    /// Watches end when another one replaces it.
    pub uid: &'a str,
}

/// One resource for each served version, in the order of the definition.
pub(crate) fn serve(definition: Definition, origin: &Origin<'_>) -> Vec<Resource> {
    let storage: Name = definition
        .storage_version()
        .map(|version| version.name.as_str())
        .unwrap_or_default()
        .into();
    let all = |names: &[String]| names.iter().map(|name| Name::from(name.as_str())).collect();
    let names = &definition.names;
    let group: Name = definition.group.as_str().into();
    let mut resources = Vec::new();
    let storage_schema = definition.storage_version().map(|version| {
        let schema = FittedSchema::new(version.schema.clone(), &version.schema_document);
        Arc::new(schema) as Arc<dyn ObjectSchema>
    });
    for version in definition.versions {
        if !version.served {
            continue;
        }
        let fields = fields::of_schema(&version.schema_document);
        let schema = FittedSchema::new(version.schema, &version.schema_document);
        let namespaced = definition.scope == Scope::Namespaced;
        resources.push(Resource {
            group: group.clone(),
            version: version.name.as_str().into(),
            plural: names.plural.as_str().into(),
            singular: names.singular.as_str().into(),
            kind: names.kind.as_str().into(),
            list_kind: names.list_kind.as_str().into(),
            short_names: all(&names.short_names),
            categories: all(&names.categories),
            namespaced,
            table: Table::new(&group, &names.plural, origin.identity),
            storage_version: storage.clone(),
            has_status: version.status,
            verbs: Verbs::All,
            flavour: Flavour::Custom,
            name_rule: definition.name_rule,
            schema: Some(Arc::new(schema) as Arc<dyn ObjectSchema>),
            storage_schema: storage_schema.clone().filter(|_| *version.name != *storage),
            fields,
            strategy: None,
            conversion: (definition.conversion == Conversion::Webhook && *version.name != *storage)
                .then(|| Arc::new(Uncalled) as Arc<dyn catalog::Conversion>),
            required_label: None,
            only: None,
            selectable_fields: version
                .selectable_fields
                .iter()
                .map(|path| path.trim_start_matches('.').into())
                .collect(),
            printer: Some(Arc::new(Custom::new(&version.columns)) as Arc<dyn Printer>),
            incarnation: hash((origin.uid, origin.identity, namespaced, &names.kind)),
        });
    }
    resources
}

/// Replaces a conversion webhook: versions other than the stored one are refused, not guessed.
struct Uncalled;

impl Uncalled {
    fn refuse(object: &Object) -> Status {
        Status::internal(format!(
            "{} {:?} would have to be converted by a webhook, and this server calls none; use the storage version",
            object.kind(),
            object.name()
        ))
    }
}

impl catalog::Conversion for Uncalled {
    fn to_served(&self, stored: Object) -> Result<Object, Status> {
        Err(Self::refuse(&stored))
    }

    fn to_storage(&self, served: Object) -> Result<Object, Status> {
        Err(Self::refuse(&served))
    }
}
