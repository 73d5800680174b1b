//! Histories that nobody thought of: a few managers write to a few objects by all means that there are.
//! They are made by chance that is the same each time.

use serde_json::{Map, Value, json};

use super::super::step::{Ask, MERGE, PATCH, STRATEGIC, Script, Topic, get, install, patch, put};
use super::apply::{apply, body, thing};

const HISTORIES: u64 = 12;
const WRITES: usize = 24;

pub(super) fn topic() -> Topic {
    let mut script = Script::default();
    script.push(install(thing()));
    for seed in 0..HISTORIES {
        let mut chance = Chance(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) + 1);
        match seed % 3 {
            0 | 1 => things(&mut chance, &format!("h{seed}"), &mut script),
            _ => accounts(&mut chance, &format!("h{seed}"), &mut script),
        }
    }
    Topic::new("histories", script)
}

/// Numbers that look like chance.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap_or_default() % end
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }

    /// Some of these, in any order.
    fn some(&mut self, of: &[&str]) -> Vec<Value> {
        let mut all: Vec<&str> = of.to_vec();
        let mut found = Vec::new();
        for _ in 0..self.below(of.len() + 1) {
            let at = self.below(all.len());
            found.push(Value::from(all.remove(at)));
        }
        found
    }

    fn words(&mut self) -> Value {
        let mut words = Map::new();
        for key in self.some(&["k", "l", "m"]) {
            let value = self.one(&["1", "2"]);
            words.insert(key.as_str().unwrap_or_default().to_owned(), value.into());
        }
        words.into()
    }

    fn items(&mut self) -> Value {
        let mut items = Vec::new();
        for name in self.some(&["x", "y", "z"]) {
            let mut item = json!({"name": name});
            match self.below(4) {
                0 => item["port"] = 81.into(),
                1 => item["value"] = self.one(&["v", "w"]).into(),
                2 => item["tags"] = self.some(&["s", "t", "u"]).into(),
                _ => {}
            }
            items.push(item);
        }
        items.into()
    }

    fn spec(&mut self) -> Value {
        let mut spec = json!({});
        for _ in 0..self.below(5) {
            let (field, value) = match self.below(11) {
                0 => ("size", self.below(3).into()),
                1 => ("color", self.one(&["red", "blue"]).into()),
                2 => ("set", self.some(&["a", "b", "c", "d"]).into()),
                3 => ("plain", self.some(&["a", "b"]).into()),
                4 => ("items", self.items()),
                5 => ("atoms", json!([{"name": self.one(&["x", "y"])}])),
                6 => (
                    "pieces",
                    json!({self.one(&["a", "b"]): self.one(&["1", "2"])}),
                ),
                7 => (
                    "whole",
                    json!({self.one(&["a", "b"]): self.one(&["1", "2"])}),
                ),
                8 => ("words", self.words()),
                9 => (
                    "nested",
                    json!({self.one(&["n", "m"]): {"x": self.one(&["1", "2"])}}),
                ),
                _ => ("free", json!({"d": {self.one(&["e", "f"]): self.words()}})),
            };
            spec[field] = value;
        }
        spec
    }

    fn status(&mut self) -> Value {
        let kind = self.one(&["A", "B"]);
        json!({"ready": self.below(2) == 0, "conditions": [{"type": kind, "status": self.one(&["True", "False"])}]})
    }

    fn force(&mut self) -> &'static str {
        if self.below(3) == 0 {
            "&force=true"
        } else {
            ""
        }
    }
}

fn things(chance: &mut Chance, name: &str, script: &mut Script) {
    let path = format!("/apis/$group/v1/namespaces/$ns/things/{name}");
    let status = format!("{path}/status");
    let first = body(name, &json!({"spec": chance.spec()}));
    script.push(apply(&path, "a", "", first));
    for _ in 0..WRITES {
        let manager = chance.one(&["a", "b", "c"]);
        let other = |path: &str, media_type: &str, body: Value| {
            patch(&format!("{path}?fieldManager={manager}"), media_type, body).owned()
        };
        let write: Ask = match chance.below(12) {
            0..=5 => {
                let mut config = body(name, &json!({"spec": chance.spec()}));
                if chance.below(4) == 0 {
                    config["metadata"]["labels"] = chance.words();
                }
                apply(&path, manager, chance.force(), config)
            }
            6 => {
                let config = body(name, &json!({"status": chance.status()}));
                apply(&status, manager, chance.force(), config)
            }
            7 => other(&status, MERGE, json!({"status": chance.status()})),
            8 | 9 => other(&path, MERGE, json!({"spec": chance.spec()})),
            10 => {
                script.push(get(&path).owned().keep("now"));
                let mut whole = body(name, &json!({"spec": chance.spec()}));
                whole["metadata"]["resourceVersion"] = "$rv(now)".into();
                put(&format!("{path}?fieldManager={manager}"), whole).owned()
            }
            _ => {
                let value = chance.spec();
                other(
                    &path,
                    PATCH,
                    json!([{"op": "add", "path": "/spec", "value": value}]),
                )
            }
        };
        script.push(write);
    }
}

fn accounts(chance: &mut Chance, name: &str, script: &mut Script) {
    let path = format!("/api/v1/namespaces/$ns/serviceaccounts/{name}");
    let secrets = |chance: &mut Chance| -> Value {
        let names = chance.some(&["x", "y", "z"]);
        names.iter().map(|name| json!({"name": name})).collect()
    };
    let config = |chance: &mut Chance| {
        let mut config =
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}});
        if chance.below(2) == 0 {
            config["secrets"] = secrets(chance);
        }
        if chance.below(3) == 0 {
            config["imagePullSecrets"] = secrets(chance);
        }
        if chance.below(3) == 0 {
            config["metadata"]["labels"] = chance.words();
        }
        if chance.below(4) == 0 {
            config["automountServiceAccountToken"] = (chance.below(2) == 0).into();
        }
        config
    };
    let first = config(chance);
    script.push(apply(&path, "a", "", first));
    for _ in 0..WRITES {
        let manager = chance.one(&["a", "b", "c"]);
        let other = |media_type: &str, body: Value| {
            patch(&format!("{path}?fieldManager={manager}"), media_type, body).owned()
        };
        let write: Ask = match chance.below(8) {
            0..=3 => {
                let config = config(chance);
                apply(&path, manager, chance.force(), config)
            }
            4 => {
                let config = config(chance);
                put(&format!("{path}?fieldManager={manager}"), config).owned()
            }
            5 => other(MERGE, json!({"secrets": secrets(chance)})),
            6 => other(
                STRATEGIC,
                json!({"secrets": secrets(chance), "metadata": {"labels": chance.words()}}),
            ),
            _ => {
                let gone = chance.one(&["x", "y", "z"]);
                other(
                    STRATEGIC,
                    json!({"secrets": [{"name": gone, "$patch": "delete"}]}),
                )
            }
        };
        script.push(write);
    }
}
