//! A CRD's spec in Go's encoding: fields in the order in which Go's types declare them, empty ones omitted if the types
//! say so, raw values unchanged. The hash that names a published schema is made from this text, so every byte of it
//! counts.

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{CrdError, CrdSpec, CrdVersion, ScaleSubresource};
use kube_lang::go_json;

/// The largest depth of a schema: no API server stores a deeper one.
const MAX_DEPTH: usize = 100;

/// The text of a spec without its conversion and without a line end.
pub fn encode_spec(spec: &CrdSpec) -> Result<String, CrdError> {
    let mut out = JsonWriter::default();
    out.open();
    out.text("group", &spec.group);
    out.key("names");
    out.open();
    out.text("plural", &spec.names.plural);
    out.text_unless_empty("singular", &spec.names.singular);
    out.texts_unless_empty("shortNames", &spec.names.short_names);
    out.text("kind", &spec.names.kind);
    out.text_unless_empty("listKind", &spec.names.list_kind);
    out.texts_unless_empty("categories", &spec.names.categories);
    out.close();
    out.text("scope", &spec.scope);
    out.key("versions");
    if spec.versions.is_empty() {
        out.raw("null");
    } else {
        out.raw("[");
        for (index, version) in spec.versions.iter().enumerate() {
            if index > 0 {
                out.raw(",");
            }
            write_version(&mut out, version).map_err(|problem| CrdError::Schema {
                version: version.name.clone(),
                problem,
            })?;
        }
        out.raw("]");
    }
    out.close();
    Ok(out.text)
}

fn write_version(out: &mut JsonWriter, version: &CrdVersion) -> Result<(), String> {
    out.open();
    out.text("name", &version.name);
    out.bool("served", version.served);
    out.bool("storage", version.storage);
    if version.deprecated {
        out.bool("deprecated", true);
    }
    if let Some(warning) = &version.deprecation_warning {
        out.text("deprecationWarning", warning);
    }
    if let Some(schema) = &version.schema {
        out.key("schema");
        out.open();
        if let Some(schema) = &schema.open_api {
            out.key("openAPIV3Schema");
            write_fields(out, schema, SCHEMA, 0)?;
        }
        out.close();
    }
    if let Some(subresources) = &version.subresources {
        out.key("subresources");
        out.open();
        if subresources.status.is_some() {
            out.key("status");
            out.raw("{}");
        }
        if let Some(scale) = &subresources.scale {
            out.key("scale");
            write_scale(out, scale);
        }
        out.close();
    }
    write_list(
        out,
        "additionalPrinterColumns",
        &version.additional_printer_columns,
        COLUMN,
        0,
    )?;
    write_list(
        out,
        "selectableFields",
        &version.selectable_fields,
        SELECTABLE,
        0,
    )?;
    out.close();
    Ok(())
}

fn write_scale(out: &mut JsonWriter, scale: &ScaleSubresource) {
    out.open();
    out.text("specReplicasPath", &scale.spec_replicas_path);
    out.text("statusReplicasPath", &scale.status_replicas_path);
    if let Some(path) = &scale.label_selector_path {
        out.text("labelSelectorPath", path);
    }
    out.close();
}

/// The encoding of a field.
#[derive(Clone, Copy)]
enum Shape {
    /// A string; left out when empty.
    Text,
    /// A string that is always present.
    TextAlways,
    /// A pointer to a string: kept when empty.
    TextKept,
    /// A pointer to a float.
    Float,
    /// A pointer to an integer.
    Integer,
    /// An integer; left out when zero.
    IntegerUnlessZero,
    /// Left out when false.
    Bool,
    /// A pointer: kept when false.
    BoolKept,
    /// Any JSON, unchanged.
    Raw,
    /// A list of any JSON.
    RawList,
    TextList,
    Schema,
    SchemaList,
    SchemaMap,
    SchemaOrBool,
    SchemaOrList,
    /// A map of schemas or lists of names.
    SchemaOrTextsMap,
    Docs,
    Rules,
}

type Fields = &'static [(&'static str, Shape)];

