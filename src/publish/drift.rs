//! Drift of copies, in the words of events and explanations. Pure.
//!
//! Paths and managers are told, values never.

use hawser_sync::{Author, DriftMode, DriftedField};
use kube_lang::paths;

/// The number of fields that an event names, and the number of characters of each path and manager.
const MOST_FIELDS: usize = 4;
const LONGEST: usize = 80;

/// The treatment of a field, as manifests name it.
pub fn mode(mode: DriftMode) -> &'static str {
    match mode {
        DriftMode::Keep => "Keep",
        DriftMode::Revert => "Revert",
        DriftMode::Report => "Report",
    }
}

/// The path of a field, as rules name it.
pub fn path(field: &DriftedField) -> String {
    paths::of_keys(field.keys.iter().map(String::as_str))
}

/// The writer of a field.
pub fn writer(by: Option<&Author>) -> String {
    let Some(by) = by else {
        return "an unknown writer".to_owned();
    };
    let mut how = by.operation.clone();
    if let Some(subresource) = &by.subresource {
        how = format!("{how} of {subresource}");
    }
    let time = by.time.as_ref().map(|time| format!(" at {time}"));
    let manager = shown(&by.manager);
    format!(
        "{manager} ({}){}",
        shown(&how),
        shown(&time.unwrap_or_default())
    )
}

/// The message of the event that reports fields.
pub fn reported<'f>(fields: impl IntoIterator<Item = &'f DriftedField>) -> String {
    let fields = list(fields);
    format!("The copy has other values than the object in the workspace: {fields}.")
}

/// The message of the event about fields that were reverted.
pub fn reverted<'f>(fields: impl IntoIterator<Item = &'f DriftedField>) -> String {
    let fields = list(fields);
    format!("The agent wrote the values of the object in the workspace again: {fields}.")
}

fn list<'f>(fields: impl IntoIterator<Item = &'f DriftedField>) -> String {
    let one = |field: &DriftedField| {
        let (path, by) = (shown(&path(field)), writer(field.by.as_ref()));
        format!("{path}, changed by {by}")
    };
    let mut all: Vec<_> = fields.into_iter().map(one).collect();
    let more = all.len().saturating_sub(MOST_FIELDS);
    all.truncate(MOST_FIELDS);
    if more > 0 {
        all.push(format!("and {more} more"));
    }
    all.join("; ")
}

/// A name that others chose, on one line and shortened.
fn shown(text: &str) -> String {
    let mut shown: String = text.chars().filter(|one| !one.is_control()).collect();
    if let Some((end, _)) = shown.char_indices().nth(LONGEST) {
        shown.truncate(end);
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(keys: &[&str], by: Option<Author>) -> DriftedField {
        let keys = keys.iter().map(ToString::to_string).collect();
        DriftedField::new(keys, DriftMode::Report, by, None)
    }

    fn author(manager: &str, subresource: Option<&str>) -> Author {
        Author {
            manager: manager.to_owned(),
            operation: "Update".to_owned(),
            subresource: subresource.map(str::to_owned),
            time: Some("2026-01-02T12:00:00Z".to_owned()),
        }
    }

    #[test]
    fn an_event_names_the_path_the_manager_and_the_time() {
        let edited = field(&["spec", "size"], Some(author("kubectl-edit", None)));
        let scaled = field(&["spec", "a.b"], Some(author("hpa", Some("scale"))));
        let removed = field(&["metadata", "labels", "a"], None);
        assert_eq!(
            reported([&edited]),
            "The copy has other values than the object in the workspace: spec.size, changed by \
             kubectl-edit (Update) at 2026-01-02T12:00:00Z."
        );
        assert_eq!(
            reverted([&scaled, &removed]),
            "The agent wrote the values of the object in the workspace again: spec.a\\.b, changed by \
             hpa (Update of scale) at 2026-01-02T12:00:00Z; metadata.labels.a, changed by an \
             unknown writer."
        );
    }

    #[test]
    fn names_that_others_chose_fit_into_an_event() {
        let long = "\nä".repeat(500);
        let fields: Vec<_> = (0..8)
            .map(|_| field(&[&long], Some(author(&long, None))))
            .collect();
        let message = reported(&fields);
        assert!(!message.contains('\n'));
        assert!(message.ends_with("; and 4 more."), "{message}");
        assert!(message.chars().count() < 1024, "{message}");
    }
}
