//! Corners of custom resources: names that expressions have to escape, orders that mean nothing, numbers
//! written in several ways, and what is said of a status that is wrong.

use http::Method;
use serde_json::{Value, json};

use super::super::step::{
    APPLY, Ask, JSON, MERGE, PATCH, Script, Topic, Until, YAML, ask, definition, events, get,
    install, patch, post, put, script, watch,
};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?dryRun=All";
const CORKS: &str = "/apis/$group/v1/namespaces/$ns/corks";
const OARS: &str = "/apis/$group/v1/namespaces/$ns/oars";
const GAUGES: &str = "/apis/$group/v1/namespaces/$ns/gauges";

/// Words that the language keeps for itself, and names with what no identifier has.
const NAMES: [&str; 35] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
    "int",
    "self",
    "size",
    "__in__",
    "__",
    "___",
    "____",
    "a__b__c",
    "a.b",
    "a-b",
    "a/b",
    "_a",
    "a_",
    "__dot__",
];

pub(super) fn topic() -> Topic {
    Topic::new(
        "corners",
        install(definition("corks", "Cork", json!({"spec": cork(&good())}))),
    )
    .then(escaped())
    .then(install(definition("oars", "Oar", oar())))
    .then(ordered())
    .then(install(definition("gauges", "Gauge", gauge())))
    .then(numbers())
    .then(statuses())
}

fn good() -> Vec<String> {
    let escaped = |name: &&str| {
        let plain = !RESERVED.contains(name);
        let mut out = String::new();
        let mut rest = *name;
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix("__") {
                out.push_str("__underscores__");
                rest = after;
                continue;
            }
            let mut letters = rest.chars();
            match letters.next() {
                Some('.') => out.push_str("__dot__"),
                Some('-') => out.push_str("__dash__"),
                Some('/') => out.push_str("__slash__"),
                Some(other) => out.push(other),
                None => {}
            }
            rest = letters.as_str();
        }
        if plain { out } else { format!("__{out}__") }
    };
    let names = NAMES.iter().map(escaped);
    names
        .map(|name| format!("!has(self.{name}) || self.{name} < 10"))
        .collect()
}

/// As the documentation of Kubernetes lists them.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

fn cork(rules: &[String]) -> Value {
    let rules: Vec<Value> = rules.iter().map(|rule| json!({"rule": rule})).collect();
    let properties: Value = NAMES
        .iter()
        .map(|name| ((*name).to_owned(), json!({"type": "integer"})))
        .collect::<serde_json::Map<_, _>>()
        .into();
    json!({"type": "object", "x-kubernetes-validations": rules, "properties": properties})
}

fn object(kind: &str, name: &str, rest: Value) -> Value {
    let mut object = json!({"apiVersion": "$group/v1", "kind": kind, "metadata": {"name": name}});
    for (key, value) in rest.as_object().into_iter().flatten() {
        object[key] = value.clone();
    }
    object
}

/// A double of more than 64 bits is written with an exponent or without, and is the same number.
fn as_double(body: &mut Value) {
    for value in body["spec"]
        .as_object_mut()
        .into_iter()
        .flatten()
        .map(|(_, value)| value)
    {
        if let (None, Some(float)) = (value.as_i64(), value.as_f64()) {
            *value = float.into();
        }
    }
}

/// What is stored of a definition is compared elsewhere.
fn compiled(body: &mut Value) {
    if body["kind"] == "CustomResourceDefinition" {
        *body = json!("compiles");
    }
    unnumbered(body);
}

/// The type of `self` has a number in its name.
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

