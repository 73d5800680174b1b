//! The order of problems in a document: a second reading, only for documents with problems.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::{JsonPath, duplicate_field, unknown_field};

/// The problems of a document in the order of the document: repeated keys, and the fields in `unknown`, whose content
/// is skipped.
pub fn in_order(body: &[u8], unknown: &[String]) -> Vec<String> {
    let mut order = Order {
        unknown: unknown.iter().map(String::as_str).collect(),
        found: Vec::new(),
    };
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let node = OrderedSeed {
        at: JsonPath::Root,
        order: &mut order,
    };
    // The first reading has parsed the document, so this cannot fail.
    let _ = node.deserialize(&mut deserializer);
    order.found
}

struct Order<'a> {
    unknown: BTreeSet<&'a str>,
    found: Vec<String>,
}

impl Order<'_> {
    fn add(&mut self, complaint: String) {
        if !self.found.contains(&complaint) {
            self.found.push(complaint);
        }
    }
}

struct OrderedSeed<'a, 'o> {
    at: JsonPath<'a>,
    order: &'a mut Order<'o>,
}

impl<'de> DeserializeSeed<'de> for OrderedSeed<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for OrderedSeed<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut index = 0;
        while items
            .next_element_seed(OrderedSeed {
                at: JsonPath::Index(&self.at, index),
                order: &mut *self.order,
            })?
            .is_some()
        {
            index += 1;
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let mut seen = BTreeSet::new();
        while let Some(key) = entries.next_key::<String>()? {
            let at = JsonPath::Key(&self.at, &key);
            let mut path = String::new();
            at.write(&mut path);
            if self.order.unknown.contains(path.as_str()) {
                self.order.add(unknown_field(&path));
                entries.next_value::<IgnoredAny>()?;
                continue;
            }
            if !seen.insert(key.clone()) {
                self.order.add(duplicate_field(&path));
            }
            entries.next_value_seed(OrderedSeed {
                at,
                order: &mut *self.order,
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(body: &str, unknown: &[&str], want: &[&str]) {
        let unknown: Vec<String> = unknown.iter().map(|path| (*path).to_owned()).collect();
        assert_eq!(in_order(body.as_bytes(), &unknown), want);
    }

    #[test]
    fn complaints_come_in_the_order_of_the_document() {
        check(
            r#"{"z":1,"a":[{"b":1,"x":{"y":1,"y":2},"b":2,"b":3}],"a":null,"k":true}"#,
            &["k", "a[0].x", "z"],
            &[
                "unknown field \"z\"",
                "unknown field \"a[0].x\"",
                "duplicate field \"a[0].b\"",
                "duplicate field \"a\"",
                "unknown field \"k\"",
            ],
        );
    }

    #[test]
    fn a_document_without_faults_has_no_complaints() {
        check(r#"{"a":{"b":[1,2.5,-3,"x",null]},"b":false}"#, &["c"], &[]);
    }
}
