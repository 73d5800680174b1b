//! What users of a fleet do, and what they want.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Result, ensure};
use proptest::prelude::*;

use crate::chaos::millis;

pub(super) const MEMBERS: usize = 3;
/// A placement each, of the namespace with its number.
pub(super) const PLACEMENTS: usize = 2;
/// The names of a kind in a namespace.
pub(super) const NAMES: usize = 3;
pub(super) const DEEDS: usize = 30;
pub(super) const ZONES: [&str; 2] = ["a", "b"];
pub(super) const PLACEMENT: &str = "/apis/placement.kubernetes-fleet.io/v1beta1";
pub(super) const CLUSTER: &str = "/apis/cluster.kubernetes-fleet.io/v1beta1";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Of {
    Map,
    Secret,
}

/// An object by namespace, kind and number of its name.
pub(super) type At = (usize, Of, usize);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Pick {
    /// In a zone, or anywhere.
    All(Option<usize>),
    Fixed([bool; MEMBERS]),
    N(usize, Option<usize>),
}

#[derive(Clone, Debug)]
pub(super) struct Policy {
    pub(super) pick: Pick,
    /// Whether it tolerates the taint of the administrator.
    pub(super) tolerates: bool,
    /// Whether the members apply by server-side apply.
    pub(super) is_server_side: bool,
}

impl Policy {
    /// Whether another policy differs from it by no more than the number of clusters.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.pick == other.pick
            || matches!((&self.pick, &other.pick), (Pick::N(_, zone), Pick::N(_, other)) if zone == other)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Object {
    pub(super) value: u8,
    pub(super) more: Option<u8>,
}

#[derive(Clone, Debug)]
pub(super) enum What {
    Write(At, Object),
    Delete(At),
    Place(usize, Policy),
    /// Changes the policy, if it is of the same kind.
    Change(usize, Pick),
    Withdraw(usize),
    /// Gives the ConfigMap of this number another value in one member.
    Override(usize, usize, usize, u8),
    EndOverride(usize),
    /// Labels a namespace.
    Label(usize, u8),
    /// Takes a placement from a member, which may be picked again.
    Evict(usize, usize),
}

/// What is done in a member.
#[derive(Clone, Debug)]
pub(super) enum There {
    Drift(At, u8),
    Delete(At),
    Create(At, u8),
    DeleteNamespace(usize),
    /// An object that nobody placed, in a placed namespace.
    Own(usize, u8),
    /// Takes the owner of an object away.
    Disown(At),
    /// Deletes the `AppliedWork` of a placement, and so all that it owns.
    DeleteApplied(usize),
}

#[derive(Clone, Debug)]
pub(super) enum Administration {
    Zone(usize),
    Taint(bool),
    /// The member leaves, and joins again after the round.
    Leave,
}

#[derive(Clone, Debug)]
pub(super) struct Deeds {
    pub(super) hub: Vec<(Duration, What)>,
    pub(super) members: Vec<(Duration, usize, There)>,
    pub(super) administrator: Vec<(Duration, usize, Administration)>,
}

fn at() -> impl Strategy<Value = At> + Clone {
    let of = prop_oneof![2 => Just(Of::Map), 1 => Just(Of::Secret)];
    (0..PLACEMENTS, of, 0..NAMES)
}

fn pick() -> impl Strategy<Value = Pick> + Clone {
    let zone = prop::option::weighted(0.4, 0..ZONES.len());
    prop_oneof![
        zone.clone().prop_map(Pick::All),
        any::<[bool; MEMBERS]>().prop_map(|on| Pick::Fixed([
            on[0],
            on[1],
            on[2] || on == [false; MEMBERS]
        ])),
        (0..=MEMBERS, zone).prop_map(|(count, zone)| Pick::N(count, zone)),
    ]
}

fn what() -> impl Strategy<Value = What> {
    let number = 0..PLACEMENTS;
    let object = (any::<u8>(), prop::option::of(any::<u8>()));
    let object = object.prop_map(|(value, more)| Object { value, more });
    let policy = (pick(), any::<bool>(), any::<bool>());
    let policy = policy.prop_map(|(pick, tolerates, is_server_side)| Policy {
        pick,
        tolerates,
        is_server_side,
    });
    prop_oneof![
        6 => (at(), object).prop_map(|(at, object)| What::Write(at, object)),
        2 => at().prop_map(What::Delete),
        3 => (number.clone(), policy).prop_map(|(number, policy)| What::Place(number, policy)),
        4 => (number.clone(), pick()).prop_map(|(number, pick)| What::Change(number, pick)),
        1 => number.clone().prop_map(What::Withdraw),
        2 => (number.clone(), 0..NAMES, 0..MEMBERS, any::<u8>())
            .prop_map(|(number, name, member, value)| What::Override(number, name, member, value)),
        1 => number.clone().prop_map(What::EndOverride),
        1 => (number.clone(), any::<u8>()).prop_map(|(number, value)| What::Label(number, value)),
        1 => (number, 0..MEMBERS).prop_map(|(number, member)| What::Evict(number, member)),
    ]
}

fn there() -> impl Strategy<Value = There> {
    prop_oneof![
        4 => (at(), any::<u8>()).prop_map(|(at, value)| There::Drift(at, value)),
        2 => at().prop_map(There::Delete),
        1 => (at(), any::<u8>()).prop_map(|(at, value)| There::Create(at, value)),
        1 => (0..PLACEMENTS).prop_map(There::DeleteNamespace),
        1 => (0..PLACEMENTS, any::<u8>()).prop_map(|(number, value)| There::Own(number, value)),
        1 => at().prop_map(There::Disown),
        1 => (0..PLACEMENTS).prop_map(There::DeleteApplied),
    ]
}

pub(super) fn deeds() -> BoxedStrategy<Deeds> {
    let administration = prop_oneof![
        4 => (0..ZONES.len()).prop_map(Administration::Zone),
        4 => any::<bool>().prop_map(Administration::Taint),
        1 => Just(Administration::Leave),
    ];
    let hub = prop::collection::vec((millis(0..120), what()), DEEDS);
    let members = prop::collection::vec((millis(0..120), 0..MEMBERS, there()), DEEDS);
    let administrator = (millis(0..700), 0..MEMBERS, administration);
    (hub, members, prop::collection::vec(administrator, 0..5))
        .prop_map(|(hub, members, administrator)| Deeds {
            hub,
            members,
            administrator,
        })
        .boxed()
}

/// A placement as its users want it.
#[derive(Clone)]
pub(super) struct Placed {
    pub(super) policy: Policy,
    /// The members that suited a policy at any time since it was first written. What is picked stays, even if it suits no
    /// more; and the hub need not have seen the policies in between.
    pub(super) suited: Vec<(Policy, BTreeSet<usize>)>,
}

#[derive(Clone, Default)]
pub(super) struct Wanted {
    pub(super) objects: BTreeMap<At, Object>,
    pub(super) placements: BTreeMap<usize, Placed>,
    /// By namespace: ConfigMap, member and value.
    pub(super) overrides: BTreeMap<usize, (usize, usize, u8)>,
    pub(super) labels: BTreeMap<usize, u8>,
    pub(super) zones: [usize; MEMBERS],
    pub(super) tainted: [bool; MEMBERS],
    /// Whether what members have already is placed.
    pub(super) is_taken_placed: bool,
}

impl Wanted {
    pub(super) fn suits(&self, policy: &Policy, member: usize) -> bool {
        let tolerates = policy.tolerates || !self.tainted[member];
        match &policy.pick {
            Pick::All(zone) | Pick::N(_, zone) => {
                tolerates && zone.is_none_or(|zone| self.zones[member] == zone)
            }
            Pick::Fixed(on) => on[member],
        }
    }

