//! The tables of the contract, row by row.

use super::design::{PREFERENCES, ReplicaState, Settings, schedule};
use super::*;

/// `A:w2,B:min3,*:w1max5`, with `rebalance` after a blank.
fn preferences(text: &str, total: i32) -> Preferences {
    let (clusters, rest) = text.split_once(' ').unwrap_or((text, ""));
    let clusters = clusters.split(',').map(|entry| {
        let (name, fields) = entry.split_once(':').unwrap();
        let number = |field: &str| {
            let (_, rest) = fields.split_once(field)?;
            let end = rest.find(char::is_alphabetic).unwrap_or(rest.len());
            rest[..end].parse().ok()
        };
        let preferences = ClusterPreferences {
            min_replicas: number("min").unwrap_or(0),
            max_replicas: number("max"),
            weight: number("w").unwrap_or(0),
        };
        (name.to_owned(), preferences)
    });
    Preferences {
        total,
        rebalance: rest == "rebalance",
        clusters: clusters.collect(),
    }
}

/// `A10 B-2`
fn counts(text: &str) -> BTreeMap<String, i64> {
    let entries = text.split_whitespace().map(|entry| {
        let at = entry.find(|c: char| c.is_ascii_digit() || c == '-');
        let (name, count) = entry.split_at(at.unwrap());
        (name.to_owned(), count.parse().unwrap())
    });
    entries.collect()
}

fn rooms(clusters: &str, current: &str, capacity: &str) -> BTreeMap<String, MemberCapacity> {
    let (current, capacity) = (counts(current), counts(capacity));
    let rooms = clusters.split_whitespace().map(|name| {
        let room = MemberCapacity {
            current: current.get(name).copied().unwrap_or(0),
            capacity: capacity.get(name).copied(),
        };
        (name.to_owned(), room)
    });
    rooms.collect()
}

/// Preferences, total, members, current, capacity, replicas in the order of the members, overflow.
type Row = (
    &'static str,
    i32,
    &'static str,
    &'static str,
    &'static str,
    &'static [i64],
    &'static str,
);

