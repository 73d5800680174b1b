//! Events: one table, served as `v1` and as `events.k8s.io/v1`, and kept for an hour.

use std::sync::LazyLock;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use serde_json::Value;

use crate::catalog::{Admission, Conversion, Strategy};
use crate::status::Status;
use crate::store::{Key, Range, Read, Settler, Table, Tx};
use kube_lang::object::{Gvk, Object};
use kube_schema::field::FieldError;
use kube_schema::names;

pub(super) mod times;

pub(super) const VIEW_GROUP: &str = "events.k8s.io";

/// The lifetime of events, the default of a kube-apiserver.
const KEEP: SignedDuration = SignedDuration::from_hours(1);
/// The time between two removals of expired events. Until then, they stay in memory.
const ROUND: SignedDuration = SignedDuration::from_mins(1);

const MAX_REPORTER: usize = 128;
const MAX_NOTE: usize = 1024;

/// The names of a field: in `v1`, and in `events.k8s.io/v1` if they differ.
const RENAMED: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

static TABLE: LazyLock<Table> = LazyLock::new(|| Table::new("", "events", ""));

pub(super) struct Events;

/// Converts events to `events.k8s.io/v1` and back.
pub(super) struct EventView;

/// Removes expired events when another event is written.
#[derive(Default)]
pub(super) struct Expiry {
    /// The time of the last removal.
    last: Mutex<Option<Timestamp>>,
}

impl Conversion for EventView {
    fn to_served(&self, mut stored: Object) -> Result<Object, Status> {
        for (core, view) in RENAMED {
            rename(&mut stored, core, view);
        }
        // The core group shows this field even if it is empty, `events.k8s.io` does not.
        let root = stored.root_mut();
        for field in ["reportingController", "reportingInstance"] {
            if root.get(field).is_some_and(|value| *value == "") {
                root.remove(field);
            }
        }
        stored.set_gvk(&Gvk::new(VIEW_GROUP, "v1", "Event"));
        Ok(stored)
    }

    fn to_storage(&self, mut served: Object) -> Result<Object, Status> {
        for (core, view) in RENAMED {
            rename(&mut served, view, core);
        }
        served.set_gvk(&Gvk::new("", "v1", "Event"));
        Ok(served)
    }
}

fn rename(event: &mut Object, from: &str, to: &str) {
    let root = event.root_mut();
    // A field name of the other version is an unknown field.
    root.remove(to);
    if let Some(value) = root.remove(from) {
        root.insert(to.to_owned(), value);
    }
}

impl Strategy for Events {
    fn looks_around(&self) -> bool {
        false
    }

    /// Fields that a server with typed kinds always shows, even if they are empty.
    fn prepare(
        &self,
        _read: &dyn Read,
        _admission: &Admission<'_>,
        event: &mut Object,
    ) -> Result<(), Status> {
        times::normalise(event)?;
        let root = event.root_mut();
        for field in ["reason", "message", "type", "action", "count"] {
            let empty = |value: &Value| value.is_null() || *value == "" || *value == 0;
            if root.get(field).is_some_and(empty) {
                root.remove(field);
            }
        }
        for field in ["series", "related"] {
            if root.get(field).is_some_and(Value::is_null) {
                root.remove(field);
            }
        }
        for (field, empty) in [
            ("involvedObject", serde_json::json!({})),
            ("source", serde_json::json!({})),
            ("firstTimestamp", Value::Null),
            ("lastTimestamp", Value::Null),
            ("eventTime", Value::Null),
            ("reportingComponent", "".into()),
            ("reportingInstance", "".into()),
        ] {
            root.entry(field).or_insert(empty);
        }
        Ok(())
    }

    /// The reporting component, which has two names.
    fn field<'o>(&self, event: &'o Object, field: &str) -> Option<&'o str> {
        if field != "source" {
            return None;
        }
        let component = event.as_value().pointer("/source/component");
        let component = component.and_then(Value::as_str).unwrap_or_default();
        Some(if component.is_empty() {
            text(event, "reportingComponent")
        } else {
            component
        })
    }

    fn validate(&self, admission: &Admission<'_>, event: &Object) -> Vec<FieldError> {
        let viewed = &*admission.resource.group == VIEW_GROUP;
        let mut errors = check_fields(event, viewed);
        match admission.old {
            None if viewed => errors.extend(check_new_style(event)),
            Some(old) if viewed => errors.extend(check_update(old, event)),
            _ => {}
        }
        for message in names::dns1123_subdomain(event.namespace().unwrap_or_default()) {
            let namespace = event.namespace().unwrap_or_default();
            errors.push(FieldError::invalid("namespace", namespace, &message));
        }
        errors
    }
}

