//! What schemas do to objects: pruning, defaults, validation, list types, embedded resources.

use serde_json::{Value, json};

use super::super::step::{
    MERGE, PATCH, Script, Topic, definition, get, install, patch, post, script,
};

const BUOYS: &str = "/apis/$group/v1/namespaces/$ns/buoys";

pub(super) fn topic() -> Topic {
    Topic::new(
        "schemas",
        install(definition("buoys", "Buoy", json!({"spec": spec()}))),
    )
    .then(kept())
    .then(refused())
    .then(changed())
}

fn spec() -> Value {
    json!({
        "type": "object", "minProperties": 1,
        "properties": {
            "int": {"type": "integer", "minimum": 1, "exclusiveMinimum": true, "maximum": 100, "multipleOf": 2},
            "int32": {"type": "integer", "format": "int32"},
            "num": {"type": "number", "maximum": 10.5, "exclusiveMaximum": true},
            "text": {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^[a-zé]+$"},
            "one": {"type": "string", "enum": ["a", "b"], "default": "a"},
            "bool": {"type": "boolean"},
            "nullable": {"type": "string", "nullable": true},
            "nulldefault": {"type": "string", "nullable": true, "default": "d"},
            "solid": {"type": "string", "default": "d"},
            "list": {"type": "array", "minItems": 1, "maxItems": 3, "items": {"type": "string"}},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "port"], "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "port": {"type": "integer", "default": 80}, "v": {"type": "string"}}}},
            "words": {"type": "object", "maxProperties": 2, "additionalProperties": {"type": "string", "maxLength": 3}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"known": {"type": "object", "properties": {"a": {"type": "string"}}}}},
            "any": {"x-kubernetes-preserve-unknown-fields": true},
            "port": {"x-kubernetes-int-or-string": true},
            "embedded": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
            "embeddedshape": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}}}}},
            "nested": {"type": "object", "default": {}, "properties": {"deep": {"type": "object", "properties": {"x": {"type": "integer", "default": 1}}}, "y": {"type": "integer", "default": 2}}},
            "choice": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            "either": {"type": "integer", "anyOf": [{"minimum": 10}, {"maximum": 5}]},
            "every": {"type": "integer", "allOf": [{"minimum": 10}, {"maximum": 20}]},
            "never": {"type": "integer", "not": {"minimum": 10}},
            "time": {"type": "string", "format": "date-time"}, "date": {"type": "string", "format": "date"},
            "duration": {"type": "string", "format": "duration"}, "byte": {"type": "string", "format": "byte"},
            "uuid": {"type": "string", "format": "uuid"}, "uri": {"type": "string", "format": "uri"},
            "email": {"type": "string", "format": "email"}, "ipv4": {"type": "string", "format": "ipv4"},
            "ipv6": {"type": "string", "format": "ipv6"}, "cidr": {"type": "string", "format": "cidr"},
            "hostname": {"type": "string", "format": "hostname"}, "mac": {"type": "string", "format": "mac"},
        },
    })
}

#[expect(clippy::needless_pass_by_value, reason = "the script reads better so")]
fn buoy(name: &str, spec: Value) -> super::super::step::Ask {
    post(
        BUOYS,
        json!({"apiVersion": "$group/v1", "kind": "Buoy", "metadata": {"name": name}, "spec": spec}),
    )
}

fn kept() -> Script {
    let mut script = Script::default();
    for (number, spec) in [
        json!({"bool": true}),
        json!({"unknown": 1, "free": {"unknown": 1, "known": {"a": "b", "c": "d"}}, "any": [1, {"x": null}]}),
        json!({"nullable": null, "nulldefault": null, "solid": null, "one": null}),
        json!({"nested": null}),
        json!({"nested": {"deep": {}}}),
        json!({"nested": {"deep": null, "y": 5}}),
        json!({"map": [{"name": "a"}, {"name": "a", "port": 81}], "set": ["a", "b"]}),
        json!({"port": 5}),
        json!({"port": "http"}),
        json!({"embedded": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "labels": {"a": "b"}, "odd": 1}, "spec": {"x": 1}}}),
        json!({"embeddedshape": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "odd": 1}, "spec": {"a": "1", "x": 1}, "status": {}}}),
        json!({"num": 10, "int": 4.0, "int32": 2_147_483_647}),
        json!({"text": "éé"}),
        json!({"words": {"a": "b"}}),
        json!({"choice": {"a": "x"}, "either": 3, "every": 15, "never": 3}),
        json!({"time": "2020-01-01T00:00:00Z", "date": "2020-01-01", "duration": "1h", "byte": "aGk=", "uuid": "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee", "uri": "http://x/y", "email": "a@b.c", "ipv4": "1.2.3.4", "ipv6": "::1", "cidr": "10.0.0.0/8", "hostname": "a.b", "mac": "00:00:5e:00:53:01"}),
        json!({"any": 1.0, "free": {"f": 1.5, "big": 9_007_199_254_740_993_i64, "e": 1e3}}),
    ]
    .into_iter()
    .enumerate()
    {
        script.push(buoy(&format!("kept{number}"), spec));
    }
    script.push(get(&format!("{BUOYS}/kept2")));
    script
}