#[rustfmt::skip]
const ROWS: &[Row] = &[
    ("*:w1", 50, "A B C", "", "", &[16, 17, 17], ""),
    ("*:w1", 50, "A B", "", "", &[25, 25], ""),
    ("*:w1", 1, "A B", "", "", &[0, 1], ""),
    ("*:w1", 1, "A B C D", "", "", &[0, 0, 0, 1], ""),
    ("*:w1", 1, "A", "", "", &[1], ""),
    ("*:w1", 1, "", "", "", &[], ""),
    ("*:w1", 50, "A B C", "C30", "", &[10, 10, 30], ""),
    ("*:w1", 50, "A B", "A30", "", &[30, 20], ""),
    ("*:w1", 15, "A B", "A0 B8", "", &[7, 8], ""),
    ("*:w1", 15, "A B", "A1 B8", "", &[7, 8], ""),
    ("*:w1", 15, "A B", "A4 B8", "", &[7, 8], ""),
    ("*:w1", 15, "A B", "A5 B8", "", &[7, 8], ""),
    ("*:w1", 15, "A B", "A6 B8", "", &[7, 8], ""),
    ("*:w1", 15, "A B", "A7 B8", "", &[7, 8], ""),
    ("*:w1", 500_000, "A B", "A300000", "", &[300_000, 200_000], ""),
    ("*:w1", 50, "A B", "A10", "", &[25, 25], ""),
    ("*:w1", 50, "A B", "A10 B70", "", &[0, 50], ""),
    ("*:w1", 1, "A B", "A30", "", &[1, 0], ""),
    ("*:w1", 50, "A B", "A10 B20", "", &[25, 25], ""),
    ("*:w1 rebalance", 50, "A B C", "", "C10", &[20, 20, 10], "C7"),
    ("A:w10000,B:w1 rebalance", 50, "B C", "", "B10", &[10, 0], "B40"),
    ("A:w1,B:w2 rebalance", 60, "A B C", "", "B10", &[50, 10, 0], "B30"),
    ("A:w10000max10,B:w1,C:w1max21,D:w1max10 rebalance", 71, "A B C D", "", "C10", &[10, 41, 10, 10], "C11"),
    ("A:w1,B:w1", 60, "A B C", "", "A10 B10", &[10, 10, 0], "A20 B20"),
    ("A:w1,B:w5", 60, "A B C", "", "B10", &[50, 10, 0], ""),
    ("*:min20w0", 50, "A B C", "", "B10", &[20, 10, 20], ""),
    ("*:min20w1 rebalance", 60, "A B", "", "B10", &[50, 10], "B15"),
    ("*:min2w0", 50, "A B C", "", "", &[2, 2, 2], ""),
    ("*:min20w0", 50, "A B C", "", "", &[10, 20, 20], ""),
    ("*:min20w0,A:min100w1", 50, "A B C", "", "", &[50, 0, 0], ""),
    ("*:min10w1max12", 50, "A B C", "", "", &[12, 12, 12], ""),
    ("*:w1max2", 50, "A B C", "", "", &[2, 2, 2], ""),
    ("*:w0max2", 50, "A B C", "", "", &[0, 0, 0], ""),
    ("A:w1,B:w2", 60, "A B C", "", "", &[20, 40, 0], ""),
    ("A:w10000,B:w1", 50, "A B C", "", "", &[50, 0, 0], ""),
    ("A:w10000,B:w1", 50, "B C", "", "", &[50, 0], ""),
    ("A:w10000max10,B:w1,C:w1", 50, "A B C", "", "", &[10, 20, 20], ""),
    ("A:w10000max10,B:w1,C:w1max10", 50, "A B C", "", "", &[10, 30, 10], ""),
    ("A:w10000max10,B:w1,C:w1max21,D:w1max10", 71, "A B C D", "", "", &[10, 30, 21, 10], ""),
    ("A:w10000max10,B:w1,C:w1max21,D:w1max10,E:w1", 91, "A B C D E", "", "", &[10, 25, 21, 10, 25], ""),
    // Beyond the numbered rows.
    ("A:w2,B:w3", 10, "A B", "", "", &[4, 6], ""),
    ("*:w1 rebalance", 10, "A B C", "", "B-2", &[6, -2, 6], "B4"),
    ("*:min6max3w1", 10, "A B", "", "", &[4, 6], ""),
    ("*:w1", 0, "A B", "A5", "", &[0, 0], ""),
    ("A:w1,B:w2", 9, "A B", "", "", &[3, 6], ""),
    ("A:min4max6w1,B:min4max8w2", 9, "A B", "", "", &[4, 5], ""),
    ("*:w1", 9, "A B C", "", "", &[3, 3, 3], ""),
    ("*:w1", 4, "A B", "", "", &[2, 2], ""),
    ("A:w2,B:w1", 6, "A B", "", "", &[4, 2], ""),
    ("A:w2min3,B:w1min3", 6, "A B", "", "", &[3, 3], ""),
    ("*:w1", 6, "A", "", "", &[6], ""),
    ("*:w1,C:max20w1", 50, "A C", "", "", &[30, 20], ""),
    ("*:w1,C:max20w1", 50, "C", "", "", &[20], ""),
];

#[test]
fn every_row_of_the_table_gets_its_plan() {
    for (number, row) in (1..).zip(ROWS) {
        let (clusters, total, members, current, capacity, wanted, overflow) = row;
        let preferences = preferences(clusters, *total);
        let plan = plan(&preferences, "", &rooms(members, current, capacity));
        let replicas: Vec<i64> = plan.replicas.values().copied().collect();
        assert_eq!(replicas, *wanted, "row {number}: {clusters} of {total}");
        assert_eq!(plan.overflow, counts(overflow), "row {number}: {clusters}");
    }
}