/// The validation of both versions.
fn check_fields(event: &Object, viewed: bool) -> Vec<FieldError> {
    let text = |field: &str| text(event, field);
    let namespace = event.namespace().unwrap_or_default();
    let involved = event
        .as_value()
        .pointer("/involvedObject/namespace")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let new_style = !text("eventTime").is_empty();
    let fits = if involved.is_empty() {
        // Events about objects without a namespace are in the default namespace.
        namespace == "default" || (new_style && namespace == "kube-system")
    } else {
        new_style || namespace == involved
    };
    let mut errors = Vec::new();
    if !fits {
        errors.push(FieldError::invalid(
            "involvedObject.namespace",
            involved,
            "does not match event.namespace",
        ));
    }
    if !new_style {
        return errors;
    }
    let reporter = if viewed {
        "reportingController"
    } else {
        "reportingComponent"
    };
    if text("reportingComponent").is_empty() {
        errors.push(FieldError::required(reporter, ""));
    }
    for message in names::qualified_name(text("reportingComponent")) {
        errors.push(FieldError::invalid(
            reporter,
            text("reportingComponent"),
            &message,
        ));
    }
    for field in ["reportingInstance", "action", "reason"] {
        if text(field).is_empty() {
            errors.push(FieldError::required(field, ""));
        }
        if text(field).len() > MAX_REPORTER {
            let detail = format!("can have at most {MAX_REPORTER} characters");
            errors.push(FieldError::invalid(field, "", &detail));
        }
    }
    if text("message").len() > MAX_NOTE {
        let detail = format!("can have at most {MAX_NOTE} characters");
        errors.push(FieldError::invalid("message", "", &detail));
    }
    errors
}

/// Validation that only a create through `events.k8s.io/v1` has.
fn check_new_style(event: &Object) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if text(event, "eventTime").is_empty() {
        errors.push(FieldError::required("eventTime", ""));
    }
    let kind = text(event, "type");
    if !matches!(kind, "Normal" | "Warning") {
        let detail = format!("has invalid value: {kind}");
        errors.push(FieldError::invalid("type", "", &detail));
    }
    for field in ["firstTimestamp", "lastTimestamp", "count", "source"] {
        let value = event.root().get(field).unwrap_or(&Value::Null);
        let unset = value.is_null() || *value == 0 || *value == serde_json::json!({});
        if !unset {
            errors.push(FieldError::invalid(field, "", "needs to be unset"));
        }
    }
    errors
}

/// The fields that an update through `events.k8s.io/v1` may change: the series, and metadata.
fn check_update(old: &Object, event: &Object) -> Vec<FieldError> {
    let fields = [
        ("involvedObject", "involvedObject"),
        ("reason", "reason"),
        ("message", "message"),
        ("source", "source"),
        ("firstTimestamp", "firstTimestamp"),
        ("lastTimestamp", "lastTimestamp"),
        ("count", "count"),
        ("reason", "reason"),
        ("type", "type"),
        ("eventTime", "eventTime"),
        ("action", "action"),
        ("related", "related"),
        ("reportingComponent", "reportingController"),
        ("reportingInstance", "reportingInstance"),
    ];
    fields
        .into_iter()
        .filter_map(|(field, told)| {
            let value = |event: &Object| event.root().get(field).cloned().unwrap_or_default();
            let (was, is) = (value(old), value(event));
            (was != is).then(|| FieldError::invalid(told, is, "field is immutable"))
        })
        .collect()
}

impl Settler for Expiry {
    fn settle(&self, tx: &mut Tx<'_>, changed: &[Key]) -> Result<(), Status> {
        if !changed.iter().any(|key| key.table == *TABLE) {
            return Ok(());
        }
        let now = tx.now();
        {
            let mut last = self.last.lock();
            if last.is_some_and(|last| now.duration_since(last) < ROUND) {
                return Ok(());
            }
            *last = Some(now);
        }
        for stored in tx.list(&Range::everywhere(&TABLE)) {
            if latest(&stored.object()).is_some_and(|at| now.duration_since(at) > KEEP) {
                tx.remove(&stored.key);
            }
        }
        Ok(())
    }
}

/// The last time at which an event was reported.
fn latest(event: &Object) -> Option<Timestamp> {
    [
        "/metadata/creationTimestamp",
        "/lastTimestamp",
        "/series/lastObservedTime",
    ]
    .into_iter()
    .filter_map(|path| event.as_value().pointer(path)?.as_str()?.parse().ok())
    .max()
}

fn text<'o>(event: &'o Object, field: &str) -> &'o str {
    event
        .root()
        .get(field)
        .and_then(Value::as_str)
        .unwrap_or_default()
}
