//! The namespace in which the status of a placement is reported.

use crate::types::placement::{Placement, StatusReportingScope};

/// The namespace of the copy: the one that was placed first. `None` without a copy.
pub fn namespace(placement: &Placement) -> Option<&str> {
    placed(placement).or_else(|| selected(placement))
}

/// The problem of a placement that selects another namespace than the one with the copy.
pub fn moved(placement: &Placement) -> Option<String> {
    let (before, now) = (placed(placement)?, selected(placement)?);
    (before != now).then(|| {
        format!(
            "the status is reported in namespace {before}: with statusReportingScope NamespaceAccessible, \
             a placement cannot select another namespace"
        )
    })
}

pub(crate) fn is_reported(placement: &Placement) -> bool {
    placement.metadata.namespace.is_none()
        && placement.spec.status_reporting_scope == StatusReportingScope::NamespaceAccessible
}

/// The namespace that the selectors name.
fn selected(placement: &Placement) -> Option<&str> {
    let mut selectors = placement.spec.resource_selectors.iter();
    let one = selectors.find(|one| is_reported(placement) && one.is_namespace())?;
    Some(&*one.name).filter(|name| !name.is_empty())
}

/// The namespace that the status lists.
fn placed(placement: &Placement) -> Option<&str> {
    let mut resources = placement.status.selected_resources.iter();
    let is_namespace = |kind: &str, group: &str| kind == "Namespace" && group.is_empty();
    let one =
        resources.find(|one| is_reported(placement) && is_namespace(&one.kind, &one.group))?;
    Some(&one.name)
}
