//! Events: one table, seen as `v1` and as `events.k8s.io/v1`, and kept for an hour.

use std::sync::LazyLock;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use serde_json::Value;

use crate::object::{Gvk, Object};
use crate::playground::catalog::{Admission, Conversion, Strategy};
use crate::playground::field::FieldError;
use crate::playground::names;
use crate::playground::status::Status;
use crate::playground::store::{Key, Range, Settler, Table, Tx};

pub(super) const VIEW_GROUP: &str = "events.k8s.io";

/// How long events are kept, as a kube-apiserver does by default.
const KEEP: SignedDuration = SignedDuration::from_hours(1);
/// Between two rounds of forgetting; the events of that time are what memory holds too many of.
const ROUND: SignedDuration = SignedDuration::from_mins(1);

const MAX_REPORTER: usize = 128;
const MAX_NOTE: usize = 1024;

/// Names of fields: in `v1`, and in `events.k8s.io/v1` where they differ.
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

/// Events as `events.k8s.io/v1` shows them.
pub(super) struct View;

/// Forgets events whose time is over, whenever another is written.
#[derive(Default)]
pub(super) struct Expiry {
    /// When it looked last.
    last: Mutex<Option<Timestamp>>,
}

impl Conversion for View {
    fn to_served(&self, mut stored: Object) -> Result<Object, Status> {
        for (core, view) in RENAMED {
            rename(&mut stored, core, view);
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
    // A field of the other view's name is unknown to the one that was written.
    root.remove(to);
    if let Some(value) = root.remove(from) {
        root.insert(to.to_owned(), value);
    }
}

impl Strategy for Events {
    /// What a typed server always shows, empty or not.
    fn prepare(
        &self,
        _tx: &Tx<'_>,
        _admission: &Admission<'_>,
        event: &mut Object,
    ) -> Result<(), Status> {
        let root = event.root_mut();
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

    fn validate(&self, admission: &Admission<'_>, event: &Object) -> Vec<FieldError> {
        let viewed = &*admission.resource.group == VIEW_GROUP;
        let mut errors = check_fields(event, viewed);
        if viewed && admission.old.is_none() {
            errors.extend(check_new_style(event));
        }
        for message in names::dns1123_subdomain(event.namespace().unwrap_or_default()) {
            let namespace = event.namespace().unwrap_or_default();
            errors.push(FieldError::invalid("namespace", namespace, &message));
        }
        errors
    }
}

/// The rules of both versions.
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
        // About something without a namespace: the default one keeps it.
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
            errors.push(FieldError::invalid(field, text(field), &detail));
        }
    }
    if text("message").len() > MAX_NOTE {
        let detail = format!("can have at most {MAX_NOTE} characters");
        errors.push(FieldError::invalid("message", text("message"), &detail));
    }
    errors
}

/// What only a create through `events.k8s.io/v1` is held to.
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
    for (core, view) in [
        ("firstTimestamp", "deprecatedFirstTimestamp"),
        ("lastTimestamp", "deprecatedLastTimestamp"),
        ("count", "deprecatedCount"),
    ] {
        let value = event.root().get(core).unwrap_or(&Value::Null);
        if !value.is_null() && value.as_i64() != Some(0) {
            errors.push(FieldError::invalid(
                view,
                value.clone(),
                "needs to be unset",
            ));
        }
    }
    errors
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

/// When an event was last heard of.
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
