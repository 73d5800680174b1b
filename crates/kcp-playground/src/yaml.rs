//! YAML instead of JSON: request bodies become the same as in JSON, and repeated keys are reported with the messages of
//! the server's YAML reader.

use std::collections::BTreeSet;

use granit_parser::{Event, Parser};
use serde_json::Value;
use serde_saphyr::options::DuplicateKeyPolicy;

use kube_schema::json::{self, Document, JsonError, Syntax};

/// The maximum number of repeated keys that are reported.
const MAX_DUPLICATES: usize = 100;

/// Parses one document.
pub(crate) fn parse(body: &[u8]) -> Result<Document, JsonError> {
    if body.len() > json::MAX_BODY {
        return Err(JsonError::TooLarge { size: body.len() });
    }
    let text = std::str::from_utf8(body).map_err(JsonError::NotUtf8)?;
    let options = serde_saphyr::options! {
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        // The line and column name the place; the parser's excerpt is omitted from the status.
        with_snippet: false,
    };
    let value: Value = serde_saphyr::from_str_with_options(text, options)
        .map_err(|error| JsonError::NotYaml(error.to_string()))?;
    // Numbers are parsed like those of JSON.
    let mut value = json::parse(value.to_string().as_bytes())?.value;
    json::settle(&mut value);
    Ok(Document {
        value,
        duplicates: repeated(text),
        syntax: Syntax::Yaml,
    })
}

/// The keys of the mapping that is being parsed.
enum Around {
    Map {
        seen: BTreeSet<String>,
        /// Whether the next node is a key.
        key: bool,
    },
    List,
}

/// `line 5: key "name" already set in map`, once for each line.
fn repeated(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut around: Vec<Around> = Vec::new();
    let mut parser = Parser::new_from_str(text);
    while let Some(Ok((event, span))) = parser.next_event() {
        match event {
            Event::Scalar(text, ..) => {
                if let Some(Around::Map { seen, key: true }) = around.last_mut()
                    && !seen.insert(text.clone().into_owned())
                    && found.len() < MAX_DUPLICATES
                {
                    let line = span.start.line();
                    let key = kube_lang::go_text::quote(&text);
                    found.push(format!("line {line}: key {key} already set in map"));
                }
                node_ends(&mut around);
            }
            Event::Alias(_) => node_ends(&mut around),
            Event::MappingStart(..) => around.push(Around::Map {
                seen: BTreeSet::new(),
                key: true,
            }),
            Event::SequenceStart(..) => around.push(Around::List),
            Event::MappingEnd | Event::SequenceEnd => {
                around.pop();
                node_ends(&mut around);
            }
            _ => {}
        }
    }
    found
}

/// Keys and values alternate.
fn node_ends(around: &mut [Around]) {
    if let Some(Around::Map { key, .. }) = around.last_mut() {
        *key = !*key;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_document_is_what_it_would_be_in_json() {
        let document = parse(b"a: 1\nb: [x, {c: 2.0}]\nd: \"5\"\ne:\n").unwrap();
        let want = json!({"a": 1, "b": ["x", {"c": 2}], "d": "5", "e": null});
        assert_eq!(document.value, want);
        assert!(document.duplicates.is_empty());
    }

    #[test]
    fn repeated_keys_are_told_by_their_line_and_the_last_wins() {
        let body =
            b"metadata:\n  name: a\n  name: b\nl:\n- {x: 1, y: 1}\n- x: 1\n  x: 2\nname: c\n";
        let document = parse(body).unwrap();
        assert_eq!(document.value["metadata"]["name"], "b");
        assert_eq!(document.value["l"][1]["x"], 2);
        assert_eq!(
            document.duplicates,
            [
                "line 3: key \"name\" already set in map",
                "line 7: key \"x\" already set in map"
            ]
        );
    }

    #[test]
    fn what_is_no_yaml_is_refused() {
        for body in [&b"a: [1"[..], b"a: b: c"] {
            let message = parse(body).unwrap_err().to_string();
            assert!(
                message.starts_with("request body is not valid YAML: "),
                "{message}"
            );
            assert!(!message.contains('\n'), "{message}");
        }
        assert!(parse(b"\xff").is_err());
    }
}
