//! The JSON form of sets (`FieldsV1`): nested maps, with an empty map for a leaf and `.` for the place itself if there
//! are paths below it.

use serde_json::{Map, Value};

use super::element::Element;
use super::set::{Branch, Set};

impl Set {
    pub(crate) fn to_json(&self) -> Value {
        Value::Object(self.write(false))
    }

    fn write(&self, itself: bool) -> Map<String, Value> {
        let mut map = Map::new();
        if itself && !self.is_empty() {
            map.insert(".".to_owned(), Value::Object(Map::new()));
        }
        for (element, branch) in self.iter() {
            let below = branch.below.write(branch.member);
            map.insert(element.to_key(), Value::Object(below));
        }
        map
    }

    /// Parses a set. Unknown kinds of elements are skipped; a malformed element is an error.
    pub(crate) fn from_json(value: &Value) -> Result<Self, String> {
        match value {
            Value::Null => Ok(Self::default()),
            Value::Object(map) => Ok(read(map)?.below),
            _ => Err("a set of fields must be an object".to_owned()),
        }
    }
}

fn read(map: &Map<String, Value>) -> Result<Branch, String> {
    let mut branch = Branch::default();
    for (key, value) in map {
        if key == "." {
            branch.member = true;
            continue;
        }
        let Some(element) = Element::parse(key)? else {
            continue;
        };
        let below = match value {
            Value::Object(map) => read(map)?,
            Value::Null => Branch::leaf(),
            _ => return Err(format!("what is at {key:?} must be an object")),
        };
        branch.below.add(element, below);
    }
    branch.member |= branch.below.is_empty();
    Ok(branch)
}
