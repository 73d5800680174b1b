use std::borrow::Cow;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::element::Element;
use super::managed::Managed;
use super::*;

/// One version, in which everything is written.
struct One {
    kind: Type,
    unwritten: Set,
}

impl Versions for One {
    fn convert<'v>(&self, object: &'v Value, version: &str) -> Result<Option<Typed<'v>>, String> {
        Ok((version == "e.com/v1").then(|| Typed {
            value: Cow::Borrowed(object),
            kind: self.kind.clone(),
        }))
    }

    fn unwritten(&self, _version: &str) -> &Set {
        &self.unwritten
    }
}

fn schema() -> Type {
    of_schema(
        &json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "size": {"type": "integer"},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "plain": {"type": "array", "items": {"type": "string"}},
            "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}},
            "words": {"type": "object", "additionalProperties": {"type": "string"}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "items": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "port"],
                "items": {"type": "object", "properties": {
                    "name": {"type": "string"}, "port": {"type": "integer", "default": 80}, "value": {"type": "string"}}}},
        }}, "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}),
    )
}

fn versions() -> One {
    One {
        kind: schema(),
        unwritten: Set::of_fields(&["status"]),
    }
}

fn ownership(versions: &One) -> Ownership<'_> {
    Ownership {
        versions,
        kind: &versions.kind,
        version: "e.com/v1",
        subresource: "",
        now: "2026-01-01T00:00:00Z",
    }
}

fn thing(spec: &Value) -> Value {
    json!({"apiVersion": "e.com/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": spec})
}

fn zero() -> Value {
    json!({"apiVersion": "e.com/v1", "kind": "Thing"})
}

fn apply(live: &Value, manager: &str, spec: &Value, force: bool) -> Result<Value, ApplyError> {
    let versions = versions();
    let config = thing(spec);
    let apply = Apply {
        manager,
        config: &config,
        force,
        zero: &zero(),
    };
    ownership(&versions).apply(live, &apply)
}

/// What a manager owns below `spec`.
fn owned(object: &Value, manager: &str) -> Value {
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    let found = entries.iter().find(|entry| entry["manager"] == manager);
    found.map_or(Value::Null, |entry| entry["fieldsV1"]["f:spec"].clone())
}

#[test]
fn an_applied_field_is_owned_and_goes_when_it_is_no_longer_applied() {
    let first = apply(&zero(), "a", &json!({"size": 1, "set": ["x", "y"]}), false).unwrap();
    assert_eq!(
        owned(&first, "a"),
        json!({"f:set": {"v:\"x\"": {}, "v:\"y\"": {}}, "f:size": {}})
    );
    let second = apply(&first, "b", &json!({"set": ["y", "z"]}), false).unwrap();
    assert_eq!(second["spec"], json!({"size": 1, "set": ["x", "y", "z"]}));
    let third = apply(&second, "a", &json!({"size": 1}), false).unwrap();
    assert_eq!(third["spec"], json!({"size": 1, "set": ["y", "z"]}));
    let fourth = apply(&third, "b", &json!({}), false).unwrap();
    assert_eq!(fourth["spec"], json!({"size": 1}));
    assert_eq!(owned(&fourth, "b"), json!({}));
}

#[test]
fn who_changes_a_field_of_another_is_told_or_takes_it() {
    let items = |value: &str| json!({"items": [{"name": "x", "value": value}]});
    let live = apply(&zero(), "a", &items("1"), false).unwrap();
    let Err(ApplyError::Conflicts(conflicts)) = apply(&live, "b", &items("2"), false) else {
        panic!("no conflict");
    };
    let told: Vec<String> = conflicts.iter().map(|c| c.path.to_string()).collect();
    assert_eq!(told, [".spec.items[name=\"x\",port=80].value"]);
    let taken = apply(&live, "b", &items("2"), true).unwrap();
    assert_eq!(
        owned(&taken, "a"),
        json!({"f:items": {"k:{\"name\":\"x\",\"port\":80}": {".": {}, "f:name": {}}}})
    );
    assert_eq!(taken["spec"], items("2"));
}

#[test]
fn what_nothing_is_known_of_has_owners_in_its_maps_and_one_of_a_list() {
    let live = apply(
        &zero(),
        "a",
        &json!({"free": {"m": {"k": 1}, "l": [1]}}),
        false,
    )
    .unwrap();
    assert_eq!(
        owned(&live, "a"),
        json!({"f:free": {"f:l": {}, "f:m": {".": {}, "f:k": {}}}})
    );
}