fn escaped() -> Script {
    let all = |value: u64| {
        let members = NAMES.iter().map(|name| ((*name).to_owned(), value.into()));
        json!({"spec": Value::Object(members.collect())})
    };
    let mut script = script![
        post(CORKS, object("Cork", "few", all(1))),
        post(CORKS, object("Cork", "many", all(11))),
    ];
    for name in NAMES {
        for rule in [
            format!("self.{name} == 1"),
            format!("has(self.{name})"),
            format!("self['{name}'] == 1"),
        ] {
            let document = definition("luffs", "Luff", json!({"spec": cork(&[rule])}));
            let asked = post(DEFINITIONS, document).settle(compiled);
            // What no parser can read is told in each parser's words.
            let unread = matches!(name, "true" | "false" | "null" | "in");
            script.push(if unread { asked.free_text() } else { asked });
        }
    }
    for rule in [
        "self.__in",
        "self.in__",
        "self.__namespace__ == 1",
        "self.__int__ == 1",
        "self.__self__ == 1",
        "self.__underscores__in__underscores__ == 1",
        "self.__dot == 1",
        "in == 1",
        "self == self.__in__",
        "namespace == 1",
    ] {
        let document = definition("luffs", "Luff", json!({"spec": cork(&[rule.to_owned()])}));
        script.push(post(DEFINITIONS, document).settle(compiled));
    }
    script
}

fn oar() -> Value {
    let pair = json!({"type": "object", "required": ["k"], "properties": {
        "k": {"type": "string"}, "v": {"type": "integer"}, "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
    }});
    json!({
        "spec": {"type": "object", "properties": {
            "keyed": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": pair},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "plain": {"type": "array", "items": {"type": "string"}},
            "atomic": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}},
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
        }},
        "status": {"type": "object", "properties": {
            "conditions": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": pair},
        }},
    })
}

/// The same in another order: what counts as a change, and to whom it belongs.
fn ordered() -> Script {
    let one = format!("{OARS}/o");
    let body = |spec: Value| object("Oar", "o", json!({"spec": spec}));
    let as_is = json!({
        "keyed": [{"k": "a", "v": 1, "set": ["x", "y"]}, {"k": "b", "v": 2}, {"k": "c"}],
        "set": ["x", "y", "z"], "plain": ["a", "b"], "atomic": {"a": "1", "b": "2"}, "map": {"a": "1", "b": "2"},
    });
    let with = |field: &str, value: Value| {
        let mut spec = as_is.clone();
        spec[field] = value;
        spec
    };
    let whole = |manager: &str, spec: Value| {
        let mut object = body(spec);
        object["metadata"]["resourceVersion"] = json!("$rv(o)");
        put(&format!("{one}?fieldManager={manager}"), object)
            .keep("o")
            .owned()
    };
    let applied = |manager: &str, spec: Value| {
        patch(
            &format!("{one}?fieldManager={manager}&force=true"),
            APPLY,
            body(spec),
        )
        .keep("o")
        .owned()
    };
    let reordered = [
        (
            "keyed",
            json!([{"k": "c"}, {"k": "b", "v": 2}, {"k": "a", "v": 1, "set": ["x", "y"]}]),
        ),
        (
            "keyed",
            json!([{"v": 1, "set": ["y", "x"], "k": "a"}, {"v": 2, "k": "b"}, {"k": "c"}]),
        ),
        ("set", json!(["z", "y", "x"])),
        ("plain", json!(["b", "a"])),
        ("atomic", json!({"b": "2", "a": "1"})),
        ("map", json!({"b": "2", "a": "1"})),
    ];
    let mut script = script![
        post(&format!("{OARS}?fieldManager=first"), body(as_is.clone()))
            .keep("o")
            .owned(),
        watch("oars", &format!("{OARS}?watch=true&resourceVersion=$rv(o)")),
    ];
    for (number, (field, value)) in reordered.iter().enumerate() {
        let managers = ["p0", "p1", "p2", "p3", "p4", "p5"];
        script.push(whole(managers[number], with(field, value.clone())));
        script.push(
            patch(
                &format!("{one}?fieldManager=m"),
                MERGE,
                json!({"spec": {*field: as_is[*field].clone()}}),
            )
            .keep("o")
            .owned(),
        );
        script.push(applied("ann", with(field, value.clone())));
        script.push(applied("bob", json!({*field: as_is[*field].clone()})));
        script.push(applied("bob", json!({*field: value.clone()})));
    }
    script.push(script![
        patch(
            &format!("{one}/status"),
            MERGE,
            json!({"status": {"conditions": [{"k": "a"}, {"k": "b"}]}})
        )
        .owned(),
        patch(
            &format!("{one}/status"),
            MERGE,
            json!({"status": {"conditions": [{"k": "b"}, {"k": "a"}]}})
        )
        .owned(),
        patch(
            &one,
            PATCH,
            json!([{"op": "test", "path": "/spec/set", "value": ["x", "y", "z"]}])
        ),
        patch(
            &one,
            PATCH,
            json!([{"op": "test", "path": "/spec/map", "value": {"b": "2", "a": "1"}}])
        ),
        patch(
            &one,
            MERGE,
            json!({"metadata": {"labels": {"last": "one"}}})
        ),
        events("oars", Until::Count(8)),
        // What is empty has owners, too.
        patch(
            &format!("{OARS}/e?fieldManager=bob"),
            APPLY,
            object("Oar", "e", json!({"spec": {"map": {"a": "a"}}}))
        )
        .owned(),
        patch(
            &format!("{OARS}/e?fieldManager=upd"),
            MERGE,
            json!({"spec": {"plain": [], "map": null}})
        )
        .owned(),
        patch(
            &format!("{OARS}/e?fieldManager=upd"),
            MERGE,
            json!({"spec": {"map": {}}})
        )
        .owned(),
        patch(
            &format!("{OARS}/e?fieldManager=cat&force=true"),
            APPLY,
            object("Oar", "e", json!({"spec": {}}))
        )
        .owned(),
        patch(
            &format!("{OARS}/e?fieldManager=cat"),
            APPLY,
            object("Oar", "e", json!({"spec": {}}))
        )
        .owned(),
        patch(
            &format!("{OARS}/e?fieldManager=bob"),
            APPLY,
            object("Oar", "e", json!({}))
        )
        .owned(),
        patch(
            &format!("{OARS}/e?fieldManager=bob"),
            APPLY,
            object("Oar", "e", json!({}))
        )
        .owned(),
    ]);
    script
}

