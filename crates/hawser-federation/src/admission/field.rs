//! Checks that fields of several kinds share.

use kube_schema::field::FieldError;

/// Adds an error unless `value` is one of the words.
pub(super) fn one_of(errors: &mut Vec<FieldError>, path: &str, value: &str, words: &[&str]) {
    if value.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else if !words.contains(&value) {
        let mut words = words.to_vec();
        words.sort_unstable();
        errors.push(FieldError::not_supported(path, value, words));
    }
}

/// Adds errors unless `value` is given and valid.
pub(super) fn named(
    errors: &mut Vec<FieldError>,
    path: &str,
    value: &str,
    complaints: impl Fn(&str) -> Vec<String>,
) {
    if value.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    let complaints = complaints(value).into_iter();
    errors.extend(complaints.map(|complaint| FieldError::invalid(path, value, &complaint)));
}
