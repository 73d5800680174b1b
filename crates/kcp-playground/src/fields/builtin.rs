//! The table of built-in kinds: their fields, the ownership of lists and maps, and the merging of lists by strategic
//! merge patches. The last two are independent: a list may be a map for its ownership and still be replaced by a patch.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, OnceLock};

use serde_json::{Value, json};

use super::types::{Atom, List, Map, Relation, ScalarType, StructField, Type, TypeId, TypeShape};

/// How a strategic merge patch merges a list that it does not replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patch {
    /// As a set of scalars.
    Set,
    /// By this field of the items.
    Key(&'static str),
}

/// A type of the table.
#[derive(Debug)]
pub(crate) struct Struct {
    atom: Atom,
    patches: BTreeMap<&'static str, Patch>,
    /// Fields that are always written, even if they are empty.
    zero: BTreeMap<&'static str, &'static str>,
    nothing: OnceLock<Value>,
}

/// All types, sorted by name.
struct TypeTable {
    names: Vec<&'static str>,
    types: Vec<Struct>,
}

static TABLE: LazyLock<TypeTable> = LazyLock::new(|| TypeTable::parse(include_str!("builtin.txt")));

/// The type of a built-in kind; `None` if it is not in the table.
pub(crate) fn kind(group: &str, kind: &str) -> Option<Type> {
    let found = named(&format!("{group}/{kind}")).or_else(|| named(kind));
    found.map(Type::Known)
}

/// A type by its name in the table, such as `ObjectMeta`.
pub(crate) fn named(name: &str) -> Option<TypeId> {
    TABLE.names.binary_search(&name).ok().map(TypeId)
}

static DEDUCED: LazyLock<Atom> = LazyLock::new(|| anything(Type::Deduced, false));
static UNTYPED: LazyLock<Atom> = LazyLock::new(|| anything(Type::Untyped, true));

fn anything(members: Type, atomic: bool) -> Atom {
    Atom {
        scalar: Some(ScalarType::Untyped),
        list: Some(List {
            relation: Relation::Atomic,
            items: Type::Untyped,
        }),
        map: Some(Map {
            fields: BTreeMap::new(),
            members: Some(members),
            atomic,
        }),
    }
}

impl Type {
    pub(super) fn atom(&self) -> &Atom {
        match self {
            Self::Of(atom) => atom,
            Self::Known(known) => known.structure().atom(),
            Self::Deduced => &DEDUCED,
            Self::Untyped => &UNTYPED,
        }
    }

    /// The structure in the table of built-in kinds, if the type is in the table.
    pub(crate) fn structure(&self) -> Option<&'static Struct> {
        match self {
            Self::Known(known) => Some(known.structure()),
            Self::Of(_) | Self::Deduced | Self::Untyped => None,
        }
    }

    /// The alternative for a value; a missing value or null takes the first one that exists.
    pub(super) fn shape(&self, value: Option<&Value>) -> Option<TypeShape<'_>> {
        let atom = self.atom();
        atom.pick(atom.alternatives(value))
    }
}

impl TypeId {
    pub(crate) fn structure(self) -> &'static Struct {
        &TABLE.types[self.0]
    }
}

impl Struct {
    pub(super) fn atom(&self) -> &Atom {
        &self.atom
    }

    /// How a strategic merge patch merges a list of this type; `None` if it replaces the list.
    pub(crate) fn patch(&self, field: &str) -> Option<Patch> {
        self.patches.get(field).copied()
    }

