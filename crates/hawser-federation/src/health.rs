//! Member health: the status after a probe, and the thresholds for a change.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::types::cluster::{ClusterCondition, KubeFedClusterStatus};

/// The result of one probe of `/healthz`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// The body was `ok`, in any case. `version` is the API server's.
    Ready { version: Option<String> },
    /// The body was something else.
    NotReady,
    /// The request failed or was refused.
    Unreachable { error: String },
    /// No client could be built: no Secret, no token, no valid address.
    Malformed,
}

/// The number of consecutive probes for a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// From ready to not ready.
    pub failure: i64,
    /// From not ready to ready.
    pub success: i64,
}

/// The published status of a member, and the number of latest probes that contradict it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    published: Option<KubeFedClusterStatus>,
    against: i64,
}

/// The location of a member's nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Location {
    zones: BTreeSet<String>,
    /// The region of the first node that has one: a cluster is in one region.
    region: Option<String>,
}

/// A member that lies does not make its status too large to be written.
const ZONES: usize = 200;
/// The length of a label's value, at most.
const LABEL: usize = 63;
const ZONE: [&str; 2] = [
    "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/zone",
];
const REGION: [&str; 2] = [
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/region",
];

impl Probe {
    /// The result for a body of `/healthz`.
    pub fn of_body(body: &str, version: Option<String>) -> Self {
        if body.eq_ignore_ascii_case("ok") {
            Self::Ready { version }
        } else {
            Self::NotReady
        }
    }

    /// The status by this probe alone.
    fn status(&self, now: &str) -> KubeFedClusterStatus {
        let condition = |type_: &str, status: &str, reason: &str, message: &str| ClusterCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            last_probe_time: now.to_owned(),
            last_transition_time: Some(now.to_owned()),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
        };
        let (conditions, version) = match self {
            Self::Ready { version } => {
                let message = "/healthz responded with ok";
                let ready = condition("Ready", "True", "ClusterReady", message);
                (vec![ready], version.clone())
            }
            Self::NotReady => {
                let message = "/healthz responded without ok";
                let ready = condition("Ready", "False", "ClusterNotReady", message);
                let reachable = "cluster is reachable";
                let offline = condition("Offline", "False", "ClusterReachable", reachable);
                (vec![ready, offline], None)
            }
            Self::Unreachable { error } => {
                let message = format!("cluster is not reachable: {error}");
                let offline = condition("Offline", "True", "ClusterNotReachable", &message);
                (vec![offline], None)
            }
            Self::Malformed => {
                let message = "cluster's configuration may be malformed";
                let reason = "ClusterConfigMalformed";
                (
                    vec![condition("ConfigMalformed", "True", reason, message)],
                    None,
                )
            }
        };
        KubeFedClusterStatus {
            conditions,
            kubernetes_version: version,
            ..KubeFedClusterStatus::default()
        }
    }
}

impl Health {
    /// Continues from the status that an earlier process published.
    pub fn of(published: KubeFedClusterStatus) -> Self {
        let known = !published.conditions.is_empty();
        Self {
            published: known.then_some(published),
            against: 0,
        }
    }

    /// Records a probe and returns the status to publish. Readiness changes after the number of consecutive probes in
    /// the threshold; until then the old conditions stay, with the time of the probe.
    pub fn probed(
        &mut self,
        probe: &Probe,
        thresholds: Thresholds,
        now: &str,
    ) -> &KubeFedClusterStatus {
        let mut next = probe.status(now);
        if let Some(old) = &self.published {
            if old.is_ready() == next.is_ready() {
                self.against = 0;
                keep_transitions(&mut next, old);
                next.zones.clone_from(&old.zones);
                next.region.clone_from(&old.region);
            } else {
                self.against += 1;
                let needed = if next.is_ready() {
                    thresholds.success
                } else {
                    thresholds.failure
                };
                if self.against < needed {
                    next = old.clone();
                    for condition in &mut next.conditions {
                        now.clone_into(&mut condition.last_probe_time);
                    }
                } else {
                    self.against = 0;
                }
            }
        }
        self.published.insert(next)
    }

    /// Records the location of a ready member's nodes. Fields that the nodes do not have stay: a person may have set
    /// them.
    pub fn located(&mut self, at: &Location) {
        let Some(status) = self.published.as_mut().filter(|status| status.is_ready()) else {
            return;
        };
        if !at.zones.is_empty() {
            status.zones = at.zones.iter().cloned().collect();
        }
        if at.region.is_some() {
            status.region.clone_from(&at.region);
        }
    }
}

impl Location {
    /// Records the labels of a node: the current ones, or those before Kubernetes 1.17.
    pub fn add(&mut self, node: &Value) {
        let label = |names: [&str; 2]| {
            let labels = &node["metadata"]["labels"];
            let mut found = names.iter().filter_map(|name| labels[*name].as_str());
            let is_label = |value: &&str| (1..=LABEL).contains(&value.len());
            found.find(is_label).map(str::to_owned)
        };
        if self.zones.len() < ZONES {
            self.zones.extend(label(ZONE));
        }
        if self.region.is_none() {
            self.region = label(REGION);
        }
    }
}

