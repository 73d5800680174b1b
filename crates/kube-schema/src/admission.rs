//! Admission webhooks: their addresses, and their answers to API servers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// The address of a webhook, as API servers know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebhookAddress {
    Service {
        namespace: String,
        name: String,
        port: u16,
    },
    /// A URL without a path.
    Url(String),
}

impl WebhookAddress {
    /// The DNS names and addresses that the certificate has to cover.
    pub fn names(&self) -> Vec<String> {
        match self {
            Self::Service {
                namespace, name, ..
            } => vec![
                format!("{name}.{namespace}.svc"),
                format!("{name}.{namespace}.svc.cluster.local"),
            ],
            Self::Url(url) => {
                let host = url.split_once("://").map_or(&**url, |(_, host)| host);
                let host = host.split('/').next().unwrap_or_default();
                // A port follows the last colon, except within the brackets of an IPv6 address.
                let host = match host.rsplit_once(':') {
                    Some((host, port)) if !port.contains(']') => host,
                    _ => host,
                };
                vec![host.trim_matches(['[', ']']).to_owned()]
            }
        }
    }

    /// The `clientConfig` of a path of the webhook; `bundle` is the CA bundle in base64.
    pub fn client(&self, path: &str, bundle: &str) -> Value {
        match self {
            Self::Service {
                namespace,
                name,
                port,
            } => json!({
                "caBundle": bundle,
                "service": {"namespace": namespace, "name": name, "path": path, "port": port},
            }),
            Self::Url(url) => json!({"caBundle": bundle, "url": format!("{url}{path}")}),
        }
    }
}

/// The answer of a webhook to a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    Allowed,
    /// Allowed with a JSON patch.
    Patched(Value),
    /// The object is invalid.
    Denied(String),
    /// The request cannot be read.
    Unreadable(String),
    /// The webhook cannot decide now.
    Unavailable(String),
}

/// The answer to an `AdmissionReview`: 403 for an invalid object, 400 for an undecodable one.
pub fn answer(review: &Value, verdict: Verdict) -> Value {
    let uid = review["request"]["uid"].as_str().unwrap_or_default();
    let mut response = json!({"uid": uid});
    let (code, reason, message) = match verdict {
        Verdict::Allowed => (200, "", String::new()),
        Verdict::Patched(patch) => {
            response["patchType"] = "JSONPatch".into();
            response["patch"] = STANDARD.encode(patch.to_string()).into();
            (200, "", String::new())
        }
        Verdict::Denied(message) => (403, "Forbidden", message),
        Verdict::Unreadable(message) => (400, "BadRequest", message),
        Verdict::Unavailable(message) => (503, "ServiceUnavailable", message),
    };
    response["allowed"] = (code == 200).into();
    if code != 200 {
        response["status"] =
            json!({"status": "Failure", "reason": reason, "code": code, "message": message});
    }
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_for_the_service_or_for_the_host_of_the_url() {
        let service = WebhookAddress::Service {
            namespace: "ns".into(),
            name: "s".into(),
            port: 443,
        };
        assert_eq!(service.names(), ["s.ns.svc", "s.ns.svc.cluster.local"]);
        assert_eq!(service.client("/p", "Y2E=")["service"]["path"], "/p");
        for (url, name) in [
            ("https://127.0.0.1:5", "127.0.0.1"),
            ("https://[::1]:5", "::1"),
            ("https://[::1]", "::1"),
            ("https://a.b/c", "a.b"),
        ] {
            assert_eq!(WebhookAddress::Url(url.into()).names(), [name]);
        }
        let url = WebhookAddress::Url("https://127.0.0.1:5".into());
        assert_eq!(url.client("/p", "")["url"], "https://127.0.0.1:5/p");
    }

    #[test]
    fn an_answer_has_the_uid_of_its_request_and_says_why_not() {
        let review = json!({"request": {"uid": "u"}});
        let denied = answer(&review, Verdict::Denied("no".into()));
        assert_eq!(denied["response"]["uid"], "u");
        assert_eq!(denied["response"]["allowed"], false);
        assert_eq!(denied["response"]["status"]["code"], 403);
        let allowed = answer(&review, Verdict::Allowed);
        assert_eq!(allowed["response"], json!({"uid": "u", "allowed": true}));
    }
}