    pub(super) fn suiting(&self, policy: &Policy) -> BTreeSet<usize> {
        let members = 0..MEMBERS;
        members
            .filter(|member| self.suits(policy, *member))
            .collect()
    }

    /// Takes note of the members that suit since a member changed.
    pub(super) fn note(&mut self) {
        let now = self.clone();
        for placed in self.placements.values_mut() {
            for (policy, suited) in &mut placed.suited {
                suited.extend(now.suiting(policy));
            }
        }
    }

    /// Whether these members may be what was picked; whether the policy is fulfilled by them.
    pub(super) fn check_picked(&self, placed: &Placed, picked: &BTreeSet<usize>) -> Result<bool> {
        let suiting = self.suiting(&placed.policy);
        let policy = &placed.policy;
        let suited = placed
            .suited
            .iter()
            .filter(|(before, _)| before.is_like(policy));
        let suited: BTreeSet<usize> = suited.flat_map(|(_, suited)| suited).copied().collect();
        ensure!(
            picked.is_subset(&suited),
            "{picked:?} are picked, {suited:?} suited {policy:?}"
        );
        match &policy.pick {
            Pick::All(_) | Pick::Fixed(_) => {
                ensure!(
                    suiting.is_subset(picked),
                    "{picked:?} are picked, {suiting:?} suit {policy:?}"
                );
                Ok(true)
            }
            Pick::N(count, _) => {
                let is_done = picked.len() == *count;
                ensure!(
                    picked.len() <= *count && (is_done || suiting.is_subset(picked)),
                    "{picked:?} are picked, {suiting:?} suit {policy:?}"
                );
                Ok(is_done)
            }
        }
    }

    pub(super) fn value(&self, at: At, member: usize) -> u8 {
        let own = self.objects[&at].value;
        match self.overrides.get(&at.0) {
            Some((name, of, value)) if at.1 == Of::Map && *name == at.2 && *of == member => *value,
            _ => own,
        }
    }
}
