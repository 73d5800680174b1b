//! Rules in schemas: which compile, what they say of objects, of changes, and of what is only kept.

use serde_json::{Map, Value, json};

use super::super::step::{
    JSON, MERGE, Script, Topic, ask, definition, get, install, patch, post, script,
};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?dryRun=All";
const VANES: &str = "/apis/$group/v1/namespaces/$ns/vanes";
const KEELS: &str = "/apis/$group/v1/namespaces/$ns/keels";
const GOOD: &str = include_str!("../../../data/rules_that_compile.txt");
const BAD: &str = include_str!("../../../data/rules_that_do_not_compile.txt");

pub(super) fn topic() -> Topic {
    let rules: Vec<&str> = GOOD.lines().filter(|line| !line.is_empty()).collect();
    Topic::new("rules", install(definition("vanes", "Vane", vane(&rules))))
        .then(said())
        .then(refused())
        .then(install(definition("keels", "Keel", keel())))
        .then(changes())
        .then(generated())
}

fn text() -> Value {
    json!({"type": "string", "maxLength": 40})
}

/// Every type that expressions know, with rules on the whole.
fn vane(rules: &[&str]) -> Value {
    let rules: Vec<Value> = rules.iter().map(|rule| json!({"rule": rule})).collect();
    let pair = json!({"type": "object", "required": ["k"], "properties": {
        "k": {"type": "string", "maxLength": 5}, "v": {"type": "integer"},
    }});
    json!({"spec": {"type": "object", "x-kubernetes-validations": rules, "properties": {
        "a": {"type": "integer"}, "b": {"type": "boolean"}, "f": {"type": "number"}, "s": text(),
        "l": {"type": "array", "maxItems": 5, "items": text()},
        "set": {"type": "array", "maxItems": 5, "x-kubernetes-list-type": "set", "items": text()},
        "m": {"type": "object", "maxProperties": 3, "additionalProperties": {"type": "integer"}},
        "ios": {"x-kubernetes-int-or-string": true},
        "o": {"type": "object", "properties": {
            "x": {"type": "integer"}, "y": {"type": "string", "maxLength": 9},
        }},
        "d": {"type": "string", "format": "date-time", "maxLength": 40},
        "day": {"type": "string", "format": "date", "maxLength": 20},
        "dur": {"type": "string", "format": "duration", "maxLength": 20},
        "by": {"type": "string", "format": "byte", "maxLength": 20},
        "lo": {
            "type": "array", "maxItems": 4, "items": pair,
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
        },
        "n": {"type": "string", "nullable": true, "maxLength": 5},
        "no": {"type": "object", "nullable": true, "properties": {"x": {"type": "integer"}}},
        "a-b.c": {"type": "integer"}, "namespace": {"type": "string", "maxLength": 9},
        "a__b": {"type": "integer"}, "in": {"type": "integer"}, "_x/y": {"type": "integer"},
    }}})
}

fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "$group/v1", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

fn said() -> Script {
    let full = json!({
        "a": 5, "b": true, "f": 1.5, "s": "héllo World", "l": ["b", "a", "c"], "set": ["x", "y"],
        "m": {"k1": 1, "k2": 2}, "ios": "str", "o": {"x": 1, "y": "why"},
        "d": "2024-02-29T12:30:45.5Z", "day": "2024-02-29", "dur": "1h30m", "by": "aGVsbG8=",
        "lo": [{"k": "a", "v": 1}, {"k": "b", "v": 2}], "a-b.c": 1, "namespace": "ns", "a__b": 2,
        "in": 3, "_x/y": 4,
    });
    let mut other = full.clone();
    other["a"] = json!(-3);
    other["ios"] = json!(7);
    other["l"] = json!([]);
    other["m"] = json!({});
    other["lo"] = json!([]);
    script![
        post(VANES, object("Vane", "full", &full)),
        post(VANES, object("Vane", "other", &other)),
        post(VANES, object("Vane", "empty", &json!({}))),
    ]
}

