//! The decision about one copy, from the state of its member. A pass decides for each registered member, executes the
//! decision, and decides again if a request found another state than expected.

use std::collections::BTreeSet;

use kube_lang::object::Object;

use crate::events::Operation;
use crate::overrides::patch::Step;
use crate::overrides::{self, Overrides, OverridesError};
use crate::placement::TOO_DEEP;
use crate::render::{Ignored, TemplateAnnotations, is_managed, opted_out, render};
use crate::status::CopyStatus;
use crate::types::type_config::ApiResource;
use crate::versions::{Versions, needs_update};

const ANNOTATIONS: &str = "/spec/template/metadata/annotations";

/// The known state of the copy in a member.
#[derive(Clone, Copy, Debug)]
pub enum CopyState<'a> {
    /// The member is not ready: its state is not known, and it gets no request.
    NotReady,
    /// The objects of the member cannot be listed, for this reason.
    Unknown(&'a str),
    Absent,
    /// Managed, or found by a live read in the place of the copy.
    Present(&'a Object),
}

/// One pass over a federated object, the same for all members.
#[derive(Debug)]
pub struct Pass<'a> {
    pub federated: &'a Object,
    pub target: &'a ApiResource,
    pub selected: BTreeSet<String>,
    pub overrides: Result<Overrides, OverridesError>,
    /// The overrides for every member, before its own.
    for_all: Vec<Step>,
    annotations: TemplateAnnotations,
    /// The versions that the last passes stored.
    pub before: Versions,
    /// The current hashes of the federated object.
    pub now: Versions,
    /// Whether objects that were in a member before are adopted.
    pub adopts: bool,
    /// The uid of the host's own namespace where the target is a namespace: the host may be a member.
    pub host_namespace: Option<&'a str>,
}

/// A request about a copy.
#[derive(Clone, Debug, PartialEq)]
pub enum CopyRequest {
    Create(Object),
    /// A full update, with the copy's resource version.
    Update(Object),
    Delete,
    RemoveManagedLabel,
}

/// The decision for one member.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// The member is not listed in the status.
    Nothing,
    InSync,
    /// Nothing can be done now; the problem, if there is one to report.
    Waits(CopyStatus, Option<Problem>),
    Do(CopyRequest, Vec<Ignored>),
}

/// The reason why nothing can be done about a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    NotReady,
    Unknown(String),
    /// The object of this operation cannot be computed or must not be written.
    Operation(Operation, String),
}

impl CopyRequest {
    pub fn operation(&self) -> Operation {
        match self {
            Self::Create(_) => Operation::Create,
            Self::Update(_) => Operation::Update,
            Self::Delete => Operation::Delete,
            Self::RemoveManagedLabel => Operation::RemoveManagedLabel,
        }
    }
}

impl<'a> Pass<'a> {
    /// `selected` are the members that the placement selects, `before` is the stored state.
    pub fn new(
        federated: &'a Object,
        target: &'a ApiResource,
        selected: BTreeSet<String>,
        before: Versions,
    ) -> Self {
        Self {
            federated,
            target,
            selected,
            overrides: overrides::read(federated),
            for_all: Vec::new(),
            annotations: TemplateAnnotations::Ignored,
            now: Versions::of(federated),
            before,
            adopts: true,
            host_namespace: None,
        }
    }

    /// Has the overrides of the cluster `*` apply to every member. Their versions are others than KubeFed's, for which
    /// they have no effect.
    pub fn override_all(&mut self) {
        let for_all = self.overrides.as_mut().ok();
        if let Some(steps) = for_all.and_then(|all| all.remove(overrides::ALL)) {
            self.for_all = steps;
            self.now.overrides.push_str(overrides::ALL);
        }
    }

    /// Has the annotations of the template set in copies. Versions are others than KubeFed's, which ignores them.
    pub fn federate_annotations(&mut self) {
        self.annotations = TemplateAnnotations::Federated;
        let given = self.federated.as_value().pointer(ANNOTATIONS);
        if given.is_some_and(|given| !given.is_null()) {
            self.now.template.push_str("+annotations");
        }
    }

