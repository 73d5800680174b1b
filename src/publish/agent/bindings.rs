//! The workspaces of an endpoint, by the bindings that it serves.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::Value;

/// The state of one binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    Ready,
    Pending,
    /// In deletion: the objects of its APIs are deleted with it.
    Leaving,
    Gone,
}

/// The effect of a change of a binding on its workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindingChange {
    Same,
    Engaged,
    /// Still bound, but its last bindings are in deletion.
    Leaving,
    Disengaged,
}

/// A workspace is bound from its first ready binding to the end of its last one.
#[derive(Debug, Default)]
pub struct Bindings {
    /// The bindings of each workspace that still exist.
    seen: HashMap<Arc<str>, HashMap<Arc<str>, Binding>>,
    engaged: HashSet<Arc<str>>,
}

impl Bindings {
    pub fn observe(
        &mut self,
        cluster: &Arc<str>,
        name: &Arc<str>,
        binding: Binding,
    ) -> BindingChange {
        let seen = self.seen.entry(Arc::clone(cluster)).or_default();
        match binding {
            Binding::Gone => {
                seen.remove(name);
                if !seen.is_empty() {
                    return BindingChange::Same;
                }
                self.seen.remove(cluster);
                if self.engaged.remove(cluster) {
                    BindingChange::Disengaged
                } else {
                    BindingChange::Same
                }
            }
            Binding::Pending => {
                seen.entry(Arc::clone(name)).or_insert(binding);
                BindingChange::Same
            }
            Binding::Leaving => {
                let known = seen.insert(Arc::clone(name), binding);
                // Seen for the first time, for example after a restart: its objects still have to be released.
                let leaves = unbind(seen);
                if known.is_none() && leaves && self.engaged.insert(Arc::clone(cluster)) {
                    return BindingChange::Engaged;
                }
                if known != Some(binding) && self.is_leaving(cluster) {
                    BindingChange::Leaving
                } else {
                    BindingChange::Same
                }
            }
            Binding::Ready => {
                seen.insert(Arc::clone(name), binding);
                if self.engaged.insert(Arc::clone(cluster)) {
                    BindingChange::Engaged
                } else {
                    BindingChange::Same
                }
            }
        }
    }

    /// Whether a workspace is bound and not unbinding.
    pub fn is_bound(&self, cluster: &str) -> bool {
        self.engaged.contains(cluster) && !self.is_leaving(cluster)
    }

    /// Whether a workspace is bound, even if it is unbinding.
    pub fn takes_part(&self, cluster: &str) -> bool {
        self.engaged.contains(cluster)
    }

    /// Whether a workspace has a binding, ready or not.
    pub fn are_in(&self, cluster: &str) -> bool {
        self.seen.contains_key(cluster)
    }

    /// Whether a bound workspace is unbinding.
    fn is_leaving(&self, cluster: &str) -> bool {
        self.engaged.contains(cluster) && self.seen.get(cluster).is_some_and(unbind)
    }

    pub fn engaged(&self) -> usize {
        self.engaged.len()
    }

    pub fn engaged_clusters(&self) -> impl Iterator<Item = &Arc<str>> {
        self.engaged.iter()
    }

    pub fn into_engaged(self) -> impl Iterator<Item = Arc<str>> {
        self.engaged.into_iter()
    }
}

/// Whether these bindings of a workspace leave it unbound. A binding that has not bound the API does not count: kcp may
/// refuse it because of the one in deletion.
fn unbind(bindings: &HashMap<Arc<str>, Binding>) -> bool {
    let has = |state| bindings.values().any(|binding| *binding == state);
    has(Binding::Leaving) && !has(Binding::Ready)
}

