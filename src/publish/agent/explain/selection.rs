//! Which objects are meant.

use kube_lang::object::Gvk;

/// Which objects to explain.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Kind or plural name, on either side; all kinds without it.
    pub kind: Option<String>,
    pub name: Option<String>,
    pub namespace: Option<String>,
    /// The path or logical cluster of a workspace. Without it, the object may be a copy on the service cluster.
    pub workspace: Option<String>,
}

impl Selection {
    /// Whether a kind is selected, by its kind or plural and perhaps its group.
    pub fn is_of_kind(&self, kind: &Gvk, plural: &str) -> bool {
        let Some(selected) = &self.kind else {
            return true;
        };
        let (name, group) = match selected.split_once('.') {
            Some((name, group)) => (name, Some(group)),
            None => (&**selected, None),
        };
        // Like kubectl, with or without the version.
        let version = format!("{}.{}", kind.version, kind.group);
        let is_of_group = group.is_none_or(|group| group == kind.group || group == version);
        is_of_group
            && [&*kind.kind, plural]
                .iter()
                .any(|one| name.eq_ignore_ascii_case(one))
    }

    pub(in crate::publish::agent) fn matches(&self, namespace: Option<&str>, name: &str) -> bool {
        self.name.as_deref().is_none_or(|wanted| wanted == name)
            && (self.namespace.is_none() || self.namespace.as_deref() == namespace)
    }
}
