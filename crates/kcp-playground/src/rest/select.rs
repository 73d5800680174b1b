//! The objects of a table that a request selects.

use std::borrow::Cow;
use std::sync::Arc;

use super::query::Query;
use super::query::selector as refuse;
use super::target::ResourcePath;
use super::view;
use crate::catalog::{Flavour, Resource, Scope, Shard};
use crate::select::{FieldSelector, LabelSelector, SelectError};
use crate::status::Status;
use crate::store::{Filter, Key, Range, Stored};

/// The part of a table in a scope and a namespace.
pub(super) fn range(
    scope: &Scope,
    resource: &Resource,
    path: &ResourcePath,
) -> Result<Range, Status> {
    if matches!(scope, Scope::ExportWildcard { .. }) && path.namespace.is_some() {
        let why = "a namespace cannot be listed or watched across clusters";
        return Err(Status::bad_request(why));
    }
    Ok(Range {
        table: resource.table.clone(),
        cluster: scope.cluster().cloned(),
        namespace: path.namespace.as_deref().map(Into::into),
    })
}

/// The key of a named object.
pub(super) fn key(
    scope: &Scope,
    resource: &Resource,
    path: &ResourcePath,
    name: &str,
) -> Option<Key> {
    let namespace = path.namespace.as_deref().unwrap_or_default();
    let cluster = scope.cluster()?;
    Some(resource.table.key(cluster, namespace, name))
}

/// Whether a scope shows an object of a resource at all.
pub(super) fn visible(resource: &Resource, stored: &Stored) -> bool {
    let labelled = match &resource.required_label {
        Some((key, value)) => stored.labels.get(key) == Some(&**value),
        None => true,
    };
    labelled
        && match &resource.only {
            Some(only) => only(stored.cached()),
            None => true,
        }
}

/// The filter of selectors and scope over a range.
pub(super) struct Chosen {
    resource: Arc<Resource>,
    labels: LabelSelector,
    fields: FieldSelector,
    /// The selector can match nothing.
    is_nothing: bool,
    /// The selector names another field than name and namespace.
    looks_inside: bool,
    /// The only shard whose objects are selected.
    shard: Option<Shard>,
}

impl Chosen {
    pub(super) fn parse(query: &Query<'_>, resource: &Arc<Resource>) -> Result<Self, Status> {
        let fields = query.field_selector()?;
        let selectable = &resource.selectable_fields;
        fields
            .check(|field| match field {
                // Kinds with field labels of their own have no namespace label if they are cluster-scoped.
                "metadata.namespace" => {
                    let others = resource.flavour != Flavour::Custom && selectable.is_empty();
                    resource.namespaced || others
                }
                field => is_metadata(field) || selectable.iter().any(|known| **known == *field),
            })
            .map_err(|error| match error {
                // Kinds without selectable fields of their own have this message.
                SelectError::UnsupportedField(field)
                    if selectable.is_empty() && resource.flavour != Flavour::Custom =>
                {
                    Status::bad_request(format!(
                        "{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
                    ))
                }
                error => refuse(&error),
            })?;
        let looks_inside = fields.check(is_metadata).is_err();
        Ok(Self {
            resource: Arc::clone(resource),
            labels: query.label_selector()?,
            fields,
            is_nothing: false,
            looks_inside,
            shard: None,
        })
    }

    /// In all clusters, a selector cannot determine a single key.
    pub(super) fn within(self, scope: &Scope) -> Self {
        let key = if self.resource.namespaced {
            "metadata.namespace"
        } else {
            "metadata.name"
        };
        let (across, shard) = match scope {
            Scope::ExportWildcard { shard, .. } => (true, *shard),
            _ => (false, None),
        };
        Self {
            is_nothing: across && self.fields.exact(key).is_some(),
            shard,
            ..self
        }
    }

    /// Whether all visible objects are selected.
    pub(super) fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty() && self.shard.is_none()
    }

    /// Whether at most one object of a range can be selected, by its name.
    pub(super) fn is_one(&self, range: &Range) -> bool {
        let whole =
            range.cluster.is_some() && (range.namespace.is_some() || !self.resource.namespaced);
        whole && self.fields.exact("metadata.name").is_some()
    }

    fn fields_match(&self, stored: &Stored) -> bool {
        if self.fields.is_empty() {
            return true;
        }
        if !self.looks_inside {
            return self.fields.matches(|field| match field {
                "metadata.name" => Cow::Borrowed(&**stored.key.name()),
                _ => Cow::Borrowed(&**stored.key.namespace()),
            });
        }
        // Some selectable fields are computed from others.
        let kept = stored.object();
        let strategy = self.resource.strategy.as_ref();
        // An object that cannot be converted to this version does not match by its fields.
        let Ok(object) = view::serve(&self.resource, kept.clone()) else {
            return false;
        };
        self.fields.matches_object_with(object.as_value(), |field| {
            strategy.and_then(|strategy| strategy.field(&kept, field))
        })
    }
}

fn is_metadata(field: &str) -> bool {
    matches!(field, "metadata.name" | "metadata.namespace")
}

impl Filter for Chosen {
    fn matches(&self, stored: &Stored) -> bool {
        let is_here = |shard: Shard| shard.has(stored.key.cluster());
        !self.is_nothing
            && self.shard.is_none_or(is_here)
            && visible(&self.resource, stored)
            && (self.labels.is_empty() || self.labels.matches_by(|key| stored.labels.get(key)))
            && self.fields_match(stored)
    }
}