/// The name that the server makes up for the type of `self` has a number in it.
fn unnumbered(body: &mut Value) {
    match body {
        Value::String(text) => {
            let mut parts = text.split("selfType");
            let mut out = parts.next().unwrap_or_default().to_owned();
            for part in parts {
                out.push_str("selfType");
                out.push_str(part.trim_start_matches(|c: char| c.is_ascii_digit()));
            }
            *text = out;
        }
        Value::Array(list) => list.iter_mut().for_each(unnumbered),
        Value::Object(map) => map.values_mut().for_each(unnumbered),
        _ => {}
    }
}

fn refused() -> Script {
    let mut script = Script::default();
    for rule in BAD.lines().filter(|line| !line.is_empty()) {
        let document = definition("luffs", "Luff", vane(&[rule]));
        script.push(post(DEFINITIONS, document).settle(unnumbered));
    }
    let forms = [
        json!({"rule": "  "}),
        json!({"rule": "true", "message": " "}),
        json!({"rule": "true", "message": "a\nb"}),
        json!({"rule": "true ||\n true"}),
        json!({"rule": "true", "messageExpression": " "}),
        json!({"rule": "true", "messageExpression": "1"}),
        json!({"rule": "true", "messageExpression": "self.nope"}),
        json!({"rule": "true", "fieldPath": " "}),
        json!({"rule": "true", "fieldPath": ".nope"}),
        json!({"rule": "true", "fieldPath": ".l[0]"}),
        json!({"rule": "true", "reason": "Nope"}),
        json!({"rule": "self.a == 1", "optionalOldSelf": true}),
        json!({"rule": "self.a == oldSelf.a", "optionalOldSelf": true}),
    ];
    for form in forms {
        let mut properties = vane(&[]);
        properties["spec"]["x-kubernetes-validations"] = json!([form]);
        let document = definition("luffs", "Luff", properties);
        script.push(post(DEFINITIONS, document).settle(unnumbered));
    }
    script
}

/// Rules on all levels, with reasons, paths and transitions.
fn keel() -> Value {
    let bounded = json!([
        {"rule": "self >= oldSelf", "message": "shrank"},
        {"rule": "self < 100", "message": "is too big"},
    ]);
    let number = json!({"type": "integer", "x-kubernetes-validations": bounded});
    json!({
        "spec": {
            "type": "object", "required": ["a", "imm"],
            "x-kubernetes-validations": [
                {"rule": "self.a < 10", "message": "a is too big"},
                {"rule": "self.imm == oldSelf.imm", "message": "imm is immutable", "reason": "FieldValueForbidden", "fieldPath": ".imm"},
                {"rule": "!oldSelf.hasValue() || self.a >= oldSelf.value().a", "optionalOldSelf": true},
                {"rule": "!has(self.s) || self.s != 'dup'", "reason": "FieldValueDuplicate", "fieldPath": ".s", "message": "again"},
                {"rule": "!has(self.s) || self.s != 'req'", "reason": "FieldValueRequired", "message": "wanted"},
                {"rule": "!has(self.s) || self.s != 'expr'", "messageExpression": "self.imm + ' told'", "message": "untold"},
            ],
            "properties": {
                "a": {"type": "integer", "maximum": 20}, "imm": text(),
                "s": {"type": "string", "maxLength": 20, "pattern": "^[a-z]*$"},
                "e": {"type": "string", "enum": ["x", "y"]},
                "lm": {
                    "type": "array", "maxItems": 4,
                    "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                    "items": {"type": "object", "required": ["k"], "properties": {"k": text(), "v": number}},
                },
                "la": {"type": "array", "maxItems": 4, "items": {"type": "object", "properties": {
                    "v": {"type": "integer", "x-kubernetes-validations": [{"rule": "self < 100", "message": "is too big"}]},
                }}},
                "m": {"type": "object", "maxProperties": 3, "additionalProperties": number},
                "am": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"v": number}},
                "n": {"type": "string", "nullable": true, "maxLength": 5, "x-kubernetes-validations": [{"rule": "self == 'n'", "message": "must be n"}]},
            },
        },
        "status": {"type": "object", "properties": {"p": number}},
    })
}