fn refused() -> Script {
    let mut script = Script::default();
    for spec in [
        json!({}),
        json!(null),
        json!([]),
        json!("text"),
        json!({"int": 1}),
        json!({"int": 101}),
        json!({"int": 3}),
        json!({"int": "4"}),
        json!({"int": 4.5}),
        json!({"int32": 2_147_483_648_i64}),
        json!({"num": 10.5}),
        json!({"num": true}),
        json!({"text": "a"}),
        json!({"text": "abcde"}),
        json!({"text": "AB"}),
        json!({"text": 5}),
        json!({"one": "c"}),
        json!({"bool": "true"}),
        json!({"list": []}),
        json!({"list": ["a", "b", "c", "d"]}),
        json!({"list": ["a", 1]}),
        json!({"list": ["a", null]}),
        json!({"list": {"a": 1}}),
        json!({"set": ["a", "a"]}),
        json!({"map": [{"name": "a"}, {"name": "a"}]}),
        json!({"map": [{"v": "a"}]}),
        json!({"map": ["a"]}),
        json!({"words": {"a": "1", "b": "2", "c": "3"}}),
        json!({"words": {"a": "long"}}),
        json!({"words": {"a": 5}}),
        json!({"port": true}),
        json!({"port": 1.5}),
        json!({"port": null}),
        json!({"embedded": {}}),
        json!({"embedded": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "Bad_", "labels": {"bad key!": "x"}}}}),
        json!({"embedded": {"apiVersion": "v1", "kind": "Pod", "metadata": "x"}}),
        json!({"embedded": {"apiVersion": 1, "kind": "Pod"}}),
        json!({"choice": {"a": "x", "b": "y"}}),
        json!({"choice": {}}),
        json!({"either": 7}),
        json!({"every": 25}),
        json!({"never": 15}),
        json!({"time": "yesterday"}),
        json!({"date": "2020-13-01"}),
        json!({"duration": "soon"}),
        json!({"byte": "%%%"}),
        json!({"uuid": "x"}),
        json!({"uri": "::"}),
        json!({"email": "x"}),
        json!({"ipv4": "1.2.3"}),
        json!({"ipv6": "1.2.3.4"}),
        json!({"cidr": "10.0.0.0"}),
        json!({"hostname": "-a-"}),
        json!({"mac": "x"}),
        json!({"int": 1, "text": "A", "bool": 5, "unknown": 1}),
    ] {
        let embedded = [json!("x"), json!(1)].iter().any(|bad| {
            spec.pointer("/embedded/metadata") == Some(bad)
                || spec.pointer("/embedded/apiVersion") == Some(bad)
        });
        let ask = buoy("refused", spec);
        script.push(if embedded {
            ask.tolerate("an embedded object with wrong types is invalid, not a bad request")
        } else {
            ask
        });
    }
    script
}

fn changed() -> Script {
    let one = format!("{BUOYS}/kept0");
    script![
        patch(&one, MERGE, json!({"spec": {"one": null, "int": 6}})),
        patch(&one, MERGE, json!({"spec": {"int": 7}})),
        patch(&one, MERGE, json!({"spec": {"unknown": 7}})),
        patch(
            &one,
            PATCH,
            json!([{"op": "remove", "path": "/spec/solid"}])
        ),
        patch(
            &one,
            PATCH,
            json!([{"op": "add", "path": "/spec/map", "value": [{"name": "x"}]}])
        ),
        patch(
            &one,
            PATCH,
            json!([{"op": "add", "path": "/spec/map/-", "value": {"name": "x", "port": 80}}])
        ),
        patch(&one, PATCH, json!([{"op": "remove", "path": "/spec"}])),
        patch(
            &one,
            PATCH,
            json!([{"op": "add", "path": "/more", "value": 1}])
        ),
        get(&one),
    ]
}
