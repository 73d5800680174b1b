//! The bindings that serve the kind of an object.

use serde_json::Value;

use super::{ConsumerFinding, WorkspaceView};
use hawser_sync::reason::Class;
use kube_lang::object::Object;

impl WorkspaceView {
    /// The bindings that serve the kind; `None` if the bindings could not be read.
    pub(super) fn serving(&self) -> Option<Vec<&Object>> {
        let group = self.object.gvk().group;
        let serves = |binding: &&Object| {
            let bound = binding.as_value()["status"]["boundResources"].as_array();
            let mut bound = bound.into_iter().flatten();
            bound.any(|one| {
                one["group"].as_str().unwrap_or_default() == group
                    && one["resource"] == *self.resource
            })
        };
        let all = self.bindings.as_ref().ok()?;
        Some(all.iter().filter(serves).collect())
    }

    pub(super) fn unbound(&self) -> Option<ConsumerFinding> {
        let unbound = |text: String| ConsumerFinding::new("NotBound", Class::Refused, text);
        let serving = self.serving()?;
        let Some(binding) = serving.first() else {
            let text = "no APIBinding of this workspace serves the kind".to_owned();
            return Some(unbound(text).advice("bind the API of the provider"));
        };
        let (name, value) = (binding.name(), binding.as_value());
        if binding.in_deletion() {
            let since = value["metadata"]["deletionTimestamp"].as_str();
            let found = unbound(format!("the APIBinding {name} is being deleted")).since(since);
            return Some(found.advice("wait until it is gone, and bind the API again"));
        }
        let phase = value["status"]["phase"].as_str().unwrap_or("not bound");
        if phase == "Bound" {
            return None;
        }
        let conditions = value["status"]["conditions"].as_array();
        let untrue = conditions.into_iter().flatten();
        let mut untrue = untrue.filter(|condition| condition["status"] == "False");
        let why = untrue.find_map(|condition| {
            let message = condition["message"].as_str();
            let message = message.filter(|message| !message.is_empty())?;
            Some((message, condition["lastTransitionTime"].as_str()))
        });
        let (message, since) = why.unwrap_or_default();
        let (colon, advice) = if message.is_empty() {
            let advice = "wait a moment. If nothing changes, correct the APIBinding";
            ("", advice)
        } else {
            (": ", "correct the APIBinding")
        };
        let text = format!("the APIBinding {name} is {phase}{colon}{message}");
        let found = unbound(text).since(since).advice(advice);
        Some(found.provider("correct the APIExport"))
    }

    /// The resources that the export claims and the workspace does not let it have.
    pub(super) fn missing_claims(&self) -> Vec<String> {
        let serving = self.serving().unwrap_or_default();
        let Some(binding) = serving.first().map(|binding| binding.as_value()) else {
            return Vec::new();
        };
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let same = |a: &Value, b: &Value| {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            ["group", "resource", "identityHash"]
                .iter()
                .all(|field| text(&a[*field]) == text(&b[*field]))
        };
        let answers = list(&binding["spec"]["permissionClaims"]);
        let accepted = |claim: &Value| {
            let mut accepted = answers.iter().filter(|one| one["state"] == "Accepted");
            accepted.any(|one| same(one, claim))
        };
        let claims = list(&binding["status"]["exportPermissionClaims"]);
        let missing = claims.iter().filter(|claim| !accepted(claim));
        missing
            .filter_map(|claim| claim["resource"].as_str().map(str::to_owned))
            .collect()
    }
}