    /// The type of a field, or of its items if it is a list, if the table has that type.
    pub(crate) fn below(&'static self, field: &str) -> Option<&'static Self> {
        structure_below(self.atom.map.as_ref()?.member(field)?)
    }

    /// Removes empty lists and maps, as Go omits them in JSON.
    pub(crate) fn drop_empty(&'static self, value: &mut Value) {
        let (Value::Object(members), Some(map)) = (value, &self.atom.map) else {
            return;
        };
        members.retain(|name, member| {
            let Some(field) = map.fields.get(name) else {
                return true;
            };
            let atom = field.kind.atom();
            let plain_map = matches!(field.kind, Type::Of(_)) && atom.map.is_some();
            let empty = match &*member {
                Value::Array(items) => items.is_empty() && atom.list.is_some(),
                Value::Object(map) => map.is_empty() && plain_map,
                _ => false,
            };
            // An empty `managedFields` differs from a missing one.
            let means_something = name == "managedFields";
            if empty && !means_something && !self.zero.contains_key(name.as_str()) {
                return false;
            }
            if let Some(below) = structure_below(&field.kind) {
                match member {
                    Value::Array(items) => items.iter_mut().for_each(|i| below.drop_empty(i)),
                    other => below.drop_empty(other),
                }
            }
            true
        });
    }

    /// An object without any field set.
    pub(crate) fn zero(&self) -> &Value {
        self.nothing.get_or_init(|| self.unset())
    }

    fn unset(&self) -> Value {
        let mut value = json!({});
        for (field, kind) in &self.zero {
            value[*field] = match *kind {
                "string" => "".into(),
                "bool" => false.into(),
                "int" => 0.into(),
                other => named(other).map_or(Value::Null, |known| known.structure().unset()),
            };
        }
        value
    }
}

/// The structure of a field, or of its items if it is a list, in the table.
fn structure_below(field: &Type) -> Option<&'static Struct> {
    match field {
        Type::Known(known) => Some(known.structure()),
        Type::Of(atom) => atom.list.as_ref()?.items.structure(),
        Type::Deduced | Type::Untyped => None,
    }
}

impl TypeTable {
    fn parse(text: &'static str) -> Self {
        let mut types = BTreeMap::new();
        let mut lines = text
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .peekable();
        while let Some(line) = lines.next() {
            let mut words = line.split_whitespace();
            let name = words.next().unwrap_or_default();
            let mut fields: Vec<&'static str> = words.collect();
            while let Some(more) = lines.next_if(|line| line.starts_with(' ')) {
                fields.extend(more.split_whitespace());
            }
            let (name, atomic) = match name.strip_suffix('!') {
                Some(name) => (name, true),
                None => (name, false),
            };
            types.insert(name, (fields, atomic));
        }
        let names: Vec<&'static str> = types.keys().copied().collect();
        let types = types
            .values()
            .map(|(fields, atomic)| structure(fields, *atomic, &names))
            .collect();
        Self { names, types }
    }
}