const SCHEMA: Fields = &[
    ("id", Shape::Text),
    ("$schema", Shape::Text),
    ("$ref", Shape::TextKept),
    ("description", Shape::Text),
    ("type", Shape::Text),
    ("format", Shape::Text),
    ("title", Shape::Text),
    ("default", Shape::Raw),
    ("maximum", Shape::Float),
    ("exclusiveMaximum", Shape::Bool),
    ("minimum", Shape::Float),
    ("exclusiveMinimum", Shape::Bool),
    ("maxLength", Shape::Integer),
    ("minLength", Shape::Integer),
    ("pattern", Shape::Text),
    ("maxItems", Shape::Integer),
    ("minItems", Shape::Integer),
    ("uniqueItems", Shape::Bool),
    ("multipleOf", Shape::Float),
    ("enum", Shape::RawList),
    ("maxProperties", Shape::Integer),
    ("minProperties", Shape::Integer),
    ("required", Shape::TextList),
    ("items", Shape::SchemaOrList),
    ("allOf", Shape::SchemaList),
    ("oneOf", Shape::SchemaList),
    ("anyOf", Shape::SchemaList),
    ("not", Shape::Schema),
    ("properties", Shape::SchemaMap),
    ("additionalProperties", Shape::SchemaOrBool),
    ("patternProperties", Shape::SchemaMap),
    ("dependencies", Shape::SchemaOrTextsMap),
    ("additionalItems", Shape::SchemaOrBool),
    ("definitions", Shape::SchemaMap),
    ("externalDocs", Shape::Docs),
    ("example", Shape::Raw),
    ("nullable", Shape::Bool),
    ("x-kubernetes-preserve-unknown-fields", Shape::BoolKept),
    ("x-kubernetes-embedded-resource", Shape::Bool),
    ("x-kubernetes-int-or-string", Shape::Bool),
    ("x-kubernetes-list-map-keys", Shape::TextList),
    ("x-kubernetes-list-type", Shape::TextKept),
    ("x-kubernetes-map-type", Shape::TextKept),
    ("x-kubernetes-validations", Shape::Rules),
];

const DOCS: Fields = &[("description", Shape::Text), ("url", Shape::Text)];

const RULE: Fields = &[
    ("rule", Shape::TextAlways),
    ("message", Shape::Text),
    ("messageExpression", Shape::Text),
    ("reason", Shape::TextKept),
    ("fieldPath", Shape::Text),
    ("optionalOldSelf", Shape::BoolKept),
];

const COLUMN: Fields = &[
    ("name", Shape::TextAlways),
    ("type", Shape::TextAlways),
    ("format", Shape::Text),
    ("description", Shape::Text),
    ("priority", Shape::IntegerUnlessZero),
    ("jsonPath", Shape::TextAlways),
];

const SELECTABLE: Fields = &[("jsonPath", Shape::TextAlways)];

/// The entries of a JSON object in their order, values raw; the last of equal keys counts, as in Go.
fn entries(raw: &RawValue) -> Result<Vec<(String, &RawValue)>, String> {
    struct Entries;
    impl<'de> Visitor<'de> for Entries {
        type Value = Vec<(String, &'de RawValue)>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut entries: Self::Value = Vec::new();
            while let Some((key, value)) = map.next_entry::<String, &RawValue>()? {
                match entries.iter_mut().find(|(known, _)| *known == key) {
                    Some(entry) => entry.1 = value,
                    None => entries.push((key, value)),
                }
            }
            Ok(entries)
        }
    }
    serde_json::Deserializer::from_str(raw.get())
        .deserialize_map(Entries)
        .map_err(|error| error.to_string())
}

fn read<'a, T: serde::Deserialize<'a>>(raw: &'a RawValue) -> Result<T, String> {
    serde_json::from_str(raw.get()).map_err(|error| error.to_string())
}

fn write_fields(
    out: &mut JsonWriter,
    raw: &RawValue,
    fields: Fields,
    depth: usize,
) -> Result<(), String> {
    if depth > MAX_DEPTH {
        return Err(format!("it is nested deeper than {MAX_DEPTH} levels"));
    }
    let entries = entries(raw)?;
    out.open();
    for (name, shape) in fields {
        let value = entries.iter().find(|(key, _)| key == name).map(|(_, v)| *v);
        match value {
            Some(value) if value.get() != "null" => {
                write_field(out, name, value, *shape, depth)
                    .map_err(|problem| format!("{name}: {problem}"))?;
            }
            _ if matches!(shape, Shape::TextAlways) => out.text(name, ""),
            _ => {}
        }
    }
    out.close();
    Ok(())
}

