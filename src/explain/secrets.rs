//! The contents of Secrets, which are not shown: those of Secrets, and of the objects that are copied to or from a
//! Secret. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use hawser_sync::link::Link;
use hawser_sync::{Key, LinkId, Subject};
use kube_lang::object::Gvk;

/// The value in place of a secret one.
const REDACTED: &str = "(hidden)";

/// The kinds and links of a subject that carry contents of Secrets.
#[derive(Debug, Default)]
pub struct SecretLinks {
    kinds: BTreeSet<Arc<Gvk>>,
    /// Each with its source.
    links: BTreeMap<LinkId, Key>,
}

impl SecretLinks {
    /// The kinds between which Secrets are copied, if one of them is a Secret.
    pub fn between(kinds: [&Arc<Gvk>; 2]) -> Self {
        let mut secrets = Self::default();
        secrets.note_kinds(kinds);
        secrets
    }

    /// Notes the links of a subject. They stay, even if later rounds of its pass lack them.
    pub(super) fn note(&mut self, subject: &Subject) {
        for Link {
            id, source, target, ..
        } in &subject.links
        {
            if let Some(source) = source.key()
                && self.note_kinds([&source.kind, &target.scope().kind])
            {
                self.links.insert(id.clone(), source.clone());
            }
        }
    }

    fn note_kinds(&mut self, kinds: [&Arc<Gvk>; 2]) -> bool {
        let is_secret = kinds.iter().any(|kind| is_secret(kind));
        if is_secret {
            self.kinds.extend(kinds.map(Arc::clone));
        }
        is_secret
    }

    /// Whether a link carries contents of Secrets.
    pub(super) fn has_links(&self) -> bool {
        !self.links.is_empty()
    }

    /// The source of a link that carries contents of Secrets.
    pub(super) fn source(&self, link: &LinkId) -> Option<&Key> {
        self.links.get(link)
    }

    /// Whether objects of this kind have secret contents.
    pub(super) fn has(&self, kind: &Arc<Gvk>) -> bool {
        is_secret(kind) || self.kinds.contains(kind)
    }

    /// Whether a field of the top level has them. A mutation may have put them anywhere into an object that is no Secret.
    fn hides(&self, kind: &Arc<Gvk>, field: &str) -> bool {
        match field {
            "apiVersion" | "kind" | "metadata" => false,
            _ if is_secret(kind) => ["data", "stringData"].contains(&field),
            _ => self.kinds.contains(kind),
        }
    }

    /// An object or a merge patch without secret values.
    pub(super) fn redacted(&self, kind: &Arc<Gvk>, mut object: Value) -> Value {
        for (field, value) in object.as_object_mut().into_iter().flatten() {
            self.redact(kind, field, value);
        }
        object
    }

    /// Hides the values of a field of the top level, or of a part of it.
    pub(super) fn redact(&self, kind: &Arc<Gvk>, field: &str, value: &mut Value) {
        match value {
            _ if !self.hides(kind, field) => {}
            // Null deletes a key.
            Value::Object(fields) => fields
                .values_mut()
                .filter(|value| !value.is_null())
                .for_each(|value| *value = REDACTED.into()),
            // The deletion of the field.
            Value::Null => {}
            value => *value = REDACTED.into(),
        }
    }
}

fn is_secret(kind: &Gvk) -> bool {
    kind.group.is_empty() && kind.kind == "Secret"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kinds() -> [Arc<Gvk>; 3] {
        [
            Gvk::new("", "v1", "Secret"),
            Gvk::new("example.com", "v1", "Credential"),
            Gvk::new("", "v1", "ConfigMap"),
        ]
        .map(Arc::new)
    }

    #[test]
    fn the_other_kind_of_a_link_with_a_secret_shows_nothing_but_its_metadata() {
        let [secret, credential, config] = kinds();
        let secrets = SecretLinks::between([&secret, &credential]);
        let shown = |kind: &Arc<Gvk>, field: &str, value: Value| {
            let mut value = value;
            secrets.redact(kind, field, &mut value);
            value
        };
        let hidden = json!({"a": REDACTED, "b": REDACTED});
        let values = json!({"a": "x", "b": {"c": "x"}});
        for (kind, field) in [
            (&secret, "data"),
            (&secret, "stringData"),
            (&credential, "data"),
            (&credential, "spec"),
            (&credential, "status"),
        ] {
            assert_eq!(shown(kind, field, values.clone()), hidden, "{field}");
            assert_eq!(shown(kind, field, json!(["x"])), REDACTED);
            assert_eq!(shown(kind, field, Value::Null), Value::Null);
        }
        for (kind, field) in [
            (&secret, "type"),
            (&secret, "metadata"),
            (&credential, "metadata"),
            (&config, "data"),
        ] {
            assert_eq!(shown(kind, field, values.clone()), values, "{field}");
        }
    }

    #[test]
    fn a_link_without_a_secret_hides_no_other_kind() {
        let [secret, credential, config] = kinds();
        let secrets = SecretLinks::between([&credential, &config]);
        assert!(secrets.has(&secret));
        assert!(!secrets.has(&credential) && !secrets.has(&config));
    }
}
