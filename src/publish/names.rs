//! The names that an API server accepts, so that an invalid one is refused before anything is sent.

/// Whether this is a DNS-1123 subdomain: at most 253 bytes in total, labels of any length.
pub fn is_subdomain(name: &str) -> bool {
    name.len() <= 253 && name.split('.').all(is_label_text)
}

/// Whether this is a DNS-1123 label of at most 63 bytes, as names of namespaces are.
pub fn is_label(name: &str) -> bool {
    name.len() <= 63 && is_label_text(name)
}

fn is_label_text(label: &str) -> bool {
    let alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = label.as_bytes();
    bytes.first().is_some_and(alphanumeric)
        && bytes.last().is_some_and(alphanumeric)
        && bytes.iter().all(|byte| alphanumeric(byte) || *byte == b'-')
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn names_are_accepted_and_refused_as_by_the_api_server() {
        let golden: Value =
            serde_json::from_str(include_str!("../../tests/data/names.json")).unwrap();
        let cases = golden["cases"].as_array().unwrap();
        assert!(cases.len() > 10);
        for case in cases {
            let name = case["name"].as_str().unwrap();
            let want = &case["want"];
            assert_eq!(want["dns1123_subdomain"], is_subdomain(name), "{name:?}");
            assert_eq!(want["dns1123_label"], is_label(name), "{name:?}");
        }
    }
}