fn gauge() -> Value {
    let wrong = json!({
        "i": {"type": "integer"}, "i32": {"type": "integer", "format": "int32"}, "i64": {"type": "integer", "format": "int64"},
        "n": {"type": "number"}, "f": {"type": "number", "format": "float"}, "d": {"type": "number", "format": "double"},
        "ie": {"type": "integer", "enum": [1, 2]}, "ne": {"type": "number", "enum": [1.5, 2]},
        "min": {"type": "integer", "minimum": 1, "maximum": 3}, "nmin": {"type": "number", "minimum": 1, "exclusiveMinimum": true, "maximum": 3},
        "mul": {"type": "integer", "multipleOf": 2}, "nmul": {"type": "number", "multipleOf": 0.5},
        "ios": {"x-kubernetes-int-or-string": true}, "s": {"type": "string"}, "b": {"type": "boolean"},
        "short": {"type": "string", "maxLength": 2, "minLength": 1}, "pat": {"type": "string", "pattern": "^a+$"},
        "se": {"type": "string", "enum": ["a", "b"]}, "date": {"type": "string", "format": "date-time"},
        "list": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "integer"}},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}},
        "keyed": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "integer"}}}},
        "req": {"type": "object", "required": ["a", "b"], "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}},
        "size": {"type": "object", "minProperties": 1, "maxProperties": 2, "additionalProperties": {"type": "integer"}},
        "free": {"x-kubernetes-preserve-unknown-fields": true},
        "any": {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}}, "anyOf": [{"required": ["x"]}, {"required": ["y"]}]},
        "one": {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}}, "oneOf": [{"required": ["x"]}, {"required": ["y"]}]},
        "not": {"type": "integer", "not": {"enum": [1]}},
        "rule": {"type": "integer", "x-kubernetes-validations": [{"rule": "self % 2 == 0"}]},
        "told": {"type": "integer", "x-kubernetes-validations": [{"rule": "self % 2 == 0", "message": "odd", "reason": "FieldValueForbidden"}]},
    });
    json!({
        "spec": {"type": "object", "properties": wrong.clone()},
        "status": {"type": "object", "required": ["p"], "properties": {
            "p": {"type": "integer"}, "in": {"type": "object", "properties": wrong},
        }},
    })
}

