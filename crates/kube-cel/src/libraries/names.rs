//! Named formats of names, such as `format.dns1123Label()`.

use kube_lang::{formats, names};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedFormat(&'static str);

const NAMES: [&str; 13] = [
    "dns1123Label",
    "dns1123Subdomain",
    "dns1035Label",
    "qualifiedName",
    "dns1123LabelPrefix",
    "dns1123SubdomainPrefix",
    "dns1035LabelPrefix",
    "labelValue",
    "uri",
    "uuid",
    "byte",
    "date",
    "datetime",
];

impl NamedFormat {
    pub(crate) fn find(name: &str) -> Option<Self> {
        NAMES
            .iter()
            .find(|known| **known == name)
            .map(|name| Self(name))
    }

    /// The complaints about a text.
    pub(crate) fn complaints(self, text: &str) -> Vec<String> {
        // A prefix may end where a name may not: what is to follow completes it.
        let prefix = || {
            let mut whole = text.to_owned();
            if whole.ends_with('-') {
                whole.pop();
                whole.push('a');
            }
            whole
        };
        let format = |name: &str, complaint: &str| {
            if formats::checker(name).is_none_or(|accepts| accepts(text)) {
                Vec::new()
            } else {
                vec![complaint.to_owned()]
            }
        };
        match self.0 {
            "dns1123Label" => names::dns1123_label(text),
            "dns1123Subdomain" => names::dns1123_subdomain(text),
            "dns1035Label" => names::dns1035_label(text),
            "qualifiedName" => names::qualified_name(text),
            "dns1123LabelPrefix" => names::dns1123_label(&prefix()),
            "dns1123SubdomainPrefix" => names::dns1123_subdomain(&prefix()),
            "dns1035LabelPrefix" => names::dns1035_label(&prefix()),
            "labelValue" => names::label_value(text),
            "uri" => format("uri", "invalid URI"),
            "uuid" => format("uuid", "does not match the UUID format"),
            "byte" => format("byte", "invalid base64"),
            "date" => format("date", "invalid date"),
            _ => format("datetime", "invalid datetime"),
        }
    }
}
