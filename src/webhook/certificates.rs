//! The certificate of the webhook: the control plane creates it, keeps it in a Secret that all replicas share, and renews it in time.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, date_time_ymd,
};
use serde_json::{Value, json};

/// The lifetime of a certificate, and the time of its replacement.
const VALID: SignedDuration = SignedDuration::from_hours(24 * 365);
const RENEWED: SignedDuration = SignedDuration::from_hours(24 * 240);
/// Clocks may differ by that much.
const BEFORE: SignedDuration = SignedDuration::from_hours(24);

/// The annotations of the Secret, without their domain.
const RENEW_AFTER: &str = "renew-after";
const NAMES: &str = "names";
const END: &str = "-----END CERTIFICATE-----\n";

/// A certificate with its key, and the authorities that clients have to trust, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookCertificate {
    /// The authority that signed the certificate, then the one of the certificate before.
    pub authorities: String,
    pub chain: String,
    pub key: String,
}

impl WebhookCertificate {
    /// Makes a certificate for these names, signed by an authority whose key is forgotten.
    pub fn issue(subject: &str, names: &[String], now: Timestamp) -> Result<Self, rcgen::Error> {
        let day = |at: Timestamp| {
            let date = at.to_zoned(TimeZone::UTC).date();
            let (month, day) = (date.month().unsigned_abs(), date.day().unsigned_abs());
            date_time_ymd(date.year().into(), month, day)
        };
        let valid = |params: &mut CertificateParams, name: &str| {
            params.distinguished_name.push(DnType::CommonName, name);
            params.not_before = day(now - BEFORE);
            params.not_after = day(now + VALID);
        };
        let mut authority = CertificateParams::default();
        valid(&mut authority, &format!("{subject}-ca"));
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
        let mut server = CertificateParams::new(names)?;
        valid(&mut server, subject);
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        server.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let chain = server.signed_by(&key, &authority)?.pem();
        Ok(Self {
            authorities: authority.pem(),
            chain,
            key: key.serialize_pem(),
        })
    }

    /// The certificate in a Secret, if it is for these names.
    pub fn of_secret(secret: &Value, domain: &str, names: &[String]) -> Option<Self> {
        let text = |key: &str| {
            let bytes = STANDARD.decode(secret["data"][key].as_str()?).ok()?;
            String::from_utf8(bytes).ok()
        };
        let annotations = &secret["metadata"]["annotations"];
        (annotations[annotation(domain, NAMES)].as_str() == Some(&names.join(","))).then_some(())?;
        Some(Self {
            authorities: text("ca.crt")?,
            chain: text("tls.crt")?,
            key: text("tls.key")?,
        })
    }

    /// Whether the certificate in a Secret has to be replaced.
    pub fn is_due(secret: &Value, domain: &str, now: Timestamp) -> bool {
        let after = secret["metadata"]["annotations"][annotation(domain, RENEW_AFTER)].as_str();
        let after = after.and_then(|text| text.parse::<Timestamp>().ok());
        after.is_none_or(|after| after <= now)
    }

    /// Trusts the authority of the certificate before as well: others may serve it for a while.
    pub fn follow(&mut self, before: &Self) {
        let first = before.authorities.split_inclusive(END).next();
        self.authorities.push_str(first.unwrap_or_default());
    }

    /// The authorities as configurations have them.
    pub fn bundle(&self) -> String {
        STANDARD.encode(&self.authorities)
    }

    /// The fields of the Secret.
    pub fn secret(&self, domain: &str, names: &[String], now: Timestamp) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
            "metadata": {"annotations": {
                annotation(domain, NAMES): names.join(","),
                annotation(domain, RENEW_AFTER): (now + RENEWED).to_string(),
            }},
            "data": {
                "ca.crt": STANDARD.encode(&self.authorities),
                "tls.crt": STANDARD.encode(&self.chain),
                "tls.key": STANDARD.encode(&self.key),
            },
        })
    }
}

fn annotation(domain: &str, name: &str) -> String {
    format!("{domain}/{name}")
}

#[cfg(test)]
mod tests {
    use hawser_runtime::process::serve::server_config;

    use super::*;

    #[test]
    fn a_certificate_is_kept_until_it_is_due_and_then_follows_the_former() {
        let names = ["a.b.svc".to_owned(), "127.0.0.1".to_owned()];
        let now = Timestamp::now();
        let made = WebhookCertificate::issue("s", &names, now).unwrap();
        server_config(made.chain.as_bytes(), made.key.as_bytes()).unwrap();
        let secret = made.secret("d", &names, now);
        let found = WebhookCertificate::of_secret(&secret, "d", &names);
        assert_eq!(found.as_ref(), Some(&made));
        assert_eq!(
            WebhookCertificate::of_secret(&secret, "d", &names[..1]),
            None
        );
        assert_eq!(WebhookCertificate::of_secret(&json!({}), "d", &names), None);
        assert!(!WebhookCertificate::is_due(&secret, "d", now));
        assert!(WebhookCertificate::is_due(&secret, "d", now + RENEWED));
        assert!(WebhookCertificate::is_due(&json!({}), "d", now));

        let mut second = WebhookCertificate::issue("s", &names, now).unwrap();
        second.follow(&made);
        let mut third = WebhookCertificate::issue("s", &names, now).unwrap();
        third.follow(&second);
        assert!(second.authorities.ends_with(&made.authorities));
        assert_eq!(
            third.authorities.matches(END).count(),
            2,
            "no more than two"
        );
        assert!(!third.authorities.contains(&made.authorities));
    }
}