#[test]
fn an_update_takes_what_it_changes_and_an_unchanged_one_nothing() {
    let versions = versions();
    let live = apply(&zero(), "a", &json!({"size": 1, "plain": ["x"]}), false).unwrap();
    let mut same = live.clone();
    ownership(&versions).update(&live, &mut same, "b");
    assert_eq!(same, live);
    let mut changed = live.clone();
    changed["spec"]["plain"] = json!(["y"]);
    changed["status"] = json!({"ready": true});
    ownership(&versions).update(&live, &mut changed, "b");
    assert_eq!(owned(&changed, "a"), json!({"f:size": {}}));
    assert_eq!(owned(&changed, "b"), json!({"f:plain": {}}));
}

#[test]
fn a_client_may_ask_for_all_entries_to_be_forgotten() {
    let versions = versions();
    let mut live = apply(&zero(), "a", &json!({"size": 1}), false).unwrap();
    live["metadata"]["uid"] = "u".into();
    for entries in [json!([]), json!([{}])] {
        let mut object = live.clone();
        object["metadata"]["managedFields"] = entries;
        ownership(&versions).update(&live, &mut object, "b");
        assert_eq!(object["metadata"].get("managedFields"), None);
        // The first who applies after that finds a manager of what was there.
        let again = apply(&object, "c", &json!({"size": 1}), false).unwrap();
        assert_eq!(owned(&again, "before-first-apply")["f:size"], json!({}));
    }
}