    /// Decides what the pass does in a member.
    pub fn decide(&self, member: &str, there: CopyState<'_>) -> Verdict {
        if self.federated.in_deletion() {
            return self.removal(self.selected.contains(member), there);
        }
        if !self.selected.contains(member) {
            return self.removal(false, there);
        }
        match there {
            CopyState::NotReady | CopyState::Unknown(_) => waits(there),
            CopyState::Absent => self.write(member, None),
            CopyState::Present(copy) if copy.in_deletion() => {
                Verdict::Waits(CopyStatus::WaitingForRemoval, None)
            }
            CopyState::Present(copy) => self.write(member, Some(copy)),
        }
    }

    /// A copy that is not to be there; `is_placed` where it is not known to be gone as long as its member is not.
    fn removal(&self, is_placed: bool, there: CopyState<'_>) -> Verdict {
        match there {
            CopyState::NotReady | CopyState::Unknown(_) if is_placed => waits(there),
            CopyState::Present(copy) if !is_managed(copy) => Verdict::Nothing,
            CopyState::Present(copy) if self.is_host_namespace(copy) => {
                Verdict::Do(CopyRequest::RemoveManagedLabel, Vec::new())
            }
            CopyState::Present(copy) if copy.in_deletion() => {
                Verdict::Waits(CopyStatus::WaitingForRemoval, None)
            }
            CopyState::Present(_) => Verdict::Do(CopyRequest::Delete, Vec::new()),
            CopyState::NotReady | CopyState::Unknown(_) | CopyState::Absent => Verdict::Nothing,
        }
    }

    fn is_host_namespace(&self, copy: &Object) -> bool {
        self.host_namespace.is_some() && copy.uid() == self.host_namespace
    }

    fn write(&self, member: &str, copy: Option<&Object>) -> Verdict {
        let operation = if copy.is_some() {
            Operation::Update
        } else {
            Operation::Create
        };
        let refused = |status, problem: String| {
            Verdict::Waits(status, Some(Problem::Operation(operation, problem)))
        };
        if let Some(copy) = copy {
            if !self.adopts && !is_managed(copy) && !self.is_host_namespace(copy) {
                return Verdict::Waits(
                    CopyStatus::AlreadyExists,
                    Some(Problem::Operation(
                        Operation::Create,
                        "Resource pre-exist in cluster".to_owned(),
                    )),
                );
            }
            if opted_out(copy) {
                let problem =
                    "Unable to manage the object which has label kubefed.io/managed: false";
                return refused(CopyStatus::ManagedLabelFalse, problem.to_owned());
            }
            if copy.is_fragment() {
                return waits(CopyState::Unknown(TOO_DEEP));
            }
        }
        let steps = match &self.overrides {
            Ok(overrides) => {
                let own = overrides.get(member).map_or(&[][..], Vec::as_slice);
                [&self.for_all, own].concat()
            }
            Err(error) => {
                let problem = format!("Error reading cluster overrides: {error}");
                return refused(CopyStatus::ApplyOverridesFailed, problem);
            }
        };
        let rendered = render(self.federated, self.target, &steps, copy, self.annotations);
        let rendered = match rendered {
            Ok(rendered) => rendered,
            Err(error) => return refused(error.status(), error.to_string()),
        };
        match copy {
            None => Verdict::Do(CopyRequest::Create(rendered.object), rendered.ignored),
            Some(copy) => {
                let recorded = self.before.recorded(&self.now, member);
                if is_managed(copy) && !needs_update(&rendered.object, copy, recorded) {
                    return Verdict::InSync;
                }
                Verdict::Do(CopyRequest::Update(rendered.object), rendered.ignored)
            }
        }
    }
}

