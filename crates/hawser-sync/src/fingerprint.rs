//! Fingerprints of objects, and hashes of values.

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use kube_lang::object::{Missing, Object};

/// The fingerprint of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 16]);

impl Fingerprint {
    pub const ABSENT: Self = Self([0; 16]);

    /// The fingerprint of an object. It leaves out the resourceVersion and the managedFields, which change with every
    /// write and decide nothing.
    pub fn of(object: &Object) -> Self {
        Self::with_text(object).0
    }

    /// The fingerprint of an object and the JSON of it, written once for both.
    pub fn with_text(object: &Object) -> (Self, Vec<u8>) {
        let mut text = Text {
            bytes: Vec::with_capacity(1024),
            ..Text::default()
        };
        text.fields(object.root(), |text, field, value| match value {
            Value::Object(metadata) if field == "metadata" => {
                text.count();
                text.hash.update(b"{");
                text.fields(metadata, |text, field, value| {
                    text.value(value);
                    if !IN_EVERY_WRITE.contains(&field) {
                        text.count();
                    }
                });
                text.count();
            }
            value => {
                text.value(value);
                text.count();
            }
        });
        match object.missing() {
            None => {}
            Some(Missing::TooDeep) => text.hash.update(b"~"),
            Some(Missing::LeftOut) => text.hash.update(b"-"),
        }
        (Self::cut(text.hash), text.bytes)
    }

    /// The fingerprint of a list, in any order, by the fingerprints of its objects.
    pub fn of_all(fingerprints: impl IntoIterator<Item = Self>) -> Self {
        let mut fingerprints: Vec<_> = fingerprints
            .into_iter()
            .map(|fingerprint| fingerprint.0)
            .collect();
        fingerprints.sort_unstable();
        let mut hash = Sha256::new();
        for fingerprint in fingerprints {
            hash.update(fingerprint);
        }
        Self::cut(hash)
    }

    fn cut(hash: Sha256) -> Self {
        let mut fingerprint = [0; 16];
        fingerprint.copy_from_slice(&hash.finalize()[..16]);
        Self(fingerprint)
    }
}

/// The metadata that change with every write.
const IN_EVERY_WRITE: [&str; 2] = ["resourceVersion", "managedFields"];

/// JSON that is written field by field, and the hash of the fields that count. Names and values are JSON, so no two
/// lists of fields have the same hash; separators between fields do not count.
#[derive(Default)]
struct Text {
    bytes: Vec<u8>,
    hash: Sha256,
    /// The start of the field that is being written.
    field: usize,
}

impl Text {
    fn fields(
        &mut self,
        fields: &Map<String, Value>,
        mut write: impl FnMut(&mut Self, &str, &Value),
    ) {
        self.bytes.push(b'{');
        for (index, (name, value)) in fields.iter().enumerate() {
            if index > 0 {
                self.bytes.push(b',');
            }
            self.field = self.bytes.len();
            serde_json::to_writer(&mut self.bytes, name).expect(JSON);
            self.bytes.push(b':');
            write(self, name, value);
        }
        self.field = self.bytes.len();
        self.bytes.push(b'}');
    }

    fn value(&mut self, value: &Value) {
        serde_json::to_writer(&mut self.bytes, value).expect(JSON);
    }

    /// Adds the field to the hash.
    fn count(&mut self) {
        self.hash.update(&self.bytes[self.field..]);
    }
}

const JSON: &str = "a JSON value has no keys but strings";

/// The SHA-256 of a value's compact JSON.
pub type ValueHash = [u8; 32];

/// The hash in the place of an omitted value.
pub(super) fn value_hash(value: &Value) -> ValueHash {
    Sha256::digest(value.to_string().as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fingerprint(value: serde_json::Value) -> Fingerprint {
        Fingerprint::of(&Object::new(value).unwrap())
    }

    #[test]
    fn what_changes_with_every_write_is_not_part_of_a_print() {
        let one = json!({"metadata": {"name": "a", "resourceVersion": "1"}, "spec": {"n": 1}});
        let two = json!({"metadata": {"name": "a", "resourceVersion": "2", "managedFields": []},
            "spec": {"n": 1}});
        assert_eq!(fingerprint(one), fingerprint(two));
    }

    #[test]
    fn the_text_is_the_object_and_fields_are_not_taken_for_those_of_the_metadata() {
        let objects = [
            json!({"metadata": {"name": "a", "resourceVersion": "1", "uid": "b"}, "spec": null}),
            json!({"metadata": {"managedFields": [], "name": "a"}, "uid": "b", "spec": null}),
            json!({"metadata": {"uid": "b"}, "name": "a", "spec": null}),
            json!({"metadata": {}, "name": "a", "uid": "b", "spec": null}),
            json!({}),
        ];
        let made = objects.map(|value| {
            let (fingerprint, text) = Fingerprint::with_text(&Object::new(value.clone()).unwrap());
            assert_eq!(serde_json::from_slice::<Value>(&text).unwrap(), value);
            fingerprint
        });
        for (index, one) in made.iter().enumerate() {
            assert!(!made[..index].contains(one), "{index}");
        }
    }

    #[test]
    fn every_other_change_gives_another_print() {
        let of = |value| fingerprint(json!({"metadata": {"name": "a"}, "spec": value}));
        assert_ne!(of(json!(1)), of(json!(1.0)));
        assert_ne!(of(json!({})), of(json!(null)));
        assert_ne!(of(json!("1")), of(json!(1)));
    }
}
