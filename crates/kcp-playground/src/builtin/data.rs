//! `ConfigMap` and `Secret`: maps of data that may be immutable.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use crate::catalog::{Admission, Strategy};
use crate::status::Status;
use crate::store::Read;
use kube_lang::object::Object;
use kube_schema::field::{FieldError, Path};

/// The limit for all values of one object together.
const MAX_DATA: u64 = 1024 * 1024;
const MAX_KEY: usize = 253;
const SEALED: &str = "field is immutable when `immutable` is set";
const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

pub(super) struct ConfigMaps;
pub(super) struct Secrets;

impl Strategy for ConfigMaps {
    fn looks_around(&self) -> bool {
        false
    }

    fn prepare(
        &self,
        _read: &dyn Read,
        _admission: &Admission<'_>,
        object: &mut Object,
    ) -> Result<(), Status> {
        texts(object, "ConfigMap", "data")?;
        bytes(object, "ConfigMap", "binaryData")
    }

    fn validate(&self, admission: &Admission<'_>, object: &Object) -> Vec<FieldError> {
        let root = Path::Root;
        let mut errors = Vec::new();
        let mut size = 0;
        for name in ["data", "binaryData"] {
            let field = root.field(name);
            for (key, value) in map(object, name) {
                errors.extend(check_key(key, &field.key(key)));
                if name == "data" && map(object, "binaryData").any(|(other, _)| other == key) {
                    let detail = "duplicate of key present in binaryData";
                    errors.push(FieldError::invalid(field.key(key), key.as_str(), detail));
                }
                size += if name == "data" {
                    length(value)
                } else {
                    decoded_length(value)
                };
            }
        }
        if size > MAX_DATA {
            errors.push(FieldError::too_long("[]", MAX_DATA));
        }
        errors.extend(check_seal(admission.old, object, &["data", "binaryData"]));
        errors
    }
}

impl Strategy for Secrets {
    fn looks_around(&self) -> bool {
        false
    }

    fn prepare(
        &self,
        _read: &dyn Read,
        _admission: &Admission<'_>,
        object: &mut Object,
    ) -> Result<(), Status> {
        bytes(object, "Secret", "data")?;
        texts(object, "Secret", "stringData")?;
        let root = object.root_mut();
        if let Some(Value::Object(plain)) = root.remove("stringData") {
            let data = root
                .entry("data")
                .or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(data) = data {
                for (key, value) in plain {
                    let text = value.as_str().unwrap_or_default();
                    data.insert(key, STANDARD.encode(text).into());
                }
            }
        }
        if root
            .get("type")
            .is_none_or(|v| v.is_null() || v.as_str() == Some(""))
        {
            root.insert("type".into(), "Opaque".into());
        }
        Ok(())
    }

    fn validate(&self, admission: &Admission<'_>, object: &Object) -> Vec<FieldError> {
        let root = Path::Root;
        let data = root.field("data");
        let mut errors = Vec::new();
        let mut size = 0;
        for (key, value) in map(object, "data") {
            errors.extend(check_key(key, &data.key(key)));
            size += decoded_length(value);
        }
        if size > MAX_DATA {
            errors.push(FieldError::too_long(data, MAX_DATA));
        }
        errors.extend(check_type(object, &data));
        if let Some(old) = admission.old {
            let kind = object.root().get("type");
            if kind != old.root().get("type") {
                errors.push(FieldError::invalid(
                    "type",
                    kind.cloned().unwrap_or_default(),
                    "field is immutable",
                ));
            }
        }
        errors.extend(check_seal(admission.old, object, &["data"]));
        errors
    }
}

/// Checks the keys that the well-known types of Secrets require.
fn check_type(secret: &Object, data: &Path<'_>) -> Vec<FieldError> {
    let get = |key: &str| secret.root().get("data").and_then(|data| data.get(key));
    let lacks = |keys: &[&str]| -> Vec<FieldError> {
        keys.iter()
            .filter(|key| get(key).is_none())
            .map(|key| FieldError::required(data.key(key), ""))
            .collect()
    };
    let json = |key: &str| match get(key).and_then(Value::as_str) {
        None => lacks(&[key]),
        Some(text) => {
            let bytes = STANDARD.decode(text).unwrap_or_default();
            match serde_json::from_slice::<Map<String, Value>>(&bytes) {
                Ok(_) => Vec::new(),
                Err(error) => vec![FieldError::invalid(
                    data.key(key),
                    "<secret contents redacted>",
                    &error.to_string(),
                )],
            }
        }
    };
    match secret.root().get("type").and_then(Value::as_str) {
        Some("kubernetes.io/service-account-token") => {
            let account = "kubernetes.io/service-account.name";
            match secret.annotation(account) {
                Some(name) if !name.is_empty() => Vec::new(),
                _ => vec![FieldError::required(
                    format!("metadata.annotations[{account}]"),
                    "",
                )],
            }
        }
        Some("kubernetes.io/dockercfg") => json(".dockercfg"),
        Some("kubernetes.io/dockerconfigjson") => json(".dockerconfigjson"),
        Some("kubernetes.io/basic-auth")
            if get("username").is_none() && get("password").is_none() =>
        {
            lacks(&["username", "password"])
        }
        Some("kubernetes.io/ssh-auth") => lacks(&["ssh-privatekey"]),
        Some("kubernetes.io/tls") => lacks(&["tls.crt", "tls.key"]),
        _ => Vec::new(),
    }
}

