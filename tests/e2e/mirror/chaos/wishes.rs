//! What users of both sides do.

use std::time::Duration;

use proptest::prelude::*;
use serde_json::Value;

use super::super::world::{MAPS, MISSIONS, Type};
use crate::chaos::millis;

/// For robot `r1`, without a namespace, with one field of the status.
pub(super) const CHARTS: Type = Type {
    plural: "charts",
    kind: "Chart",
    cluster_scoped: true,
    subtree: Some("robot"),
    ..MISSIONS
};
pub(super) const REPORTS: Type = Type {
    plural: "reports",
    kind: "Report",
    owner: "robot",
    ..MISSIONS
};
pub(super) const TYPES: [Type; 4] = [MISSIONS, MAPS, CHARTS, REPORTS];
/// The objects of a type. From five on, deletions may be held: then the owner of the robot approves them in the end.
pub(super) const NAMES: usize = 7;
pub(super) const DEEDS: usize = 80;
pub(super) const APPROVAL: &str = "hawser.dev/approve-deletions";

#[derive(Clone, Debug)]
pub(super) struct Deed {
    pub(super) wait: Duration,
    pub(super) of: usize,
    pub(super) name: usize,
    pub(super) what: What,
}

/// The first ones are about the owner's object, the others about the copy.
#[derive(Clone, Debug)]
pub(super) enum What {
    Create(u8, Robot),
    Change(u8),
    Annotate(Option<u8>),
    Relabel(Robot),
    Delete,
    /// Deletes it, and creates another one of its name.
    Replace(u8),
    OwnStatus(u8),
    /// A finalizer of the owner's object, or none.
    Hold(bool),
    Status {
        seen: u8,
        has_observed: bool,
    },
    Drift(u8),
    DriftRelabel(Robot),
    DeleteCopy,
    CreateCopy(u8, Robot),
    HoldCopy(bool),
    /// Whether the definition on the robot says who owns the type.
    Announce(bool),
}

/// The label of a robot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Robot {
    Ours,
    Other,
    None,
}

impl Robot {
    pub(super) fn label(self) -> Value {
        match self {
            Self::Ours => "r1".into(),
            Self::Other => "r2".into(),
            Self::None => Value::Null,
        }
    }
}

fn robot() -> impl Strategy<Value = Robot> + Clone {
    prop_oneof![4 => Just(Robot::Ours), 1 => Just(Robot::Other), 1 => Just(Robot::None)]
}

pub(super) fn about_owned() -> impl Strategy<Value = What> {
    let value = any::<u8>();
    prop_oneof![
        5 => (value, robot()).prop_map(|(value, robot)| What::Create(value, robot)),
        4 => value.prop_map(What::Change),
        2 => prop::option::of(value).prop_map(What::Annotate),
        2 => robot().prop_map(What::Relabel),
        2 => Just(What::Delete),
        1 => value.prop_map(What::Replace),
        1 => value.prop_map(What::OwnStatus),
        1 => any::<bool>().prop_map(What::Hold),
    ]
}

pub(super) fn about_copies() -> impl Strategy<Value = What> {
    let value = any::<u8>();
    prop_oneof![
        6 => (value, any::<bool>()).prop_map(|(seen, has_observed)| What::Status { seen, has_observed }),
        2 => value.prop_map(What::Drift),
        1 => robot().prop_map(What::DriftRelabel),
        1 => Just(What::DeleteCopy),
        1 => (value, robot()).prop_map(|(value, robot)| What::CreateCopy(value, robot)),
        1 => any::<bool>().prop_map(What::HoldCopy),
        1 => any::<bool>().prop_map(What::Announce),
    ]
}

pub(super) fn deeds_of(what: impl Strategy<Value = What>) -> impl Strategy<Value = Vec<Deed>> {
    let deed = (millis(0..50), 0..TYPES.len(), 0..NAMES, what);
    let deed = deed.prop_map(|(wait, of, name, what)| Deed {
        wait,
        of,
        name,
        what,
    });
    prop::collection::vec(deed, DEEDS)
}
