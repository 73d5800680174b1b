//! Validation of `KubeFedCluster`.

use kube_schema::field::FieldError;
use kube_schema::names::dns1123_subdomain;

use super::field::{named, one_of};
use crate::types::cluster::{KubeFedClusterSpec, KubeFedClusterStatus};

const TLS_SWITCHES: [&str; 3] = ["*", "SubjectName", "ValidityPeriod"];

pub(super) fn check(spec: &KubeFedClusterSpec) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check_endpoint(&mut errors, &spec.api_endpoint);
    let secret = &spec.secret_ref.name;
    named(
        &mut errors,
        "spec.secretRef.name",
        secret,
        dns1123_subdomain,
    );
    check_switches(&mut errors, &spec.disabled_tls_validations);
    let proxy = &spec.proxy_url;
    if !proxy.is_empty() {
        let scheme = proxy.split_once("://").map_or("", |(scheme, _)| scheme);
        let words = ["http", "https", "socks5"];
        if !words.contains(&&*scheme.to_lowercase()) {
            errors.push(FieldError::not_supported("spec.proxyURL", scheme, words));
        }
    }
    errors
}

/// Validates a server address as `kubectl --server` takes it: the scheme may be missing.
fn check_endpoint(errors: &mut Vec<FieldError>, endpoint: &str) {
    let path = "spec.apiEndpoint";
    if endpoint.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    let (scheme, rest) = endpoint.split_once("://").unwrap_or(("https", endpoint));
    if !["http", "https"].contains(&&*scheme.to_lowercase()) {
        errors.push(FieldError::not_supported(path, scheme, ["http", "https"]));
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let address = authority.rsplit('@').next().unwrap_or_default();
    let (host, port) = match address.rsplit_once(':') {
        // The colons of an IPv6 address stand within brackets.
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (address, None),
    };
    let is_open = host.starts_with('[') != host.ends_with(']');
    if host.is_empty() || host.contains(char::is_whitespace) || is_open {
        errors.push(FieldError::invalid(path, endpoint, "must name a host"));
    }
    if let Some(port) = port
        && !port.parse().is_ok_and(|port: u16| port > 0)
    {
        let detail = "the port must be between 1 and 65535, inclusive";
        errors.push(FieldError::invalid(path, endpoint, detail));
    }
}

fn check_switches(errors: &mut Vec<FieldError>, switches: &[String]) {
    for (index, switch) in switches.iter().enumerate() {
        let path = format!("spec.disabledTLSValidations[{index}]");
        if !TLS_SWITCHES.contains(&&**switch) {
            errors.push(FieldError::not_supported(
                path,
                switch.as_str(),
                TLS_SWITCHES,
            ));
        } else if switch == "*" && switches.len() > 1 {
            let detail = "when * is specified, it is expected to be the only option in the list";
            errors.push(FieldError::invalid(path, switch.as_str(), detail));
        }
    }
}

pub(super) fn check_status(status: &KubeFedClusterStatus) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, condition) in status.conditions.iter().enumerate() {
        let path = |field: &str| format!("status.conditions[{index}].{field}");
        let types = ["Ready", "Offline", "ConfigMalformed"];
        one_of(&mut errors, &path("type"), &condition.type_, &types);
        let words = ["True", "False", "Unknown"];
        one_of(&mut errors, &path("status"), &condition.status, &words);
        if condition.last_probe_time.is_empty() {
            errors.push(FieldError::required(path("lastProbeTime"), ""));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use kube_schema::field::aggregate;

    use super::*;
    use crate::types::cluster::SecretReference;

    fn told(change: impl Fn(&mut KubeFedClusterSpec)) -> String {
        let mut spec = KubeFedClusterSpec {
            api_endpoint: "https://example.com:6443".to_owned(),
            secret_ref: SecretReference {
                name: "c1-token".to_owned(),
            },
            ..KubeFedClusterSpec::default()
        };
        change(&mut spec);
        let errors = check(&spec);
        if errors.is_empty() {
            String::new()
        } else {
            aggregate(&errors)
        }
    }

    #[test]
    fn endpoints_are_read_as_kubectl_reads_them() {
        for (endpoint, wanted) in [
            ("https://example.com", ""),
            ("http://10.0.0.1:80/path", ""),
            ("example.com", ""),
            ("example.com:443", ""),
            ("https://[::1]:6443", ""),
            ("https://[::1]", ""),
            ("HTTPS://example.com", ""),
            (
                "https://[::1:6443",
                "spec.apiEndpoint: Invalid value: \"https://[::1:6443\": must name a host",
            ),
            ("", "spec.apiEndpoint: Required value"),
            (
                "ftp://a",
                "spec.apiEndpoint: Unsupported value: \"ftp\": supported values: \"http\", \"https\"",
            ),
            (
                "https://:443",
                "spec.apiEndpoint: Invalid value: \"https://:443\": must name a host",
            ),
            (
                "a:0",
                "spec.apiEndpoint: Invalid value: \"a:0\": the port must be between 1 and 65535, inclusive",
            ),
            (
                "https://a:65536",
                "spec.apiEndpoint: Invalid value: \"https://a:65536\": the port must be between 1 and 65535, inclusive",
            ),
        ] {
            assert_eq!(
                told(|spec| endpoint.clone_into(&mut spec.api_endpoint)),
                wanted
            );
        }
    }

    #[test]
    fn switches_and_proxies_are_those_that_exist() {
        let switches = |list: &[&str]| {
            let list: Vec<String> = list.iter().map(|&s| s.to_owned()).collect();
            told(|spec| spec.disabled_tls_validations.clone_from(&list))
        };
        assert_eq!(switches(&["*"]), "");
        assert_eq!(switches(&["SubjectName", "ValidityPeriod"]), "");
        assert_eq!(
            switches(&["Odd"]),
            "spec.disabledTLSValidations[0]: Unsupported value: \"Odd\": supported values: \"*\", \"SubjectName\", \"ValidityPeriod\""
        );
        assert_eq!(
            switches(&["SubjectName", "*"]),
            "spec.disabledTLSValidations[1]: Invalid value: \"*\": when * is specified, it is expected to be the only option in the list"
        );
        let proxy = |url: &str| told(|spec| url.clone_into(&mut spec.proxy_url));
        assert_eq!(proxy("SOCKS5://a:1080"), "");
        assert_eq!(
            proxy("ftp://a"),
            "spec.proxyURL: Unsupported value: \"ftp\": supported values: \"http\", \"https\", \"socks5\""
        );
        let secret = told(|spec| "Not_A_Name".clone_into(&mut spec.secret_ref.name));
        assert!(secret.starts_with(
            "spec.secretRef.name: Invalid value: \"Not_A_Name\": a lowercase RFC 1123"
        ));
    }
}