fn structure(words: &[&'static str], atomic: bool, names: &[&str]) -> Struct {
    let mut patches = BTreeMap::new();
    let mut zero = BTreeMap::new();
    let mut fields = BTreeMap::new();
    if words.iter().any(|word| word.starts_with("metadata:")) {
        for name in ["apiVersion", "kind"] {
            fields.insert(name.to_owned(), plain(scalar(ScalarType::String)));
        }
    }
    for word in words {
        let Some((name, mut text)) = word.split_once(':') else {
            continue;
        };
        if let Some(rest) = text.strip_suffix('=') {
            text = rest;
            zero.insert(name, text);
        }
        if let Some((rest, patch)) = text.split_once('~') {
            text = rest;
            let key = patch
                .strip_prefix("merge(")
                .and_then(|k| k.strip_suffix(')'));
            patches.insert(name, key.map_or(Patch::Set, Patch::Key));
        }
        fields.insert(name.to_owned(), plain(type_of(text, names)));
    }
    Struct {
        atom: Atom {
            map: Some(Map {
                fields,
                members: None,
                atomic,
            }),
            ..Atom::default()
        },
        patches,
        zero,
        nothing: OnceLock::new(),
    }
}

fn plain(kind: Type) -> StructField {
    let default = None;
    StructField { kind, default }
}

fn scalar(scalar: ScalarType) -> Type {
    Type::Of(Arc::new(Atom {
        scalar: Some(scalar),
        ..Atom::default()
    }))
}

fn type_of(text: &str, names: &[&str]) -> Type {
    if let Some(rest) = text.strip_prefix('[')
        && let Some((items, how)) = rest.rsplit_once(']')
    {
        let keys = how.strip_prefix("map(").and_then(|k| k.strip_suffix(')'));
        let relation = match (how, keys) {
            ("set", _) => Relation::Set,
            (_, Some(keys)) => Relation::Keys(keys.split(',').map(str::to_owned).collect()),
            _ => Relation::Atomic,
        };
        let items = type_of(items, names);
        return Type::Of(Arc::new(Atom {
            list: Some(List { relation, items }),
            ..Atom::default()
        }));
    }
    if let Some(members) = text.strip_prefix('{').and_then(|t| t.strip_suffix('}')) {
        return Type::Of(Arc::new(Atom {
            map: Some(Map {
                members: Some(type_of(members, names)),
                ..Map::default()
            }),
            ..Atom::default()
        }));
    }
    match text {
        "string" => scalar(ScalarType::String),
        "int" => scalar(ScalarType::Numeric),
        "bool" => scalar(ScalarType::Boolean),
        "any" => scalar(ScalarType::Untyped),
        "deduced" => Type::Deduced,
        name => {
            let place = names.binary_search(&name);
            Type::Known(TypeId(place.expect(
                "a test reads the table, in which every type is that it names",
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The identity of list items, with the names of `x-kubernetes-list-type`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum ListType {
        Atomic,
        Set,
        Map(&'static [String]),
    }

    impl Struct {
        /// The list type of a field; `None` if it is not a list.
        fn list_type(&'static self, field: &str) -> Option<ListType> {
            let list = self.field(field)?.list.as_ref()?;
            Some(match &list.relation {
                Relation::Atomic => ListType::Atomic,
                Relation::Set => ListType::Set,
                Relation::Keys(keys) => ListType::Map(keys),
            })
        }

        /// Whether values of this type are atomic (`x-kubernetes-map-type: atomic`).
        fn is_atomic(&self) -> bool {
            self.atom.map.as_ref().is_some_and(|map| map.atomic)
        }

        /// The names of its fields, sorted.
        fn fields(&self) -> impl Iterator<Item = &str> {
            let map = self.atom.map.as_ref();
            map.into_iter()
                .flat_map(|map| map.fields.keys().map(String::as_str))
        }

        fn field(&'static self, field: &str) -> Option<&'static Atom> {
            Some(self.atom.map.as_ref()?.fields.get(field)?.kind.atom())
        }
    }

    #[test]
    fn every_type_that_the_table_names_is_in_it() {
        for (name, entry) in TABLE.names.iter().zip(&TABLE.types) {
            assert!(named(name).is_some(), "{name}");
            for field in entry.patches.keys() {
                assert!(entry.list_type(field).is_some(), "{name}.{field}");
            }
        }
    }

    #[track_caller]
    fn known(group: &str, name: &str) -> &'static Struct {
        kind(group, name).unwrap().structure().unwrap()
    }

    #[test]
    fn list_types_and_patch_strategies_are_facts_of_their_own() {
        let account = known("", "ServiceAccount");
        assert_eq!(account.patch("secrets"), Some(Patch::Key("name")));
        assert_eq!(account.patch("imagePullSecrets"), None);
        assert_eq!(
            account.list_type("imagePullSecrets"),
            Some(ListType::Atomic)
        );
        let meta = account.below("metadata").unwrap();
        assert_eq!(meta.patch("finalizers"), Some(Patch::Set));
        assert_eq!(meta.list_type("finalizers"), Some(ListType::Set));
        let reference = meta.below("ownerReferences").unwrap();
        assert!(reference.is_atomic() && reference.fields().count() == 6);
        let request = known("certificates.k8s.io", "CertificateSigningRequest");
        let status = request.below("status").unwrap();
        assert_eq!(status.patch("conditions"), None);
        let Some(ListType::Map(keys)) = status.list_type("conditions") else {
            panic!("conditions are no map");
        };
        assert_eq!(keys, ["type"]);
        let reference = named("RoleRef").unwrap().structure();
        assert!(kind("", "Unheard").is_none() && reference.is_atomic());
    }

    #[test]
    fn what_is_always_written_is_in_an_object_that_says_nothing() {
        let zero = |group, name| known(group, name).zero();
        assert_eq!(*zero("", "ConfigMap"), json!({}));
        let reference = json!({"apiGroup": "", "kind": "", "name": ""});
        assert_eq!(
            *zero("rbac.authorization.k8s.io", "RoleBinding"),
            json!({"roleRef": reference})
        );
        assert_eq!(
            zero("events.k8s.io", "Event")["deprecatedSource"],
            json!({})
        );
        assert_eq!(zero("", "Event")["reportingComponent"], "");
    }
}