/// Whether a binding has ever bound the API. kcp never takes that back.
pub(super) fn has_bound(binding: &Value) -> bool {
    let conditions = binding["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observe(bindings: &mut Bindings, name: &str, binding: Binding) -> BindingChange {
        bindings.observe(&"c".into(), &name.into(), binding)
    }

    #[test]
    fn a_workspace_takes_part_from_its_first_ready_binding_to_the_end_of_its_last() {
        let mut bindings = Bindings::default();
        assert_eq!(
            observe(&mut bindings, "a", Binding::Pending),
            BindingChange::Same
        );
        assert_eq!(
            observe(&mut bindings, "a", Binding::Ready),
            BindingChange::Engaged
        );
        assert_eq!(
            observe(&mut bindings, "a", Binding::Ready),
            BindingChange::Same
        );
        assert_eq!(
            observe(&mut bindings, "b", Binding::Pending),
            BindingChange::Same
        );
        assert_eq!(
            observe(&mut bindings, "a", Binding::Pending),
            BindingChange::Same
        );
        assert_eq!(
            observe(&mut bindings, "a", Binding::Gone),
            BindingChange::Same
        );
        assert_eq!(
            observe(&mut bindings, "b", Binding::Gone),
            BindingChange::Disengaged
        );
        assert_eq!(bindings.engaged(), 0);
        assert_eq!(
            observe(&mut bindings, "b", Binding::Gone),
            BindingChange::Same
        );
        assert_eq!(
            observe(&mut bindings, "b", Binding::Ready),
            BindingChange::Engaged
        );
    }

    #[test]
    fn a_workspace_is_leaving_while_its_last_bindings_are_in_deletion() {
        let mut bindings = Bindings::default();
        observe(&mut bindings, "a", Binding::Ready);
        observe(&mut bindings, "b", Binding::Ready);
        assert_eq!(
            observe(&mut bindings, "a", Binding::Leaving),
            BindingChange::Same
        );
        assert_eq!(
            observe(&mut bindings, "b", Binding::Leaving),
            BindingChange::Leaving
        );
        assert_eq!(
            observe(&mut bindings, "b", Binding::Leaving),
            BindingChange::Same
        );
        observe(&mut bindings, "a", Binding::Gone);
        assert!(!bindings.is_bound("c"));
        observe(&mut bindings, "c", Binding::Ready);
        assert!(bindings.is_bound("c"));
        observe(&mut bindings, "c", Binding::Gone);
        observe(&mut bindings, "b", Binding::Gone);
        assert!(!bindings.is_bound("c"));
    }

    #[test]
    fn a_workspace_that_unbinds_when_it_is_seen_first_takes_part_and_is_not_bound() {
        let mut bindings = Bindings::default();
        assert_eq!(
            observe(&mut bindings, "a", Binding::Leaving),
            BindingChange::Engaged
        );
        assert!(bindings.takes_part("c") && !bindings.is_bound("c"));
        assert_eq!(
            observe(&mut bindings, "a", Binding::Leaving),
            BindingChange::Same
        );
        assert_eq!(
            observe(&mut bindings, "a", Binding::Gone),
            BindingChange::Disengaged
        );
    }

    #[test]
    fn a_binding_that_was_never_ready_does_not_keep_a_workspace_that_unbinds() {
        let mut bindings = Bindings::default();
        observe(&mut bindings, "a", Binding::Ready);
        observe(&mut bindings, "b", Binding::Pending);
        assert!(bindings.is_bound("c"));
        assert_eq!(
            observe(&mut bindings, "a", Binding::Leaving),
            BindingChange::Leaving
        );
        assert!(bindings.takes_part("c") && !bindings.is_bound("c"));
        // After a restart, in either order.
        for [one, other] in [
            [("a", Binding::Leaving), ("b", Binding::Pending)],
            [("b", Binding::Pending), ("a", Binding::Leaving)],
        ] {
            let mut bindings = Bindings::default();
            observe(&mut bindings, one.0, one.1);
            observe(&mut bindings, other.0, other.1);
            assert!(bindings.takes_part("c") && !bindings.is_bound("c"));
        }
    }

    #[test]
    fn a_binding_that_was_never_ready_ends_without_a_word() {
        let mut bindings = Bindings::default();
        observe(&mut bindings, "a", Binding::Pending);
        assert_eq!(
            observe(&mut bindings, "a", Binding::Gone),
            BindingChange::Same
        );
    }
}
