//! Lists in pages, at revisions, and what may be asked of them.

use serde_json::json;

use super::super::step::{Script, Topic, definition, delete, done, get, install, post, script};

const BUOYS: &str = "/apis/$group/v1/namespaces/$ns/buoys";
const MAPS: &str = "/api/v1/namespaces/$ns/secrets";

pub(super) fn topic() -> Topic {
    let free = json!({"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    Topic::new("paging", install(definition("buoys", "Buoy", free)))
        .then(filled())
        .then(pages(BUOYS))
        .then(pages(MAPS))
        .then(matches(BUOYS))
        .then(matches(MAPS))
}

fn filled() -> Script {
    let mut script = script![get(BUOYS), get(MAPS)];
    for name in ["a", "b", "c", "d", "e"] {
        let labels = json!({"vowel": if "ae".contains(name) { "yes" } else { "no" }});
        script.push(done(
            post(MAPS, json!({"metadata": {"name": name, "labels": labels}})).keep("first"),
        ));
        script.push(done(post(BUOYS, json!({"apiVersion": "$group/v1", "kind": "Buoy", "metadata": {"name": name, "labels": labels}}))));
    }
    script
}

fn pages(of: &str) -> Script {
    script![
        get(&format!("{of}?limit=2")).keep("page"),
        get(&format!("{of}?limit=2&continue=$continue(page)")).keep("next"),
        get(&format!("{of}?limit=2&continue=$continue(next)")).keep("end"),
        get(&format!("{of}?continue=$continue(page)")),
        get(&format!("{of}?limit=5")),
        get(&format!("{of}?limit=4")).keep("four"),
        get(&format!("{of}?limit=0")),
        get(&format!("{of}?limit=1&labelSelector=vowel%3Dyes")).keep("vowel"),
        get(&format!(
            "{of}?limit=1&labelSelector=vowel%3Dyes&continue=$continue(vowel)"
        )),
        get(&format!("{of}?limit=1&fieldSelector=metadata.name%3Dc")),
        get(&format!("{of}?limit=3&resourceVersion=0")),
        get(&format!(
            "{of}?limit=3&resourceVersion=$rv(first)&resourceVersionMatch=NotOlderThan"
        ))
        .keep("at"),
        // What was there when the pages began stays in them.
        delete(&format!("{of}/e")).settle(|body| body["details"]["uid"] = json!("…")),
        get(&format!("{of}?limit=2&continue=$continue(four)")),
        get(&format!("{of}?limit=2&continue=$continue(page)")),
        get(&format!("{of}?limit=10")),
        get(&format!("{of}?continue=abc")).free_text(),
        get(&format!("{of}?continue=e30")).free_text(),
        get(&format!(
            "{of}?limit=2&continue=$continue(page)&resourceVersion=5"
        )),
        get(&format!(
            "{of}?limit=2&continue=$continue(page)&resourceVersion=0"
        )),
        get(&format!(
            "{of}?limit=2&continue=$continue(page)&resourceVersionMatch=Exact"
        )),
    ]
}

fn matches(of: &str) -> Script {
    script![
        done(get(of).keep("now")),
        get(&format!(
            "{of}?resourceVersion=$rv(now)&resourceVersionMatch=Exact"
        )),
        get(&format!(
            "{of}?resourceVersion=$rv(now)&resourceVersionMatch=NotOlderThan"
        )),
        get(&format!("{of}?resourceVersion=$rv(now)")),
        get(&format!(
            "{of}?resourceVersion=0&resourceVersionMatch=NotOlderThan"
        )),
        get(&format!(
            "{of}?resourceVersion=0&resourceVersionMatch=Exact"
        )),
        get(&format!("{of}?resourceVersion=0")),
        get(&format!("{of}?resourceVersionMatch=NotOlderThan")),
        get(&format!("{of}?resourceVersionMatch=Exact")),
        get(&format!(
            "{of}?resourceVersionMatch=Sideways&resourceVersion=$rv(now)"
        )),
        get(&format!("{of}?resourceVersion=-1")),
        get(&format!("{of}?resourceVersion=1.5")),
        get(&format!(
            "{of}?resourceVersion=999999999&resourceVersionMatch=Exact"
        )),
        get(&format!("{of}?resourceVersion=999999999")),
        get(&format!("{of}?sendInitialEvents=true")),
        get(&format!("{of}?limit=99999999999999999999")).free_text(),
        get(&format!("{of}/a?resourceVersion=0")),
        get(&format!("{of}/a?resourceVersion=$rv(now)")),
        get(&format!("{of}/a?resourceVersion=abc")),
    ]
}
