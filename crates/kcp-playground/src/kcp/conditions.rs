//! Status conditions as kcp writes them: without `observedGeneration`, `Ready` first, the others in alphabetical order.
//! The transition time changes only with the content.

use std::cmp::Ordering;

use serde_json::{Map, Value, json};

/// One condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Condition {
    pub kind: &'static str,
    pub state: State,
}

/// The content of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    True,
    False {
        reason: &'static str,
        severity: &'static str,
        message: String,
    },
}

impl Condition {
    pub(crate) fn good(kind: &'static str) -> Self {
        Self {
            kind,
            state: State::True,
        }
    }

    pub(crate) fn bad(
        kind: &'static str,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            kind,
            state: State::False {
                reason,
                severity: "Error",
                message: message.into(),
            },
        }
    }

    /// Not true yet, without an error.
    pub(crate) fn waiting(
        kind: &'static str,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            kind,
            state: State::False {
                reason,
                severity: "Info",
                message: message.into(),
            },
        }
    }

    fn to_map(&self) -> Map<String, Value> {
        let mut map = Map::new();
        map.insert("type".into(), self.kind.into());
        match &self.state {
            State::True => {
                map.insert("status".into(), "True".into());
            }
            State::False {
                reason,
                severity,
                message,
            } => {
                map.insert("status".into(), "False".into());
                map.insert("reason".into(), (*reason).into());
                map.insert("severity".into(), (*severity).into());
                if !message.is_empty() {
                    map.insert("message".into(), message.clone().into());
                }
            }
        }
        map
    }
}

/// Sets conditions in an object's `status.conditions`. Other conditions stay.
pub(crate) fn set(object: &mut Value, conditions: &[Condition], now: &str) {
    let status = &mut object["status"];
    if !status.is_object() {
        *status = json!({});
    }
    let list = &mut status["conditions"];
    if !list.is_array() {
        *list = json!([]);
    }
    let Value::Array(list) = list else { return };
    for condition in conditions {
        let mut new = condition.to_map();
        let old = list.iter_mut().find(|old| old["type"] == condition.kind);
        let unchanged = old.as_ref().is_some_and(|old| {
            ["status", "reason", "severity", "message"]
                .iter()
                .all(|field| old.get(field) == new.get(*field))
        });
        if unchanged {
            continue;
        }
        new.insert("lastTransitionTime".into(), now.into());
        match old {
            Some(old) => *old = Value::Object(new),
            None => list.push(Value::Object(new)),
        }
    }
    list.sort_by(|a, b| order(type_of(a), type_of(b)));
}

/// Whether an object has this condition with the status `True`.
pub(crate) fn is_true(object: &Value, kind: &str) -> bool {
    object["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|c| c["type"] == kind && c["status"] == "True")
}

fn type_of(condition: &Value) -> &str {
    condition["type"].as_str().unwrap_or_default()
}

fn order(a: &str, b: &str) -> Ordering {
    (a != "Ready", a).cmp(&(b != "Ready", b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn types(object: &Value) -> Vec<&str> {
        object["status"]["conditions"]
            .as_array()
            .unwrap()
            .iter()
            .map(type_of)
            .collect()
    }

    #[test]
    fn ready_comes_first_and_the_others_by_name() {
        let mut object = json!({});
        set(
            &mut object,
            &[
                Condition::good("Zeal"),
                Condition::good("Ready"),
                Condition::good("Apt"),
            ],
            "t1",
        );
        assert_eq!(types(&object), ["Ready", "Apt", "Zeal"]);
    }

    #[test]
    fn the_transition_time_moves_only_with_what_is_said() {
        let mut object = json!({});
        set(&mut object, &[Condition::bad("A", "Broken", "why")], "t1");
        let first = object.clone();
        set(&mut object, &[Condition::bad("A", "Broken", "why")], "t2");
        assert_eq!(object, first);
        set(&mut object, &[Condition::good("A")], "t3");
        assert_eq!(
            object["status"]["conditions"],
            json!([{"type": "A", "status": "True", "lastTransitionTime": "t3"}])
        );
        assert!(is_true(&object, "A"));
        assert!(!is_true(&object, "B"));
    }

    #[test]
    fn foreign_conditions_stay() {
        let mut object =
            json!({"status": {"conditions": [{"type": "Mine", "status": "True"}], "phase": "x"}});
        set(&mut object, &[Condition::waiting("A", "Later", "")], "t");
        assert_eq!(types(&object), ["A", "Mine"]);
        assert_eq!(object["status"]["phase"], "x");
    }
}
