//! Which shard belongs to which key, and which shards a process takes and releases. Pure: every process computes the same
//! from the same view. Different views cost time, never safety.

use std::collections::{BTreeMap, BTreeSet};

/// The shard of a key among `count` shards. Another count moves as few keys as possible. The result is part of the
/// protocol between processes: all versions must compute the same.
pub fn shard_of(key: &str, count: usize) -> usize {
    let of_key = hash(key.as_bytes());
    let weight = |shard: &usize| mixed(of_key ^ mixed(*shard as u64 + 1));
    (0..count).max_by_key(weight).unwrap_or_default()
}

/// FNV-1a in 64 bits.
pub(super) fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// The last step of splitmix64: it spreads the differences of similar numbers.
fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// What a process does about shards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    pub take: BTreeSet<usize>,
    pub release: BTreeSet<usize>,
    /// The shards that it will have when all members have made their moves.
    pub part: BTreeSet<usize>,
}

/// The moves of one member. `holders` has the holder of each shard, if it may be alive; a holder that is no member keeps
/// its shards. A member keeps its shards, unless it has more than its part; those and the free ones go to members with
/// less.
pub fn moves(members: &BTreeSet<String>, holders: &[Option<String>], me: &str) -> Moves {
    let mut held: BTreeMap<&str, Vec<usize>> = members
        .iter()
        .map(|member| (&**member, Vec::new()))
        .collect();
    let mut free = Vec::new();
    for (shard, holder) in holders.iter().enumerate() {
        match holder.as_deref().map(|holder| held.get_mut(holder)) {
            None => free.push(shard),
            Some(Some(shards)) => shards.push(shard),
            Some(None) => {}
        }
    }
    let mut moves = Moves::default();
    let mut room = BTreeMap::new();
    for (member, part) in parts(&held, free.len()) {
        let shards = held.entry(member).or_default();
        // The heaviest stay.
        shards.sort_by_key(|shard| std::cmp::Reverse((weight(member, *shard), *shard)));
        if member == me {
            moves.release.extend(shards.iter().skip(part));
            moves.part.extend(shards.iter().take(part));
        }
        free.extend(shards.iter().skip(part));
        room.insert(member, part.saturating_sub(shards.len()));
    }
    free.sort_unstable();
    for shard in free {
        let with_room = room.iter_mut().filter(|(_, room)| **room > 0);
        let Some((member, room)) = with_room.max_by_key(|(member, _)| weight(member, shard)) else {
            break;
        };
        *room -= 1;
        if *member != me {
            continue;
        }
        moves.part.insert(shard);
        if holders[shard].is_none() {
            moves.take.insert(shard);
        }
    }
    moves
}

/// The number of shards for each member: all get the same, and those that have the most now get the rest.
fn parts<'m>(held: &BTreeMap<&'m str, Vec<usize>>, free: usize) -> Vec<(&'m str, usize)> {
    let count = free + held.values().map(Vec::len).sum::<usize>();
    let (each, rest) = (count / held.len().max(1), count % held.len().max(1));
    let mut members: Vec<_> = held
        .iter()
        .map(|(member, shards)| (*member, shards.len()))
        .collect();
    members.sort_by_key(|(member, shards)| (std::cmp::Reverse(*shards), *member));
    let parts = members.iter().enumerate();
    parts
        .map(|(index, (member, _))| (*member, each + usize::from(index < rest)))
        .collect()
}