fn write_field(
    out: &mut JsonWriter,
    name: &str,
    raw: &RawValue,
    shape: Shape,
    depth: usize,
) -> Result<(), String> {
    match shape {
        Shape::Text => out.text_unless_empty(name, &read::<String>(raw)?),
        Shape::TextAlways | Shape::TextKept => out.text(name, &read::<String>(raw)?),
        Shape::Float => {
            out.key(name);
            out.raw(&go_json::float_text(read(raw)?));
        }
        Shape::Integer => {
            out.key(name);
            out.raw(&read::<i64>(raw)?.to_string());
        }
        Shape::IntegerUnlessZero => match read::<i64>(raw)? {
            0 => {}
            number => {
                out.key(name);
                out.raw(&number.to_string());
            }
        },
        Shape::Bool => {
            if read(raw)? {
                out.bool(name, true);
            }
        }
        Shape::BoolKept => out.bool(name, read(raw)?),
        Shape::Raw => {
            out.key(name);
            out.raw(&go_json::compact(raw.get()));
        }
        Shape::RawList => {
            let items: Vec<&RawValue> = read(raw)?;
            if !items.is_empty() {
                out.key(name);
                out.list(&items, |out, item| {
                    out.raw(&go_json::compact(item.get()));
                    Ok(())
                })?;
            }
        }
        Shape::TextList => out.texts_unless_empty(name, &read::<Vec<String>>(raw)?),
        Shape::Schema => {
            out.key(name);
            write_fields(out, raw, SCHEMA, depth + 1)?;
        }
        Shape::SchemaList => write_list(
            out,
            name,
            &read::<Vec<Box<RawValue>>>(raw)?,
            SCHEMA,
            depth + 1,
        )?,
        Shape::Rules => write_list(
            out,
            name,
            &read::<Vec<Box<RawValue>>>(raw)?,
            RULE,
            depth + 1,
        )?,
        Shape::SchemaMap | Shape::SchemaOrTextsMap => {
            let mut map = entries(raw)?;
            map.sort_by(|a, b| a.0.as_bytes().cmp(b.0.as_bytes()));
            if map.is_empty() {
                return Ok(());
            }
            out.key(name);
            out.open();
            for (key, value) in map {
                out.key(&key);
                write_schema_or_texts(out, value, depth)
                    .map_err(|problem| format!("{key}: {problem}"))?;
            }
            out.close();
        }
        Shape::SchemaOrBool => {
            out.key(name);
            match raw.get() {
                "true" | "false" => out.raw(raw.get()),
                _ => write_fields(out, raw, SCHEMA, depth + 1)?,
            }
        }
        Shape::SchemaOrList => {
            out.key(name);
            if raw.get().starts_with('[') {
                let items: Vec<&RawValue> = read(raw)?;
                out.list(&items, |out, item| {
                    write_fields(out, item, SCHEMA, depth + 1)
                })?;
            } else {
                write_fields(out, raw, SCHEMA, depth + 1)?;
            }
        }
        Shape::Docs => {
            out.key(name);
            write_fields(out, raw, DOCS, depth + 1)?;
        }
    }
    Ok(())
}

fn write_schema_or_texts(out: &mut JsonWriter, raw: &RawValue, depth: usize) -> Result<(), String> {
    if raw.get().starts_with('[') {
        let names: Vec<String> = read(raw)?;
        return out.list(&names, |out, name| {
            go_json::write_text(&mut out.text, name);
            Ok(())
        });
    }
    write_fields(out, raw, SCHEMA, depth + 1)
}

fn write_list(
    out: &mut JsonWriter,
    name: &str,
    items: &[Box<RawValue>],
    fields: Fields,
    depth: usize,
) -> Result<(), String> {
    if items.is_empty() {
        return Ok(());
    }
    out.key(name);
    out.list(items, |out, item| write_fields(out, item, fields, depth))
}

/// JSON text that is being written, with its commas.
#[derive(Default)]
struct JsonWriter {
    text: String,
}

impl JsonWriter {
    fn open(&mut self) {
        self.text.push('{');
    }

    fn close(&mut self) {
        self.text.push('}');
    }

    fn raw(&mut self, json: &str) {
        self.text.push_str(json);
    }

    fn key(&mut self, name: &str) {
        if !self.text.ends_with('{') {
            self.text.push(',');
        }
        go_json::write_text(&mut self.text, name);
        self.text.push(':');
    }

    fn text(&mut self, name: &str, value: &str) {
        self.key(name);
        go_json::write_text(&mut self.text, value);
    }

    fn text_unless_empty(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            self.text(name, value);
        }
    }

    fn texts_unless_empty(&mut self, name: &str, values: &[String]) {
        if values.is_empty() {
            return;
        }
        self.key(name);
        self.raw("[");
        for (index, value) in values.iter().enumerate() {
            if index > 0 {
                self.raw(",");
            }
            go_json::write_text(&mut self.text, value);
        }
        self.raw("]");
    }

    fn bool(&mut self, name: &str, value: bool) {
        self.key(name);
        self.raw(if value { "true" } else { "false" });
    }

    fn list<T>(
        &mut self,
        items: &[T],
        mut write: impl FnMut(&mut Self, &T) -> Result<(), String>,
    ) -> Result<(), String> {
        self.raw("[");
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.raw(",");
            }
            write(self, item)?;
        }
        self.raw("]");
        Ok(())
    }
}
