//! Validation of names and labels of Kubernetes objects, with the messages that apimachinery gives. Each check
//! returns all complaints; none means valid.

const MAX_LABEL: usize = 63;
const MAX_SUBDOMAIN: usize = 253;

const LABEL_1123: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN_1123: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED_PART: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const QUALIFIED_WHOLE: &str = "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// The rule that the names of a resource follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    Dns1123Label,
    Dns1123Subdomain,
    Dns1035Label,
    /// Anything that can be one segment of a URL path.
    PathSegment,
}

impl NameRule {
    /// Complaints about a whole name.
    pub fn check(self, name: &str) -> Vec<String> {
        match self {
            Self::Dns1123Label => dns1123_label(name),
            Self::Dns1123Subdomain => dns1123_subdomain(name),
            Self::Dns1035Label => dns1035_label(name),
            Self::PathSegment => path_segment(name),
        }
    }

    /// Complaints about the `generateName` of an object: a dash at its end will be followed by more.
    pub fn check_prefix(self, prefix: &str) -> Vec<String> {
        if self == Self::PathSegment {
            return path_segment_content(prefix);
        }
        // A letter in place of the dash and of what is before it leaves the rest of the rule as it is.
        match prefix.strip_suffix('-') {
            Some(stem) if !stem.is_empty() => {
                let mut masked = stem.to_owned();
                masked.pop();
                masked.push('a');
                self.check(&masked)
            }
            _ => self.check(prefix),
        }
    }
}

/// Whether a domain is reserved for the Kubernetes community: `k8s.io`, `kubernetes.io` and what is below them.
pub fn is_community_domain(domain: &str) -> bool {
    ["k8s.io", "kubernetes.io"].iter().any(|reserved| {
        let rest = domain.strip_suffix(reserved);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    })
}

fn too_long(max: usize) -> String {
    format!("must be no more than {max} characters")
}

/// The same of what is counted in bytes: the parts of labels.
fn too_many_bytes(max: usize) -> String {
    format!("must be no more than {max} bytes")
}

fn lower_or_digit(c: u8) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit()
}

fn is_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else {
        return false;
    };
    lower_or_digit(*first)
        && lower_or_digit(*last)
        && bytes.iter().all(|c| lower_or_digit(*c) || *c == b'-')
}

fn is_name_part(text: &str) -> bool {
    let bytes = text.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else {
        return false;
    };
    first.is_ascii_alphanumeric()
        && last.is_ascii_alphanumeric()
        && bytes
            .iter()
            .all(|c| c.is_ascii_alphanumeric() || b"-_.".contains(c))
}

pub fn dns1123_label(name: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if name.len() > MAX_LABEL {
        errors.push(too_long(MAX_LABEL));
    }
    if !is_label(name) {
        if name.contains('.') && name.split('.').all(is_label) {
            // A subdomain where a label is wanted: the simpler message helps more.
            errors.push("must not contain dots".to_owned());
        } else {
            errors.push(LABEL_1123.to_owned());
        }
    }
    errors
}

pub fn dns1123_subdomain(name: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if name.len() > MAX_SUBDOMAIN {
        errors.push(too_long(MAX_SUBDOMAIN));
    }
    if !name.split('.').all(is_label) {
        errors.push(SUBDOMAIN_1123.to_owned());
    }
    errors
}

pub fn dns1035_label(name: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if name.len() > MAX_LABEL {
        errors.push(too_long(MAX_LABEL));
    }
    if !is_label(name) || !name.starts_with(|c: char| c.is_ascii_lowercase()) {
        errors.push(LABEL_1035.to_owned());
    }
    errors
}

pub fn path_segment(name: &str) -> Vec<String> {
    if name == "." || name == ".." {
        return vec![format!("may not be '{name}'")];
    }
    path_segment_content(name)
}

fn path_segment_content(name: &str) -> Vec<String> {
    ["/", "%"]
        .into_iter()
        .filter(|bad| name.contains(bad))
        .map(|bad| format!("may not contain '{bad}'"))
        .collect()
}

/// A label key: `name` or `prefix/name`.
pub fn qualified_name(name: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let parts: Vec<&str> = name.split('/').collect();
    let part = match parts.as_slice() {
        [part] => part,
        [prefix, part] => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else {
                errors.extend(
                    dns1123_subdomain(prefix)
                        .into_iter()
                        .map(|e| format!("prefix part {e}")),
                );
            }
            part
        }
        _ => return vec![QUALIFIED_WHOLE.to_owned()],
    };
    if part.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if part.len() > MAX_LABEL {
        errors.push(format!("name part {}", too_many_bytes(MAX_LABEL)));
    }
    if !is_name_part(part) {
        errors.push(format!("name part {QUALIFIED_PART}"));
    }
    errors
}

pub fn label_value(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > MAX_LABEL {
        errors.push(too_many_bytes(MAX_LABEL));
    }
    if !value.is_empty() && !is_name_part(value) {
        errors.push(LABEL_VALUE.to_owned());
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn every_golden_name_gets_the_answer_and_the_messages_of_apimachinery() {
        let golden: Value =
            serde_json::from_str(include_str!("../../../tests/data/names.json")).unwrap();
        let cases = golden["cases"].as_array().unwrap();
        assert!(cases.len() > 20);
        for case in cases {
            let name = case["name"].as_str().unwrap();
            for (rule, got) in [
                ("dns1123_subdomain", dns1123_subdomain(name)),
                ("dns1123_label", dns1123_label(name)),
                ("dns1035_label", dns1035_label(name)),
                ("label_value", label_value(name)),
                ("qualified_name", qualified_name(name)),
            ] {
                assert_eq!(json!(got.is_empty()), case["want"][rule], "{rule} {name:?}");
                assert_eq!(json!(got), case["messages"][rule], "{rule} {name:?}");
            }
        }
    }

    #[test]
    fn a_generated_name_may_end_in_a_dash() {
        assert!(NameRule::Dns1123Subdomain.check_prefix("web-").is_empty());
        assert!(!NameRule::Dns1123Subdomain.check_prefix("Web-").is_empty());
        assert!(!NameRule::Dns1123Subdomain.check("web-").is_empty());
        assert!(NameRule::PathSegment.check("a:b").is_empty());
        assert_eq!(NameRule::PathSegment.check(".."), ["may not be '..'"]);
        assert!(NameRule::PathSegment.check_prefix("..").is_empty());
        assert_eq!(
            NameRule::PathSegment.check("a/b%"),
            ["may not contain '/'", "may not contain '%'"]
        );
    }

    #[test]
    fn domains_of_the_community_are_whole_domains_and_what_is_below_them() {
        for domain in ["k8s.io", "things.k8s.io", "a.b.kubernetes.io"] {
            assert!(is_community_domain(domain), "{domain}");
        }
        for domain in ["k8s.io.example.com", "notk8s.io", ""] {
            assert!(!is_community_domain(domain), "{domain}");
        }
    }
}