fn weight(member: &str, shard: usize) -> u64 {
    mixed(hash(member.as_bytes()) ^ mixed(shard as u64 + 1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_shard_of_a_key_is_the_same_in_every_version() {
        // Computed by another program.
        let vectors = [
            ("", 3, 1),
            ("root", 3, 2),
            ("2x5z0s5tk1vrxhq6", 3, 0),
            ("2x5z0s5tk1vrxhq6", 16, 13),
            ("1f3qkbl4r9y7hd2m", 16, 11),
            ("1f3qkbl4r9y7hd2m", 64, 36),
            ("1f3qkbl4r9y7hd2m", 1, 0),
        ];
        for (key, count, shard) in vectors {
            assert_eq!(shard_of(key, count), shard, "{key} of {count}");
        }
        assert_eq!(hash(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn keys_are_spread_and_another_count_moves_few() {
        let keys: Vec<String> = (0..20_000)
            .map(|number| format!("workspace-{number}"))
            .collect();
        let mut of_shard = [0; 8];
        let mut moved = 0;
        for key in &keys {
            let before = shard_of(key, 7);
            let now = shard_of(key, 8);
            of_shard[now] += 1;
            if before != now {
                moved += 1;
                assert_eq!(now, 7, "{key} moves between shards that stay");
            }
        }
        assert!(
            of_shard.iter().all(|keys| (2_200..2_800).contains(keys)),
            "{of_shard:?}"
        );
        assert!((2_200..2_800).contains(&moved), "{moved}");
    }

    fn member(number: usize) -> String {
        format!("member-{number}")
    }

    /// Lets members move one after the other until nobody does; returns the number of shards that changed hands.
    fn settle(
        members: &BTreeSet<String>,
        holders: &mut [Option<String>],
        turns: &[usize],
    ) -> usize {
        let mut moved = 0;
        let all: Vec<_> = members.iter().collect();
        let mut quiet = 0;
        for (number, turn) in turns.iter().copied().chain(0..1_000).enumerate() {
            let me = all[turn % all.len()];
            let moves = moves(members, holders, me);
            let in_order = number > turns.len();
            let held = (0..holders.len()).filter(|shard| holders[*shard].as_ref() == Some(me));
            if moves.take.is_empty() && moves.release.is_empty() {
                quiet += usize::from(in_order);
                let is_member = |holder: &Option<String>| holder.is_some();
                if holders.iter().all(is_member) && quiet > all.len() {
                    assert_eq!(moves.part, held.collect(), "the part of {me}");
                }
            } else {
                quiet = 0;
            }
            for shard in moves.release {
                assert_eq!(holders[shard].as_ref(), Some(me));
                holders[shard] = None;
                moved += 1;
            }
            for shard in moves.take {
                assert_eq!(holders[shard], None);
                holders[shard] = Some(me.clone());
            }
            if quiet > 2 * all.len() {
                return moved;
            }
        }
        panic!("no end: {holders:?}");
    }

    fn counts(members: &BTreeSet<String>, holders: &[Option<String>]) -> Vec<usize> {
        let held = |member: &String| holders.iter().flatten().filter(|h| *h == member).count();
        members.iter().map(held).collect()
    }

    proptest! {
        #[test]
        fn members_settle_on_equal_parts_and_move_no_more_than_needed(
            count in 1..40_usize,
            present in 1..8_usize,
            holders in prop::collection::vec(prop::option::of(0..9_usize), 40),
            turns in prop::collection::vec(0..8_usize, 60),
        ) {
            let members: BTreeSet<_> = (0..present).map(member).collect();
            // Some holders are no members, and keep what they have.
            let mut holders: Vec<_> = holders[..count].iter().map(|holder| holder.map(member)).collect();
            let strangers = holders.iter().flatten().filter(|h| !members.contains(*h)).count();
            let before = counts(&members, &holders);
            let moved = settle(&members, &mut holders, &turns);
            prop_assert!(holders.iter().all(Option::is_some));
            let after = counts(&members, &holders);
            let (most, least) = (after.iter().max().unwrap(), after.iter().min().unwrap());
            prop_assert!(most - least <= 1, "{:?}", after);
            let part = (count - strangers) / present;
            let rest = (count - strangers) % present;
            // The least that any balance moves: the largest holders keep one more.
            let mut sorted = before;
            sorted.sort_unstable_by_key(|count| std::cmp::Reverse(*count));
            let needed: usize = sorted.iter().enumerate()
                .map(|(index, count)| count.saturating_sub(part + usize::from(index < rest)))
                .sum();
            prop_assert_eq!(moved, needed);
        }

        #[test]
        fn a_free_shard_is_for_exactly_one_member(
            count in 1..40_usize,
            present in 1..8_usize,
            holders in prop::collection::vec(prop::option::of(0..8_usize), 40),
        ) {
            let members: BTreeSet<_> = (0..present).map(member).collect();
            let holders: Vec<_> = holders[..count].iter()
                .map(|holder| holder.filter(|holder| *holder < present).map(member)).collect();
            let mut taken = BTreeSet::new();
            for me in &members {
                for shard in moves(&members, &holders, me).take {
                    prop_assert!(taken.insert(shard), "two members take {}", shard);
                }
            }
        }
    }

    #[test]
    fn one_that_joins_gets_its_part_and_nothing_else_moves() {
        let mut holders: Vec<_> = (0..9).map(|shard| Some(member(shard % 2))).collect();
        let before = holders.clone();
        let members: BTreeSet<_> = (0..3).map(member).collect();
        assert_eq!(settle(&members, &mut holders, &[]), 3);
        let stayed = holders
            .iter()
            .zip(&before)
            .filter(|(now, before)| now == before);
        assert_eq!(stayed.count(), 6);
    }

    #[test]
    fn two_of_four_shards_leave_a_full_member_for_one_without() {
        // By the larger part alone, the third member would have nothing to do.
        let mut holders: Vec<_> = (0..4).map(|shard| Some(member(shard % 2))).collect();
        let members: BTreeSet<_> = (0..3).map(member).collect();
        assert_eq!(settle(&members, &mut holders, &[]), 1);
        assert_eq!(counts(&members, &holders).iter().max(), Some(&2));
        assert_eq!(counts(&members, &holders).iter().min(), Some(&1));
    }
}