/// Conditions of the same status keep their transition time.
fn keep_transitions(next: &mut KubeFedClusterStatus, old: &KubeFedClusterStatus) {
    for condition in &mut next.conditions {
        let same = |old: &&ClusterCondition| {
            (&old.type_, &old.status) == (&condition.type_, &condition.status)
        };
        if let Some(old) = old.conditions.iter().find(same) {
            condition
                .last_transition_time
                .clone_from(&old.last_transition_time);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const THRESHOLDS: Thresholds = Thresholds {
        failure: 3,
        success: 1,
    };

    /// `T(2,1)`: ready by a probe at 2, since 1.
    fn told(status: &KubeFedClusterStatus) -> String {
        let condition = &status.conditions[0];
        let since = condition.last_transition_time.as_deref().unwrap();
        let is_ready = if status.is_ready() { "T" } else { "F" };
        format!("{is_ready}({},{since})", condition.last_probe_time)
    }

    fn course(probes: &str) -> Vec<String> {
        let mut health = Health::default();
        let probes = (1..).zip(probes.chars());
        let told = probes.map(|(time, probe)| {
            let body = if probe == 'T' { "ok" } else { "failed" };
            let probe = Probe::of_body(body, None);
            told(health.probed(&probe, THRESHOLDS, &i32::to_string(&time)))
        });
        told.collect()
    }

    #[test]
    fn a_member_is_what_enough_probes_in_a_row_say() {
        assert_eq!(course("T"), ["T(1,1)"], "the first one is believed");
        assert_eq!(course("F"), ["F(1,1)"]);
        assert_eq!(
            course("TTFFFTF"),
            [
                "T(1,1)", "T(2,1)", "T(3,1)", "T(4,1)", "F(5,5)", "T(6,6)", "T(7,6)"
            ]
        );
        assert_eq!(
            course("TFFTFF").last().unwrap(),
            "T(6,1)",
            "they have to be in a row"
        );
    }

    #[test]
    fn every_outcome_has_its_conditions() {
        let conditions = |probe: Probe| {
            let status = probe.status("now");
            let conditions = status.conditions.iter().map(|c| {
                let text = |text: &Option<String>| text.clone().unwrap_or_default();
                format!(
                    "{}={} {}: {}",
                    c.type_,
                    c.status,
                    text(&c.reason),
                    text(&c.message)
                )
            });
            (conditions.collect::<Vec<_>>(), status.kubernetes_version)
        };
        let version = Some("v1.34.4".to_owned());
        assert_eq!(
            conditions(Probe::of_body("OK", version.clone())),
            (
                vec!["Ready=True ClusterReady: /healthz responded with ok".to_owned()],
                version
            )
        );
        assert_eq!(
            conditions(Probe::of_body("degraded", Some("v1".to_owned()))).0,
            [
                "Ready=False ClusterNotReady: /healthz responded without ok",
                "Offline=False ClusterReachable: cluster is reachable",
            ]
        );
        assert_eq!(
            conditions(Probe::Unreachable {
                error: "refused".to_owned()
            }),
            (
                vec![
                    "Offline=True ClusterNotReachable: cluster is not reachable: refused"
                        .to_owned()
                ],
                None
            )
        );
        assert_eq!(
            conditions(Probe::Malformed).0,
            [
                "ConfigMalformed=True ClusterConfigMalformed: cluster's configuration may be malformed"
            ]
        );
    }

    #[test]
    fn a_new_process_goes_on_from_what_is_published() {
        let published = Probe::of_body("ok", None).status("1");
        let mut health = Health::of(published);
        assert_eq!(
            told(health.probed(&Probe::NotReady, THRESHOLDS, "9")),
            "T(9,1)"
        );
        let mut new = Health::of(KubeFedClusterStatus::default());
        assert_eq!(
            told(new.probed(&Probe::NotReady, THRESHOLDS, "9")),
            "F(9,9)"
        );
    }

    #[test]
    fn a_member_that_is_ready_is_where_its_nodes_are() {
        let node = |labels: Value| json!({"metadata": {"labels": labels}});
        let mut at = Location::default();
        for labels in [
            json!({"topology.kubernetes.io/zone": "b", "topology.kubernetes.io/region": "r"}),
            json!({"failure-domain.beta.kubernetes.io/zone": "a", "failure-domain.beta.kubernetes.io/region": "old"}),
            json!({"topology.kubernetes.io/zone": "b", "failure-domain.beta.kubernetes.io/zone": "older"}),
            json!({"topology.kubernetes.io/zone": ""}),
            json!(null),
        ] {
            at.add(&node(labels));
        }
        let mut health = Health::default();
        let ok = Probe::of_body("ok", None);
        health.located(&at);
        health.probed(&ok, THRESHOLDS, "1");
        health.located(&at);
        // Nodes without labels say nothing.
        health.located(&Location::default());
        let place = |status: &KubeFedClusterStatus| (status.zones.join(" "), status.region.clone());
        let known = ("a b".to_owned(), Some("r".to_owned()));
        assert_eq!(place(health.probed(&ok, THRESHOLDS, "2")), known);
        for time in ["3", "4"] {
            assert_eq!(
                place(health.probed(&Probe::NotReady, THRESHOLDS, time)),
                known
            );
        }
        let nowhere = (String::new(), None);
        assert_eq!(
            place(health.probed(&Probe::NotReady, THRESHOLDS, "5")),
            nowhere
        );
        health.located(&at);
        assert_eq!(
            place(health.probed(&Probe::NotReady, THRESHOLDS, "6")),
            nowhere
        );
    }

    #[test]
    fn another_reason_for_not_being_ready_is_told_at_once() {
        let mut health = Health::default();
        health.probed(&Probe::NotReady, THRESHOLDS, "1");
        let offline = Probe::Unreachable {
            error: "timeout".to_owned(),
        };
        let status = health.probed(&offline, THRESHOLDS, "2");
        assert_eq!(status.conditions[0].type_, "Offline");
    }
}