#[test]
fn the_hash_is_that_of_the_original() {
    for (member, key, wanted) in [
        ("", "", 2_166_136_261),
        ("A", "", 84_696_414),
        ("B", "", 84_696_413),
        ("C", "", 84_696_412),
        ("D", "", 84_696_411),
        ("E", "", 84_696_410),
        ("cluster1", "", 1_449_693_054),
        ("cluster2", "", 1_449_693_053),
        ("A", "test-ns/test-deployment", 1_330_018_495),
        ("B", "test-ns/test-deployment", 1_063_602_982),
        ("C", "test-ns/test-deployment", 4_038_548_405),
        ("cluster1", "default/nginx", 3_290_334_620),
        ("cluster2", "default/nginx", 857_446_301),
    ] {
        assert_eq!(fnv1(member, key), wanted, "{member} {key}");
    }
}

/// Scenario, preferences, key, members, current, capacity, layout.
type Scenario = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static [i64],
);

/// Each scenario with a key whose order gives the documented layout.
#[rustfmt::skip]
const SCENARIOS: &[Scenario] = &[
    ("1a", "*:w1 rebalance", "", "A B C", "", "", &[16, 17, 17]),
    ("1a", "*:w1 rebalance", "default/app-0", "A B C", "", "", &[16, 17, 17]),
    ("1b", "*:w1 rebalance", "", "A B C", "", "C6", &[22, 22, 6]),
    ("1b", "*:w1 rebalance", "default/nginx", "A B C", "", "C6", &[22, 22, 6]),
    ("1c", "*:w1 rebalance", "", "A", "", "", &[50]),
    ("2 max", "*:max2w1 rebalance", "", "A B C", "", "", &[2, 2, 2]),
    ("2 min", "*:min2w0 rebalance", "", "A B C", "", "", &[2, 2, 2]),
    ("2 both", "*:min2max2 rebalance", "", "A B C", "", "", &[2, 2, 2]),
    ("3", "*:min20w0 rebalance", "default/app-300", "A B C", "", "", &[20, 20, 10]),
    ("3", "*:min20w0 rebalance", "default/scenario-3", "A B C", "", "", &[20, 20, 10]),
    ("3", "*:min20w0 rebalance", "test-ns/test-deployment", "A B C", "", "", &[20, 20, 10]),
    ("4a", "*:w1,C:max20w1 rebalance", "", "A B C", "", "", &[16, 17, 17]),
    ("4b", "*:w1,C:max20w1 rebalance", "", "A B C", "", "B0", &[30, 0, 20]),
    ("4c", "*:w1,C:max20w1 rebalance", "", "C", "", "", &[20]),
    ("5a", "A:w1000000,B:w1,C:w1", "", "A B C", "", "", &[50, 0, 0]),
    ("5b", "A:w1000000,B:w1,C:w1", "", "A B C", "", "A40", &[40, 5, 5]),
    ("7a", "*:w1", "", "A B C", "A20", "", &[20, 15, 15]),
    ("7b", "*:w1", "frs", "A B C", "A20", "C6", &[22, 22, 6]),
    ("7b", "*:w1", "default/app-100", "A B C", "A20", "C6", &[22, 22, 6]),
    ("7b", "*:w1", "", "A B C", "A20", "C6", &[21, 23, 6]),
    ("7c", "*:w1", "", "A B C", "A30", "C6", &[30, 14, 6]),
];

#[test]
fn the_scenarios_of_the_design_get_their_layouts() {
    for (scenario, clusters, key, members, current, capacity, wanted) in SCENARIOS {
        let preferences = preferences(clusters, 50);
        let plan = plan(&preferences, key, &rooms(members, current, capacity));
        let replicas: Vec<i64> = plan.replicas.values().copied().collect();
        assert_eq!(replicas, *wanted, "scenario {scenario}, key {key:?}");
    }
    let weighted = |total| {
        let preferences = preferences("A:w2,B:w1,C:w1", total);
        plan(&preferences, "", &rooms("A B C", "", "")).replicas
    };
    assert_eq!(weighted(40), counts("A20 B10 C10"), "scenario 6");
    assert_eq!(weighted(50)["A"], 25, "scenario 6");
}