fn changes() -> Script {
    let keel = |change: Value| patch(&format!("{KEELS}/a"), MERGE, change);
    let status = |change: Value| patch(&format!("{KEELS}/a/status"), MERGE, change);
    let first = json!({
        "a": 1, "imm": "i", "lm": [{"k": "a", "v": 5}], "m": {"x": 5}, "am": {"v": 5}, "la": [{"v": 5}],
    });
    script![
        post(KEELS, object("Keel", "a", &first)),
        keel(json!({"spec": {"imm": "j"}})),
        keel(json!({"spec": {"a": 0}})),
        keel(json!({"spec": {"a": 10}})),
        keel(json!({"spec": {"s": "dup"}})),
        keel(json!({"spec": {"s": "req"}})),
        keel(json!({"spec": {"s": "expr"}})),
        keel(json!({"spec": {"lm": [{"k": "a", "v": 4}]}})),
        keel(json!({"spec": {"lm": [{"k": "b", "v": 4}]}})),
        keel(json!({"spec": {"m": {"x": 4}}})),
        keel(json!({"spec": {"m": {"z": 4}}})),
        keel(json!({"spec": {"am": {"v": 4}}})),
        keel(json!({"spec": {"la": [{"v": 100}]}})),
        keel(json!({"metadata": {"labels": {"a": "b"}}})),
        status(json!({"status": {"p": 5}})),
        status(json!({"status": {"p": 4}})),
        status(json!({"status": {"p": 100}})),
        get(&format!("{KEELS}/a")),
    ]
}

/// Small objects by chance, the same ones each time.
fn generated() -> Script {
    let mut seed = 20_261_121_u64;
    let mut next = move |below: u64| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    let mut script = Script::default();
    for nth in 0..150 {
        let mut spec = Map::new();
        let mut may = |spec: &mut Map<String, Value>, name: &str, values: &[Value]| {
            if next(3) > 0
                && let Some(value) = usize::try_from(next(values.len() as u64))
                    .ok()
                    .and_then(|nth| values.get(nth))
            {
                spec.insert(name.to_owned(), value.clone());
            }
        };
        may(
            &mut spec,
            "a",
            &[
                json!(1),
                json!(9),
                json!(10),
                json!(30),
                json!("x"),
                json!(null),
            ],
        );
        may(
            &mut spec,
            "imm",
            &[json!("i"), json!("j"), json!(""), json!(7)],
        );
        may(
            &mut spec,
            "s",
            &[
                json!("dup"),
                json!("req"),
                json!("UP"),
                json!("expr"),
                json!("ok"),
            ],
        );
        may(&mut spec, "e", &[json!("x"), json!("z")]);
        may(
            &mut spec,
            "lm",
            &[
                json!([{"k": "a", "v": 100}]),
                json!([{"k": "a"}, {"k": "a"}]),
                json!([{"v": 1}]),
                json!([{"k": "a", "v": 1}, {"k": "b", "v": 200}]),
            ],
        );
        may(
            &mut spec,
            "la",
            &[
                json!([{"v": 100}, {"v": 1}, {"v": 101}]),
                json!([{}]),
                json!([]),
            ],
        );
        may(
            &mut spec,
            "m",
            &[
                json!({"x": 100}),
                json!({"x": 1}),
                json!({"x": 300, "y": 1}),
            ],
        );
        may(&mut spec, "n", &[json!("n"), json!("x"), json!(null)]);
        let body = object("Keel", &format!("g{nth}"), &Value::Object(spec));
        let path = format!("{KEELS}?dryRun=All");
        script.push(ask(http::Method::POST, &path, JSON, body.to_string()));
    }
    script
}