#[test]
fn managers_by_update_are_ten_and_those_that_were() {
    let versions = versions();
    let mut live = zero();
    for number in 0..14 {
        let mut object = live.clone();
        object["metadata"]["uid"] = "u".into();
        object["spec"]["words"][format!("k{number}")] = "v".into();
        ownership(&versions).update(&live, &mut object, &format!("m{number:02}"));
        live = object;
    }
    let entries = live["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(entries.len(), 10);
    let ancient = owned(&live, "ancient-changes");
    assert_eq!(ancient["f:words"].as_object().unwrap().len(), 6);
    assert_eq!(owned(&live, "m13"), json!({"f:words": {"f:k13": {}}}));
}

#[test]
fn a_thousand_managers_have_an_object_in_common() {
    let versions = versions();
    let mut words = serde_json::Map::new();
    let mut entries = Vec::new();
    for number in 0..1000 {
        let mut fields = serde_json::Map::new();
        for word in 0..20 {
            let word = format!("manager-{number}-word-{word}-of-some-length");
            fields.insert(format!("f:{word}"), json!({}));
            words.insert(word, "v".into());
        }
        entries.push(json!({
            "manager": format!("m{number}"), "operation": "Apply", "apiVersion": "e.com/v1",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:words": fields}},
        }));
    }
    let mut live = thing(&json!({"words": words}));
    live["metadata"]["managedFields"] = entries.into();
    live["metadata"]["uid"] = "u".into();
    assert!(live.to_string().len() > 1_000_000);
    let all: Value = words
        .keys()
        .map(|word| (word.clone(), json!("w")))
        .collect();
    let refused = apply(&live, "new", &json!({"words": all}), false).unwrap_err();
    let ApplyError::Conflicts(conflicts) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(conflicts.len(), 20_000);
    let taken = apply(&live, "new", &json!({"words": all}), true).unwrap();
    assert_eq!(
        taken["metadata"]["managedFields"].as_array().unwrap().len(),
        1
    );
    let beside = apply(&live, "new", &json!({"size": 1}), false).unwrap();
    let managers = beside["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(managers.len(), 1001);
    let mut updated = live.clone();
    updated["spec"]["words"] = all;
    ownership(&versions).update(&live, &mut updated, "u");
    let managers = updated["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(managers.len(), 1);
}

/// A path repeats the names above its end.
#[test]
fn conflicts_are_refused_as_a_whole_where_their_list_had_no_end() {
    let inner = |value: &str| -> Value {
        (0..1000)
            .map(|number| (format!("k{number}"), json!(value)))
            .collect()
    };
    let long = "x".repeat(100_000);
    let spec = |value: &str| json!({"free": {&long: inner(value)}});
    let live = apply(&zero(), "a", &spec("1"), false).unwrap();
    let refused = apply(&live, "b", &spec("2"), false).unwrap_err();
    assert_eq!(refused, ApplyError::TooManyConflicts);
    let taken = apply(&live, "b", &spec("2"), true).unwrap();
    assert_eq!(taken["spec"]["free"][&long]["k7"], "2");
    assert!(apply(&live, "b", &spec("1"), false).is_ok());
}

#[test]
fn configurations_that_are_of_another_type_are_refused() {
    let told = |spec: Value| apply(&zero(), "a", &spec, false).unwrap_err().to_string();
    let begin = "failed to create typed patch object (/t; e.com/v1, Kind=Thing): ";
    for (spec, why) in [
        (json!({"x": 1}), ".spec.x: field not declared in schema"),
        (
            json!({"set": ["a", "a"]}),
            ".spec.set: duplicate entries for key [=\"a\"]",
        ),
    ] {
        assert_eq!(told(spec), format!("{begin}{why}"));
    }
}

#[test]
fn steps_are_read_as_they_are_written() {
    for key in [
        "f:a",
        "f:",
        "k:{\"name\":\"x\",\"port\":80}",
        "v:\"a\\u003cb\"",
        "v:1.5",
        "i:3",
    ] {
        let element = Element::parse(key).unwrap().unwrap();
        assert_eq!(element.to_key(), key);
    }
    assert_eq!(Element::parse("x:1"), Ok(None));
    for bad in ["", "f", "fa", "k:1", "v:{", "i:x"] {
        assert!(Element::parse(bad).is_err(), "{bad}");
    }
}

/// A list or map that an update empties is owned as a piece, and what is merged into it again leaves with
/// its owner: kube-apiserver, asked the same, answers the same.
#[test]
fn what_an_update_has_emptied_leaves_and_comes_back_by_applies_of_nothing() {
    let versions = versions();
    let live = apply(&zero(), "a", &json!({"words": {"a": "a"}}), false).unwrap();
    let mut updated = thing(&json!({"items": [], "words": {}}));
    updated["metadata"] = live["metadata"].clone();
    ownership(&versions).update(&live, &mut updated, "u");
    let first = apply(&updated, "b", &json!({}), false).unwrap();
    assert_eq!(first["spec"], json!({"items": [], "words": {}}));
    let second = apply(&first, "b", &json!({}), false).unwrap();
    assert_eq!(second.get("spec"), None);
    assert_eq!(owned(&second, "b"), json!({}));
    let third = apply(&second, "b", &json!({}), false).unwrap();
    assert_eq!(third["spec"], json!({}));
}

/// Without lists and maps that are empty.
fn filled(mut spec: Value) -> Value {
    fn is_empty(value: &Value) -> bool {
        match value {
            Value::Array(list) => list.is_empty(),
            Value::Object(map) => map.values().all(is_empty),
            _ => false,
        }
    }
    if let Some(fields) = spec.as_object_mut() {
        fields.retain(|_, value| !is_empty(value));
    }
    spec
}

fn sets() -> impl Strategy<Value = Set> {
    let step = prop_oneof![
        prop::sample::select(vec!["a", "b", "c<d"]).prop_map(Element::field),
        prop::sample::select(vec![json!("x"), json!(7), json!(true)])
            .prop_map(|v| Element::value(&v)),
        prop::sample::select(vec!["k:{\"n\":1}", "k:{\"n\":\"1\",\"m\":2}", "i:4"])
            .prop_map(|key| Element::parse(key).unwrap().unwrap()),
    ];
    let path = prop::collection::vec(step, 1..4);
    prop::collection::vec(path, 0..8).prop_map(|paths| {
        let mut set = Set::default();
        for path in paths {
            set.insert(path);
        }
        set
    })
}

fn specs() -> impl Strategy<Value = Value> {
    let word = || prop::sample::select(vec!["a", "b", "c"]);
    let words = move || prop::collection::btree_map(word(), word(), 0..3);
    let set = prop::collection::btree_set(word(), 0..3);
    let items = prop::collection::btree_map(word(), word(), 0..3).prop_map(|items| {
        let items = items
            .iter()
            .map(|(name, value)| json!({"name": name, "value": value}));
        items.collect::<Value>()
    });
    let field = prop_oneof![
        (0..3_i64).prop_map(|n| ("size", json!(n))),
        set.clone().prop_map(|s| ("set", json!(s))),
        set.prop_map(|s| ("plain", json!(s))),
        words().prop_map(|w| ("whole", json!(w))),
        words().prop_map(|w| ("words", json!(w))),
        words().prop_map(|w| ("free", json!({"deep": w}))),
        items.prop_map(|i| ("items", i)),
    ];
    prop::collection::vec(field, 0..5).prop_map(|fields| fields.into_iter().collect())
}

proptest! {
    #[test]
    fn sets_are_read_as_they_are_written(set in sets()) {
        prop_assert_eq!(Set::from_json(&set.to_json()), Ok(set));
    }

    #[test]
    fn sets_obey_the_laws_of_sets(a in sets(), b in sets(), c in sets()) {
        prop_assert_eq!(a.union(&b), b.union(&a));
        prop_assert_eq!(a.union(&b).union(&c), a.union(&b.union(&c)));
        prop_assert_eq!(a.intersection(&b), b.intersection(&a));
        prop_assert_eq!(a.difference(&b).union(&a.intersection(&b)), a.clone());
        prop_assert!(a.difference(&b).intersection(&b).is_empty());
        let mut whole = a.clone();
        whole.subtract_whole(&b);
        prop_assert!(whole.difference(&a.difference(&b)).is_empty());
        for path in a.union(&b).paths() {
            prop_assert!(a.has(&path) || b.has(&path));
        }
    }

    #[test]
    fn applying_the_same_twice_changes_nothing_where_nothing_was_emptied(
        first in specs(), by_update in specs().prop_map(filled), second in specs(),
    ) {
        let versions = versions();
        let live = apply(&zero(), "a", &first, false).unwrap();
        let mut updated = thing(&by_update);
        updated["metadata"] = live["metadata"].clone();
        ownership(&versions).update(&live, &mut updated, "u");
        let once = apply(&updated, "b", &second, true).unwrap();
        let twice = apply(&once, "b", &second, false).unwrap();
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn the_short_way_for_new_objects_finds_what_the_long_way_finds(
        spec in specs(), doubled in any::<bool>(), status in specs(),
    ) {
        let versions = versions();
        let mut object = thing(&spec);
        object["status"] = status;
        object["metadata"]["labels"] = json!({"a": "b"});
        object["metadata"]["finalizers"] = json!([]);
        if doubled && let Some(Value::Array(set)) = object["spec"].get_mut("set") {
            set.extend(set.clone());
        }
        let mut again = object.clone();
        ownership(&versions).update(&json!({}), &mut object, "a");
        // What has a kind is not nothing, and is compared.
        ownership(&versions).update(&json!({"kind": "Thing"}), &mut again, "a");
        prop_assert!(object["metadata"].get("managedFields").is_some());
        prop_assert_eq!(object, again);
    }

    #[test]
    fn entries_are_read_as_they_are_written_and_own_only_what_is_there(
        first in specs(), second in specs(),
    ) {
        let live = apply(&zero(), "a", &first, false).unwrap();
        let object = apply(&live, "b", &second, true).unwrap();
        let entries = object["metadata"].get("managedFields");
        let managed = Managed::decode(entries).unwrap();
        prop_assert_eq!(managed.encode(), entries.cloned());
        // Every manager that applied all of it finds it as it applied it.
        let again = apply(&object, "b", &second, false).unwrap();
        prop_assert_eq!(&again["spec"], &object["spec"]);
    }
}

#[test]
fn fuzz_entries() {
    let seeds = [
        r#"[{"manager":"a","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:a":{".":{},"k:{\"n\":1}":{}}}}]"#,
        r#"[{"operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"v:1":{},"i:0":{},"x:":{}},"time":"t"}]"#,
    ];
    let seeds = seeds.map(|seed| seed.as_bytes().to_vec()).to_vec();
    fuzz::run(&fuzz::mutated(seeds), |bytes| {
        if let Ok(entries) = serde_json::from_slice::<Value>(bytes)
            && let Ok(managed) = Managed::decode(Some(&entries))
        {
            let encoded = managed.encode();
            assert_eq!(Managed::decode(encoded.as_ref()).unwrap(), managed);
        }
    });
}