/// Member, placed, failed, waiting, refusals.
type Row5 = (&'static str, i64, i64, i64, u32);

fn seen(entries: &[Row5]) -> BTreeMap<String, ReplicaState> {
    let entries = entries.iter().map(|entry| {
        let (name, placed, failed, waiting, refusals) = *entry;
        let seen = ReplicaState {
            placed,
            failed,
            waiting,
            refusals,
        };
        (name.to_owned(), seen)
    });
    entries.collect()
}

#[track_caller]
fn check_design(clusters: &str, members: &[Row5], replicas: &str, probes: &str) {
    let preferences = preferences(clusters, 50);
    let got = schedule(&preferences, "", &seen(members), Settings::default());
    assert_eq!(got.replicas, counts(replicas), "replicas");
    assert_eq!(got.probes, counts(probes), "probes");
}

#[test]
#[rustfmt::skip]
fn replicas_that_do_not_come_up_go_elsewhere_and_a_couple_stays() {
    // Scenario 1b by what is seen: of 17 in C, 11 find no room.
    let members = [("A", 16, 0, 0, 0), ("B", 17, 0, 0, 0), ("C", 17, 11, 0, 0)];
    check_design("*:w1 rebalance", &members, "A22 B22 C8", "C2");
    // Then everything stays as it is.
    let members = [("A", 22, 0, 0, 0), ("B", 22, 0, 0, 0), ("C", 8, 2, 0, 0)];
    check_design("*:w1 rebalance", &members, "A22 B22 C8", "C2");
    // One probe finds room: C is tried with one more.
    let members = [("A", 22, 0, 0, 0), ("B", 22, 0, 0, 0), ("C", 8, 1, 0, 0)];
    check_design("*:w1 rebalance", &members, "A21 B22 C8", "C1");
    // Both do: the replicas come back.
    let members = [("A", 22, 0, 0, 0), ("B", 22, 0, 0, 0), ("C", 8, 0, 0, 0)];
    check_design("*:w1 rebalance", &members, "A16 B17 C17", "");
}

#[test]
#[rustfmt::skip]
fn there_are_never_more_probes_than_replicas_that_were_moved() {
    let members = [("A", 16, 0, 0, 0), ("B", 17, 0, 0, 0), ("C", 17, 1, 0, 0)];
    check_design("*:w1 rebalance", &members, "A17 B17 C17", "C1");
    // A minimum that has no room leaves probes, too.
    let members = [("A", 10, 0, 0, 0), ("B", 20, 15, 0, 0), ("C", 20, 0, 0, 0)];
    check_design("*:min20w0 rebalance", &members, "A20 B7 C20", "B2");
}

#[test]
#[rustfmt::skip]
fn replicas_that_run_stay_unless_the_owner_lets_them_be_moved() {
    let members = [("A", 30, 0, 0, 0), ("B", 10, 0, 0, 0), ("C", 10, 4, 0, 0)];
    check_design("*:w1", &members, "A30 B14 C8", "C2");
    // Once they run elsewhere there is nothing to come back to.
    let members = [("A", 30, 0, 0, 0), ("B", 14, 0, 0, 0), ("C", 8, 2, 0, 0)];
    check_design("*:w1", &members, "A30 B14 C6", "");
}

#[test]
#[rustfmt::skip]
fn nothing_is_moved_to_a_member_with_replicas_that_wait() {
    let members = [("A", 16, 0, 0, 0), ("B", 17, 0, 3, 0), ("C", 17, 11, 0, 0)];
    check_design("*:w1 rebalance", &members, "A27 B17 C8", "C2");
    // Its own share it gets all the same.
    let members = [("A", 5, 0, 5, 0), ("B", 5, 0, 5, 0), ("C", 5, 0, 5, 0)];
    check_design("*:w1 rebalance", &members, "A16 B17 C17", "");
}

#[test]
fn a_member_that_refuses_the_workload_loses_its_replicas_until_it_takes_it() {
    let fine = [("A", 16, 0, 0, 0), ("B", 17, 0, 0, 0)];
    let check = |c: Row5, replicas: &str, probes: &str| {
        check_design("*:w1 rebalance", &[fine[0], fine[1], c], replicas, probes);
    };
    // At first it is waited for, then it is as if the replicas found no room.
    check(("C", 17, 0, 17, 1), "A16 B17 C17", "");
    check(("C", 17, 17, 0, 2), "A25 B25 C2", "C2");
    // After the third time all of them go.
    check(("C", 2, 2, 0, 3), "A25 B25 C0", "");
    // It takes the workload: they come back.
    check(("C", 0, 0, 0, 0), "A16 B17 C17", "");
}

#[test]
fn replicas_without_a_place_are_told() {
    let preferences = preferences("*:max2w1,D:w0", 50);
    let members = seen(&[("A", 0, 0, 0, 0), ("B", 0, 0, 0, 0), ("D", 3, 0, 0, 0)]);
    let got = schedule(&preferences, "", &members, Settings::default());
    assert_eq!(got.replicas, counts("A2 B2 D3"), "what runs in D stays");
    assert_eq!(got.unplaced, 43);
}

#[test]
fn a_member_that_matches_nothing_gets_no_workload() {
    let preferences = preferences("A:w1", 5);
    let members = seen(&[("A", 0, 0, 0, 0), ("B", 4, 0, 0, 0)]);
    let got = schedule(&preferences, "", &members, Settings::default());
    assert_eq!(got.replicas, counts("A5"));
}

#[test]
fn preferences_are_read_in_any_case() {
    let read = |text: &str| Preferences::from_annotation(50, Some(text)).unwrap();
    let wanted = preferences("*:min1w2,A:max3 rebalance", 50);
    for text in [
        r#"{"rebalance": true, "Clusters": {"*": {"minReplicas": 1, "Weight": 2}, "A": {"maxReplicas": 3}}}"#,
        r#"{"Rebalance": true, "clusters": {"*": {"minreplicas": 1, "weight": 2, "other": []}, "A": {"MaxReplicas": 3, "weight": null}}}"#,
    ] {
        assert_eq!(read(text), wanted);
    }
    let without = Preferences::from_annotation(50, None).unwrap();
    assert_eq!(without, preferences("*:w1", 50));
    assert!(read("{}").clusters.is_empty(), "no entry, no replicas");
}

#[test]
fn preferences_that_nobody_can_mean_are_refused_with_what_to_do() {
    let told = |text: &str| {
        let error = Preferences::from_annotation(1, Some(text)).unwrap_err();
        let text = error.to_string();
        let rest = text.strip_prefix(&format!("annotation {PREFERENCES}"));
        rest.unwrap().to_owned()
    };
    for (text, problem) in [
        ("[]", "expected an object"),
        (r#"{"rebalance": 1}"#, "rebalance must be true or false"),
        (
            r#"{"clusters": {"A": {"weight": 0.5}}}"#,
            "cluster \"A\": weight must be a 64-bit integer",
        ),
    ] {
        assert_eq!(
            told(text),
            format!(" is not a JSON object of preferences: {problem}; correct or remove it")
        );
    }
    assert_eq!(
        told(r#"{"clusters": {"A": {"weight": -1, "minReplicas": 3, "maxReplicas": 2}}}"#),
        ": weight of cluster \"A\" is -1: set 0 or more, minReplicas 3 of cluster \"A\" is above its \
         maxReplicas 2: lower one or raise the other"
    );
    assert!(Preferences::from_annotation(1, Some("no JSON")).is_err());
    let negative = preferences("*:w1", -3);
    assert_eq!(
        negative.problems(),
        ["the total number of replicas is -3: set 0 or more"]
    );
}

#[test]
fn a_large_credit_is_used_up_at_once() {
    // One more than runs already, all of it in one member: taken round by round, that is two thousand million.
    let preferences = preferences("A:w1,B:w0", 2_000_000_001);
    let plan = plan(&preferences, "", &rooms("A B", "A2000000000", ""));
    assert_eq!(plan.replicas, counts("A2000000001 B0"));
}