/// Immutable objects keep their data, and stay immutable.
fn check_seal(old: Option<&Object>, new: &Object, fields: &[&str]) -> Vec<FieldError> {
    let sealed = |object: &Object| object.root().get("immutable") == Some(&Value::Bool(true));
    let Some(old) = old.filter(|old| sealed(old)) else {
        return Vec::new();
    };
    let mut errors = Vec::new();
    if !sealed(new) {
        errors.push(FieldError::forbidden("immutable", SEALED));
    }
    for field in fields {
        if old.root().get(*field) != new.root().get(*field) {
            errors.push(FieldError::forbidden(field, SEALED));
        }
    }
    errors
}

fn check_key(key: &str, path: &Path<'_>) -> Vec<FieldError> {
    let mut messages = Vec::new();
    if key.len() > MAX_KEY {
        messages.push(format!("must be no more than {MAX_KEY} characters"));
    }
    let known = |c: u8| c.is_ascii_alphanumeric() || b"-_.".contains(&c);
    if key.is_empty() || !key.bytes().all(known) {
        messages.push(CONFIG_KEY.to_owned());
    }
    match key {
        "." => messages.push("must not be '.'".to_owned()),
        ".." => messages.push("must not be '..'".to_owned()),
        _ if key.starts_with("..") => messages.push("must not start with '..'".to_owned()),
        _ => {}
    }
    messages
        .iter()
        .map(|message| FieldError::invalid(path, key, message))
        .collect()
}

fn map<'o>(object: &'o Object, field: &str) -> impl Iterator<Item = (&'o String, &'o Value)> {
    object
        .root()
        .get(field)
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
}

/// The number of bytes that a canonical base64 string encodes.
fn decoded_length(value: &Value) -> u64 {
    let text = value.as_str().unwrap_or_default();
    let padding = text.bytes().rev().take_while(|c| *c == b'=').count();
    (text.len() / 4 * 3).saturating_sub(padding) as u64
}

fn length(value: &Value) -> u64 {
    value.as_str().unwrap_or_default().len() as u64
}

/// Decodes a map of strings as Go does: null values are empty strings, an empty map is dropped.
fn texts(object: &mut Object, kind: &str, field: &str) -> Result<(), Status> {
    each(object, kind, field, |text| Ok(text.to_owned()))
}

/// Decodes a map of base64 strings as Go does, line breaks allowed, and writes them canonically.
fn bytes(object: &mut Object, kind: &str, field: &str) -> Result<(), Status> {
    each(object, kind, field, |text| {
        let compact: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
        let decoded = STANDARD
            .decode(&compact)
            .map_err(|error| format!("illegal base64 data: {error}"))?;
        Ok(STANDARD.encode(decoded))
    })
}

fn each(
    object: &mut Object,
    kind: &str,
    field: &str,
    read: impl Fn(&str) -> Result<String, String>,
) -> Result<(), Status> {
    let refuse = |path: &str, why: &str| {
        Status::bad_request(format!(
            "{kind} in version \"v1\" cannot be handled as a {kind}: {path}: {why}"
        ))
    };
    let root = object.root_mut();
    let entries = match root.get_mut(field) {
        None => return Ok(()),
        Some(Value::Null) => {
            root.remove(field);
            return Ok(());
        }
        Some(Value::Object(entries)) => entries,
        Some(_) => return Err(refuse(field, "has to be a map of strings")),
    };
    for (key, value) in entries.iter_mut() {
        *value = match value {
            Value::Null => "".into(),
            Value::String(text) => read(text)
                .map_err(|why| refuse(&format!("{field}.{key}"), &why))?
                .into(),
            _ => return Err(refuse(&format!("{field}.{key}"), "has to be a string")),
        };
    }
    if entries.is_empty() {
        root.remove(field);
    }
    Ok(())
}
