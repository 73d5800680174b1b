use serde_json::{Value, json};

use super::*;

fn object() -> Value {
    json!({
        "metadata": {"labels": {"a.b/c": "yes"}},
        "spec": {
            "mode": "slow", "size": 3, "on": true, "free": null, "map": {"k": "v"},
            "tags": ["x", "y", "z", "w"],
        },
        "status": {"conditions": [
            {"type": "Ready", "status": "True", "n": 3, "ok": true},
            {"type": "Other", "status": "False", "n": 2},
            {"type": "A)B", "status": "Unknown", "ratio": 2.5},
        ]},
    })
}

#[expect(clippy::needless_pass_by_value, reason = "cases read better so")]
#[track_caller]
fn check(path: &str, expected: Value) {
    let object = object();
    let path = JsonPath::parse(path).unwrap();
    let found = path.find(&object).unwrap();
    assert_eq!(json!(found), expected, "{path:?}");
}

#[track_caller]
fn unfit(path: &str) {
    let object = object();
    let parsed = JsonPath::parse(path).unwrap();
    assert_eq!(parsed.find(&object), Err(Unfit), "{path}");
}

#[test]
fn fields_are_followed_and_what_is_missing_is_nothing() {
    check(".spec.mode", json!(["slow"]));
    check("$.spec.mode", json!(["slow"]));
    check(".spec.free", json!([null]));
    check(".spec.free.more", json!([]));
    check(".spec.mode.more", json!([]));
    check(".nowhere.at.all", json!([]));
    check(".metadata.labels['a\\.b/c']", json!(["yes"]));
    check(".metadata.labels.a\\.b/c", json!(["yes"]));
    check(".spec.map.*", json!(["v"]));
    check(".spec['mode','size']", json!(["slow", 3]));
    check("..k", json!(["v"]));
}

#[test]
fn lists_are_indexed_and_sliced_within_their_bounds() {
    check(".spec.tags[0]", json!(["x"]));
    check(".spec.tags[]", json!(["x"]));
    check(".spec.tags[-1]", json!(["w"]));
    check(".spec.tags[*]", json!(["x", "y", "z", "w"]));
    check(".spec.tags[1:3]", json!(["y", "z"]));
    check(".spec.tags[1:]", json!(["y", "z", "w"]));
    check(".spec.tags[:-1]", json!(["x", "y", "z"]));
    check(".spec.tags[::2]", json!(["x", "z"]));
    check(".spec.tags[2:2]", json!([]));
    unfit(".spec.tags[4]");
    unfit(".spec.tags[-5]");
    unfit(".spec.tags[0:5]");
    unfit(".spec.tags[3:1]");
    unfit(".spec.tags[::0]");
    unfit(".spec.mode[0]");
}

#[test]
fn filters_keep_what_compares() {
    check(
        ".status.conditions[?(@.type==\"Ready\")].status",
        json!(["True"]),
    );
    check(
        ".status.conditions[?(@.type=='A)B')].status",
        json!(["Unknown"]),
    );
    check(".status.conditions[?(@.n>2)].type", json!(["Ready"]));
    check(
        ".status.conditions[?(@.n<=3)].type",
        json!(["Ready", "Other"]),
    );
    check(".status.conditions[?(@.n)].n", json!([3, 2]));
    check(".status.conditions[?(@.ok==true)].type", json!(["Ready"]));
    check(".status.conditions[?(@.ratio>=2.5)].type", json!(["A)B"]));
    check(
        ".status.conditions[?(@.type!=\"Ready\")].type",
        json!(["Other", "A)B"]),
    );
    check(".status.conditions[?(@.type==\"No\")].status", json!([]));
    unfit(".status.conditions[?(@.type==Ready)].status");
    unfit(".status.conditions[?(@.ratio>2)].status");
    unfit(".status.conditions[?(@.n=2)].status");
    unfit(".spec[?(@.mode)]");
}

#[test]
fn what_is_no_path_is_refused() {
    for path in [
        ".spec[",
        ".spec[?(@.x",
        ".spec[?(@.x)",
        ".spec[a]",
        ".spec[1:2:3:4]",
        ".spec....a",
        ".spec[\"mode\"]",
        "'open",
        "#",
        ".a\n.b",
    ] {
        assert!(JsonPath::parse(path).is_err(), "{path}");
    }
}

#[test]
fn nobody_nests_the_reader_to_death() {
    let deep = format!("{}@{}", "[?(".repeat(10_000), ")]".repeat(10_000));
    assert!(JsonPath::parse(&deep).is_err());
}

#[test]
fn paths_that_multiply_what_they_find_come_to_an_end() {
    let nested = (0..60).fold(json!(1), |inner, _| json!({"a": inner}));
    for many in ["['a','a']".repeat(40), "..a".repeat(12)] {
        let path = JsonPath::parse(&format!(".a{many}")).unwrap();
        assert_eq!(path.find(&nested), Err(Unfit), "{many}");
    }
}