fn sent(path: &str, spec: &str) -> Ask {
    let body = format!(
        r#"{{"apiVersion":"$group/v1","kind":"Gauge","metadata":{{"name":"n"}},"spec":{spec}}}"#
    );
    ask(Method::POST, path, JSON, body)
}

const WRITTEN: [&str; 21] = [
    "1",
    "1.0",
    "1e0",
    "10e-1",
    "1.5",
    "2.0",
    "-0",
    "0.0",
    "3",
    "4",
    "1.0000000000000000001",
    "2147483647",
    "2147483648",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775809",
    "1e18",
    "1e19",
    "1e300",
    "\"1\"",
    "null",
];

fn numbers() -> Script {
    let dry = format!("{GAUGES}?dryRun=All");
    let mut script = Script::default();
    for field in [
        "i", "i32", "i64", "n", "f", "d", "ie", "ne", "min", "nmin", "mul", "nmul", "ios", "free",
        "not", "rule", "told",
    ] {
        for number in WRITTEN {
            script.push(sent(&dry, &format!(r#"{{"{field}":{number}}}"#)).settle(as_double));
        }
    }
    for list in ["[1,1.0]", "[1.0,2]", "[1,2.5]", "[1e0]"] {
        for field in ["list", "set", "free"] {
            script.push(sent(&dry, &format!(r#"{{"{field}":{list}}}"#)));
        }
    }
    script.push(sent(&dry, r#"{"keyed":[{"k":1},{"k":1.0}]}"#));
    let yaml = |spec: &str| {
        ask(
            Method::POST,
            &dry,
            YAML,
            format!(
                "apiVersion: $group/v1\nkind: Gauge\nmetadata: {{name: number}}\nspec: {spec}\n"
            ),
        )
    };
    for number in [
        "1.0", "1e0", "0x10", "1_000", "1.5", "-0.0", "0.1", "1e300", "+1",
    ] {
        for field in ["i", "d", "free"] {
            script.push(yaml(&format!("{{{field}: {number}}}")));
        }
    }
    let one = format!("{GAUGES}/n");
    script.push(script![
        sent(GAUGES, r#"{"i":1,"n":1.0,"free":{"a":1.0,"b":1.5},"list":[1.0]}"#).keep("n").owned(),
        patch(&one, MERGE, r#"{"spec":{"i":1.0}}"#.into()).owned(),
        patch(&one, MERGE, r#"{"spec":{"n":1,"free":{"a":1}}}"#.into()).owned(),
        patch(&one, MERGE, r#"{"spec":{"i":2.0}}"#.into()).owned(),
        patch(&one, MERGE, r#"{"spec":{"i":2.5}}"#.into()),
        patch(&one, PATCH, r#"[{"op":"test","path":"/spec/i","value":2.0}]"#.into()),
        patch(&one, PATCH, r#"[{"op":"test","path":"/spec/n","value":1.0}]"#.into()),
        patch(&one, PATCH, r#"[{"op":"replace","path":"/spec/i","value":3.0}]"#.into()).owned(),
        patch(&format!("{one}?fieldManager=ann"), APPLY, Value::String("{\"apiVersion\":\"$group/v1\",\"kind\":\"Gauge\",\"metadata\":{\"name\":\"n\"},\"spec\":{\"i\":3.0,\"free\":{\"b\":1.5}}}".into())).owned(),
        patch(&format!("{one}?fieldManager=bob"), APPLY, Value::String("{\"apiVersion\":\"$group/v1\",\"kind\":\"Gauge\",\"metadata\":{\"name\":\"n\"},\"spec\":{\"i\":3,\"n\":1.0}}".into())).owned(),
        patch(&format!("{one}?fieldManager=bob"), APPLY, Value::String("{\"apiVersion\":\"$group/v1\",\"kind\":\"Gauge\",\"metadata\":{\"name\":\"n\"},\"spec\":{\"i\":4.0,\"n\":1.0}}".into())),
        get(&one).keep("n"),
    ]);
    script
}

/// What is wrong with a status, field by field and together.
fn statuses() -> Script {
    let own = format!("{GAUGES}/n/status");
    let dry = format!("{own}?dryRun=All");
    let mut script = Script::default();
    let wrong = |field: &str, value: &str| format!(r#"{{"p":1,"in":{{"{field}":{value}}}}}"#);
    for (field, values) in [
        ("i", vec!["\"x\"", "1.5", "true", "{}", "[]", "null"]),
        ("i32", vec!["2147483648", "\"x\"", "1.5"]),
        ("i64", vec!["9223372036854775808", "\"x\""]),
        ("n", vec!["\"x\"", "true"]),
        ("ie", vec!["3", "\"1\""]),
        ("ne", vec!["3", "1.25"]),
        ("min", vec!["0", "4", "0.5"]),
        ("nmin", vec!["1", "1.0", "3.5"]),
        ("mul", vec!["3"]),
        ("nmul", vec!["0.75"]),
        ("ios", vec!["1.5", "true", "{}"]),
        ("s", vec!["1", "true", "{}", "[]", "null"]),
        ("b", vec!["1", "\"true\""]),
        ("short", vec!["\"\"", "\"abc\"", "1"]),
        ("pat", vec!["\"b\"", "\"\""]),
        ("se", vec!["\"c\"", "1"]),
        ("date", vec!["\"x\"", "\"2026-01-01\"", "5"]),
        ("list", vec!["[]", "[1,2,3]", "[\"x\"]", "{}", "[1,null]"]),
        ("set", vec!["[1,1]", "[\"x\"]"]),
        ("keyed", vec!["[{}]", "[{\"k\":1},{\"k\":1}]", "[1]", "{}"]),
        ("req", vec!["{}", "{\"a\":1}", "[]"]),
        (
            "size",
            vec!["{}", "{\"a\":1,\"b\":2,\"c\":3}", "{\"a\":\"x\"}"],
        ),
        ("any", vec!["{}", "{\"x\":\"1\"}"]),
        ("one", vec!["{}", "{\"x\":1,\"y\":1}"]),
        ("not", vec!["1"]),
        ("rule", vec!["1", "\"x\""]),
        ("told", vec!["1"]),
        ("unknown", vec!["1"]),
    ] {
        for value in values {
            let body = format!(r#"{{"status":{}}}"#, wrong(field, value));
            script.push(patch(&dry, MERGE, body.clone().into()));
            let whole = format!(
                r#"{{"apiVersion":"$group/v1","kind":"Gauge","metadata":{{"name":"n","resourceVersion":"$rv(n)"}},"status":{}}}"#,
                wrong(field, value)
            );
            script.push(put(&dry, whole.into()));
            script.push(sent(
                &format!("{GAUGES}?dryRun=All"),
                &format!(r#"{{"{field}":{value}}}"#),
            ));
        }
    }
    // Of several complaints the order is chance.
    let in_order: fn(&mut Value) = |body| {
        if let Some(text) = body["message"].as_str() {
            let mut lines: Vec<&str> = text.lines().collect();
            lines.sort_unstable();
            body["message"] = lines.join("\n").into();
        }
    };
    for status in [
        "{}",
        "null",
        "[]",
        "5",
        "\"x\"",
        r#"{"p":"x"}"#,
        r#"{"p":null}"#,
        r#"{"in":{"i":"x"}}"#,
        r#"{"p":"x","in":{"s":1,"b":2,"req":{}}}"#,
    ] {
        script.push(patch(
            &dry,
            MERGE,
            format!(r#"{{"status":{status}}}"#).into(),
        ));
        script.push(patch(
            &dry,
            PATCH,
            format!(r#"[{{"op":"add","path":"/status","value":{status}}}]"#).into(),
        ));
        script.push(patch(&format!("{own}?dryRun=All&fieldManager=ann"), APPLY, Value::String(format!(r#"{{"apiVersion":"$group/v1","kind":"Gauge","metadata":{{"name":"n"}},"status":{status}}}"#))).settle(in_order));
    }
    script
}
