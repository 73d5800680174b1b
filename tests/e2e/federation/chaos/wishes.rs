//! What users of a federation do, and what they want.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;

use crate::chaos::millis;

pub(super) const MEMBERS: usize = 2;
pub(super) const NAMESPACES: usize = 2;
/// The names of a kind in a namespace.
pub(super) const NAMES: usize = 3;
pub(super) const DEEDS: usize = 40;
pub(super) const MANAGED: &str = "kubefed.io/managed";
/// The zones of members.
pub(super) const ZONES: [&str; 2] = ["a", "b"];

/// Where a federated object is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Unsaid,
    Everywhere,
    Zone(usize),
    /// Members by name. A selector beside them says nothing.
    Listed([bool; MEMBERS], bool),
}

#[derive(Clone, Debug)]
pub(super) struct Wish {
    pub(super) value: u8,
    pub(super) place: Place,
    /// The value of each member.
    pub(super) overrides: [Option<u8>; MEMBERS],
    /// The member whose overrides cannot be applied: what it has stays.
    unfit: Option<usize>,
}

impl Wish {
    pub(super) fn is_unfit(&self, member: usize) -> bool {
        self.unfit == Some(member)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Of {
    Map,
    Secret,
}

/// A federated object by namespace, kind and number of its name.
pub(super) type At = (usize, Of, usize);

#[derive(Clone, Debug)]
pub(super) enum What {
    Create(At, Wish),
    Change(At, Wish),
    Delete(At),
    Orphan(At),
    /// Federates a namespace, or changes where it is.
    Federate(usize, Place),
    Unfederate(usize),
}

/// What is done in a member.
#[derive(Clone, Debug)]
pub(super) enum There {
    /// Changes the data, and perhaps the labels too.
    Drift(At, u8, bool),
    Annotate(At, u8),
    Unlabel(At),
    Delete(At),
    Create(At, u8),
    DeleteNamespace(usize),
}

#[derive(Clone, Debug)]
pub(super) enum Administration {
    Zone(usize),
    /// Whether the member has its own address.
    Address(bool),
    /// Whether the member is registered.
    Registered(bool),
    /// Whether a kind is propagated.
    Propagated(Of, bool),
}

#[derive(Clone, Debug)]
pub(super) struct Deeds {
    pub(super) host: Vec<(Duration, What)>,
    pub(super) members: Vec<(Duration, usize, There)>,
    /// The last deeds of a round: nothing else has the copies written again.
    pub(super) drifts: Vec<(Duration, usize, There)>,
    pub(super) administrator: Vec<(Duration, usize, Administration)>,
}

fn place() -> impl Strategy<Value = Place> + Clone {
    prop_oneof![
        1 => Just(Place::Unsaid),
        3 => Just(Place::Everywhere),
        2 => (0..ZONES.len()).prop_map(Place::Zone),
        3 => (any::<[bool; MEMBERS]>(), any::<bool>()).prop_map(|(on, beside)| Place::Listed(on, beside)),
    ]
}

fn of() -> impl Strategy<Value = Of> + Clone {
    prop_oneof![Just(Of::Map), Just(Of::Secret)]
}

fn at() -> impl Strategy<Value = At> + Clone {
    (0..NAMESPACES, of(), 0..NAMES)
}

fn what() -> impl Strategy<Value = What> {
    let overrides = [
        prop::option::weighted(0.3, any::<u8>()),
        prop::option::weighted(0.3, any::<u8>()),
    ];
    let unfit = prop::option::weighted(0.1, 0..MEMBERS);
    let wish = (any::<u8>(), place(), overrides, unfit);
    let wish = wish.prop_map(|(value, place, overrides, unfit)| Wish {
        value,
        place,
        overrides,
        unfit,
    });
    let wish = wish.boxed();
    prop_oneof![
        5 => (at(), wish.clone()).prop_map(|(at, wish)| What::Create(at, wish)),
        4 => (at(), wish).prop_map(|(at, wish)| What::Change(at, wish)),
        2 => at().prop_map(What::Delete),
        1 => at().prop_map(What::Orphan),
        3 => (0..NAMESPACES, place()).prop_map(|(namespace, place)| What::Federate(namespace, place)),
        1 => (0..NAMESPACES).prop_map(What::Unfederate),
    ]
}

fn drift() -> impl Strategy<Value = There> {
    (at(), any::<u8>(), any::<bool>())
        .prop_map(|(at, value, is_relabeled)| There::Drift(at, value, is_relabeled))
}

fn there() -> impl Strategy<Value = There> {
    prop_oneof![
        4 => drift(),
        2 => (at(), any::<u8>()).prop_map(|(at, value)| There::Annotate(at, value)),
        1 => at().prop_map(There::Unlabel),
        2 => at().prop_map(There::Delete),
        2 => (at(), any::<u8>()).prop_map(|(at, value)| There::Create(at, value)),
        1 => (0..NAMESPACES).prop_map(There::DeleteNamespace),
    ]
}

pub(super) fn deeds() -> BoxedStrategy<Deeds> {
    let administration = prop_oneof![
        2 => (0..ZONES.len()).prop_map(Administration::Zone),
        1 => any::<bool>().prop_map(Administration::Address),
        1 => any::<bool>().prop_map(Administration::Registered),
        1 => (of(), any::<bool>()).prop_map(|(of, is)| Administration::Propagated(of, is)),
    ];
    let host = prop::collection::vec((millis(0..80), what()), DEEDS);
    let members = prop::collection::vec((millis(0..80), 0..MEMBERS, there()), DEEDS);
    let administrator = (millis(0..700), 0..MEMBERS, administration);
    let administrator = prop::collection::vec(administrator, 0..5);
    let drifts = prop::collection::vec((millis(0..80), 0..MEMBERS, drift()), 0..8);
    (host, members, drifts, administrator)
        .prop_map(|(host, members, drifts, administrator)| Deeds {
            host,
            members,
            drifts,
            administrator,
        })
        .boxed()
}

#[derive(Clone, Default)]
pub(super) struct Wanted {
    pub(super) objects: BTreeMap<At, Wish>,
    pub(super) namespaces: BTreeMap<usize, Place>,
    pub(super) zones: [usize; MEMBERS],
}

impl Wanted {
    pub(super) fn selects(&self, place: &Place, member: usize) -> bool {
        match place {
            Place::Unsaid => false,
            Place::Everywhere => true,
            Place::Zone(zone) => self.zones[member] == *zone,
            Place::Listed(on, _) => on[member],
        }
    }

    /// The members of an object: its own within those of its namespace.
    pub(super) fn members(&self, (namespace, ..): At, wish: &Wish) -> Vec<usize> {
        let Some(around) = self.namespaces.get(&namespace) else {
            return Vec::new();
        };
        let is_on =
            |member: &usize| self.selects(around, *member) && self.selects(&wish.place, *member);
        (0..MEMBERS).filter(is_on).collect()
    }
}