fn waits(there: CopyState<'_>) -> Verdict {
    let (status, problem) = match there {
        CopyState::Unknown(why) => (
            CopyStatus::CachedRetrievalFailed,
            Problem::Unknown(why.to_owned()),
        ),
        _ => (CopyStatus::ClusterNotReady, Problem::NotReady),
    };
    Verdict::Waits(status, Some(problem))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::versions::version;

    fn target() -> ApiResource {
        ApiResource {
            version: "v1".into(),
            kind: "ConfigMap".into(),
            plural_name: "configmaps".into(),
            scope: "Namespaced".into(),
            ..ApiResource::default()
        }
    }

    fn object(value: Value) -> Object {
        Object::new(value).unwrap()
    }

    fn federated(more: &Value) -> Object {
        let mut value = json!({
            "apiVersion": "types.kubefed.io/v1beta1", "kind": "FederatedConfigMap",
            "metadata": {"name": "m", "namespace": "ns", "uid": "f"},
            "spec": {"template": {"data": {"a": "1"}}},
        });
        kube_lang::object::merge_patch::apply(&mut value, more);
        object(value)
    }

    fn copy(more: &Value) -> Object {
        let mut value = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "m", "namespace": "ns", "uid": "c", "resourceVersion": "7",
                         "labels": {"kubefed.io/managed": "true"}},
            "data": {"a": "1"},
        });
        kube_lang::object::merge_patch::apply(&mut value, more);
        object(value)
    }

    fn deciding(federated: &Object, selects: bool, there: CopyState<'_>) -> String {
        deciding_with(federated, selects, there, |_| {})
    }

    /// The verdict in short.
    fn deciding_with(
        federated: &Object,
        selects: bool,
        there: CopyState<'_>,
        change: impl FnOnce(&mut Pass<'_>),
    ) -> String {
        let target = target();
        let selected = selects.then(|| "one".to_owned()).into_iter().collect();
        let mut before = Versions::of(federated);
        if let CopyState::Present(copy) = there {
            before.copies.insert("one".into(), version(copy));
        }
        let mut pass = Pass::new(federated, &target, selected, before);
        change(&mut pass);
        match pass.decide("one", there) {
            Verdict::Nothing => "nothing".into(),
            Verdict::InSync => "in sync".into(),
            Verdict::Waits(status, _) => status.as_str().into(),
            Verdict::Do(step, _) => format!("{:?}", step.operation()),
        }
    }

    #[test]
    fn what_is_known_and_whether_it_is_selected_decide() {
        let plain = federated(&json!({}));
        let (same, going) = (
            copy(&json!({})),
            copy(&json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})),
        );
        let foreign = copy(&json!({"metadata": {"labels": null}}));
        let rows = [
            (CopyState::NotReady, "ClusterNotReady", "nothing"),
            (CopyState::Unknown("x"), "CachedRetrievalFailed", "nothing"),
            (CopyState::Absent, "Create", "nothing"),
            (CopyState::Present(&same), "in sync", "Delete"),
            (
                CopyState::Present(&going),
                "WaitingForRemoval",
                "WaitingForRemoval",
            ),
            (CopyState::Present(&foreign), "Update", "nothing"),
        ];
        for (there, selected, not) in rows {
            assert_eq!(deciding(&plain, true, there), selected, "{there:?}");
            assert_eq!(deciding(&plain, false, there), not, "{there:?}");
        }
    }

    #[test]
    fn a_federated_object_in_deletion_waits_for_the_members_it_is_placed_on() {
        let going = federated(&json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
        let there = copy(&json!({}));
        let rows = [
            (CopyState::NotReady, "ClusterNotReady", "nothing"),
            (CopyState::Unknown("x"), "CachedRetrievalFailed", "nothing"),
            (CopyState::Absent, "nothing", "nothing"),
            (CopyState::Present(&there), "Delete", "Delete"),
        ];
        for (there, selected, not) in rows {
            assert_eq!(deciding(&going, true, there), selected, "{there:?}");
            assert_eq!(deciding(&going, false, there), not, "{there:?}");
        }
    }

    #[test]
    fn what_was_there_before_is_adopted_unless_that_is_switched_off() {
        let plain = federated(&json!({}));
        let never = |pass: &mut Pass<'_>| pass.adopts = false;
        let foreign = copy(&json!({"metadata": {"labels": null}}));
        let said = deciding_with(&plain, true, CopyState::Present(&foreign), never);
        assert_eq!(said, "AlreadyExists");
        let own = copy(&json!({"data": {"a": "2"}, "metadata": {"resourceVersion": "8"}}));
        let stale = |pass: &mut Pass<'_>| {
            pass.adopts = false;
            pass.before.copies.insert("one".into(), "rv:7".into());
        };
        assert_eq!(
            deciding_with(&plain, true, CopyState::Present(&own), stale),
            "Update"
        );
        let refuses = copy(&json!({"metadata": {"labels": {"kubefed.io/managed": "false"}}}));
        assert_eq!(
            deciding(&plain, true, CopyState::Present(&refuses)),
            "ManagedLabelFalse"
        );
        let said = deciding_with(&plain, true, CopyState::Present(&refuses), never);
        assert_eq!(said, "AlreadyExists", "as in the original");
    }

    #[test]
    fn a_copy_that_cannot_be_read_is_not_written_but_can_be_deleted() {
        let plain = federated(&json!({}));
        let deep = Object::fragment(copy(&json!({})).into_value()).unwrap();
        let there = CopyState::Present(&deep);
        assert_eq!(deciding(&plain, true, there), "CachedRetrievalFailed");
        assert_eq!(deciding(&plain, false, there), "Delete");
    }

    #[test]
    fn the_namespace_of_the_host_loses_its_label_only() {
        let plain = federated(&json!({}));
        let there = copy(&json!({}));
        let host = |pass: &mut Pass<'_>| pass.host_namespace = Some("c");
        let said = deciding_with(&plain, false, CopyState::Present(&there), host);
        assert_eq!(said, "RemoveManagedLabel");
    }

    #[test]
    fn overrides_for_all_members_come_before_a_members_own_where_they_are_switched_on() {
        let step = |value: &str| json!([{"path": "/data/a", "value": value}]);
        let overrides = json!([
            {"clusterName": "one", "clusterOverrides": step("own")},
            {"clusterName": "*", "clusterOverrides": step("all")},
        ]);
        let object = federated(&json!({"spec": {"overrides": overrides}}));
        let target = target();
        let mut pass = Pass::new(&object, &target, BTreeSet::new(), Versions::default());
        let data = |pass: &Pass<'_>, member: &str| match pass.write(member, None) {
            Verdict::Do(CopyRequest::Create(copy), _) => copy.root()["data"]["a"].clone(),
            verdict => panic!("{verdict:?}"),
        };
        assert_eq!(data(&pass, "two"), "1");
        let before = pass.now.clone();
        pass.override_all();
        assert_eq!([data(&pass, "one"), data(&pass, "two")], ["own", "all"]);
        assert_ne!(pass.now, before, "copies are written again");
        let plain = federated(&json!({}));
        let mut pass = Pass::new(&plain, &target, BTreeSet::new(), Versions::default());
        pass.override_all();
        assert_eq!(pass.now, Versions::of(&plain));
    }

    #[test]
    fn annotations_that_are_federated_from_now_on_are_written_to_copies_that_are_there() {
        let annotated = json!({"spec": {"template": {"metadata": {"annotations": {"a": "1"}}}}});
        let (annotated, plain) = (federated(&annotated), federated(&json!({})));
        let there = copy(&json!({}));
        for (object, verdict) in [(annotated, "Update"), (plain, "in sync")] {
            let there = CopyState::Present(&there);
            assert_eq!(deciding(&object, true, there), "in sync");
            let said = deciding_with(&object, true, there, |pass| {
                pass.federate_annotations();
            });
            assert_eq!(said, verdict);
        }
    }

    #[test]
    fn overrides_that_cannot_be_read_write_nothing_and_delete_nothing() {
        let twice = json!([{"clusterName": "x"}, {"clusterName": "x"}]);
        let wrong = federated(&json!({"spec": {"overrides": twice}}));
        let there = copy(&json!({}));
        for there in [CopyState::Absent, CopyState::Present(&there)] {
            assert_eq!(deciding(&wrong, true, there), "ApplyOverridesFailed");
        }
        let wrong = federated(&json!({"spec": {"template": 5}}));
        assert_eq!(
            deciding(&wrong, true, CopyState::Absent),
            "ComputeResourceFailed"
        );
    }
}
