//! Google accounts from a file: the key of a service account, or the login of a person. Knows the files and the
//! requests to a token endpoint; sends nothing.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use rustls::SignatureScheme;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use serde::Deserialize;
use serde_json::json;

/// The scope of the token.
const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
const TOKENS: &str = "https://oauth2.googleapis.com/token";
/// The lifetime of a signed request, in seconds.
const ASSERTION_LIFETIME: i64 = 3600;

/// The content of the file.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Account {
    ServiceAccount {
        client_email: String,
        private_key: String,
        #[serde(default)]
        private_key_id: String,
        token_uri: Option<String>,
    },
    AuthorizedUser {
        client_id: String,
        client_secret: String,
        refresh_token: String,
    },
}

/// The request, and its URL.
#[derive(Debug, PartialEq, Eq)]
pub struct TokenRequest {
    pub url: String,
    /// The body, as a form.
    pub body: String,
}

#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    #[error("it contains neither a service account key nor user credentials")]
    Form(#[source] serde_json::Error),
    #[error("its private key cannot be read")]
    Key,
    #[error("its private key cannot sign with RS256")]
    Sign,
}

impl Account {
    pub fn read(file: &[u8]) -> Result<Self, AccountError> {
        serde_json::from_slice(file).map_err(AccountError::Form)
    }

    pub fn ask(&self, now: Timestamp) -> Result<TokenRequest, AccountError> {
        let mut form = form_urlencoded::Serializer::new(String::new());
        let url = match self {
            Self::ServiceAccount { token_uri, .. } => {
                let url = token_uri.as_deref().unwrap_or(TOKENS);
                form.append_pair("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer");
                form.append_pair("assertion", &self.assertion(url, now)?);
                url
            }
            Self::AuthorizedUser {
                client_id,
                client_secret,
                refresh_token,
            } => {
                form.append_pair("grant_type", "refresh_token");
                form.append_pair("client_id", client_id);
                form.append_pair("client_secret", client_secret);
                form.append_pair("refresh_token", refresh_token);
                TOKENS
            }
        };
        Ok(TokenRequest {
            url: url.to_owned(),
            body: form.finish(),
        })
    }

    /// The signed claims of the account.
    fn assertion(&self, audience: &str, now: Timestamp) -> Result<String, AccountError> {
        let Self::ServiceAccount {
            client_email,
            private_key,
            private_key_id,
            ..
        } = self
        else {
            return Err(AccountError::Sign);
        };
        let key = PrivateKeyDer::from_pem_slice(private_key.as_bytes());
        let key = any_supported_type(&key.map_err(|_| AccountError::Key)?);
        let key = key.map_err(|_| AccountError::Key)?;
        let signer = key.choose_scheme(&[SignatureScheme::RSA_PKCS1_SHA256]);
        let signer = signer.ok_or(AccountError::Sign)?;
        let header = json!({"alg": "RS256", "typ": "JWT", "kid": private_key_id});
        let at = now.as_second();
        let claims = json!({
            "iss": client_email, "scope": SCOPE, "aud": audience, "iat": at, "exp": at + ASSERTION_LIFETIME,
        });
        let part = |text: String| URL_SAFE_NO_PAD.encode(text);
        let said = format!("{}.{}", part(header.to_string()), part(claims.to_string()));
        let signature = signer.sign(said.as_bytes());
        let signature = signature.map_err(|_| AccountError::Sign)?;
        Ok(format!("{said}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::SubjectPublicKeyInfoDer;
    use serde_json::Value;

    use super::*;

    const KEY: &str = include_str!("../../../tests/data/mirror/account.json");

    fn now() -> Timestamp {
        Timestamp::from_second(1_700_000_000).unwrap()
    }

    fn pairs(form: &str) -> Vec<(String, String)> {
        form_urlencoded::parse(form.as_bytes())
            .into_owned()
            .collect()
    }

    #[test]
    fn a_service_account_says_who_it_is_and_signs_it() {
        let ask = Account::read(KEY.as_bytes()).unwrap().ask(now()).unwrap();
        assert_eq!(ask.url, "https://oauth2.googleapis.com/token");
        let pairs = pairs(&ask.body);
        let grant = "urn:ietf:params:oauth:grant-type:jwt-bearer";
        assert_eq!(pairs[0], ("grant_type".into(), grant.into()));
        let [header, claims, signature]: [&str; 3] = {
            let parts: Vec<_> = pairs[1].1.split('.').collect();
            parts.try_into().unwrap()
        };
        let read = |part: &str| -> Value {
            serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
        };
        assert_eq!(
            read(header),
            json!({"alg": "RS256", "typ": "JWT", "kid": "k1"})
        );
        assert_eq!(
            read(claims),
            json!({
                "iss": "robots@project.iam.gserviceaccount.com", "scope": SCOPE,
                "aud": "https://oauth2.googleapis.com/token", "iat": 1_700_000_000, "exp": 1_700_003_600,
            })
        );
        // It is good for this text, by the public half of the key.
        let key: Value = serde_json::from_str(KEY).unwrap();
        assert_eq!(
            verify(&key, &format!("{header}.{claims}"), signature),
            Ok(())
        );
        assert!(verify(&key, &format!("{header}.{claims}x"), signature).is_err());
    }

    /// Whether the signature fits the public half of the key.
    fn verify(key: &Value, said: &str, signature: &str) -> Result<(), String> {
        let pem = key["private_key"].as_str().unwrap();
        let key = PrivateKeyDer::from_pem_slice(pem.as_bytes()).unwrap();
        let key = any_supported_type(&key).unwrap();
        let public = key.public_key().unwrap();
        let public: &SubjectPublicKeyInfoDer<'_> = &public;
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
        let algorithms = rustls::crypto::ring::default_provider().signature_verification_algorithms;
        let scheme = SignatureScheme::RSA_PKCS1_SHA256;
        let (_, all) = algorithms
            .mapping
            .iter()
            .find(|(of, _)| *of == scheme)
            .unwrap();
        // The bits of the key, without what says of which kind it is.
        let bits = bits(public.as_ref());
        all[0]
            .verify_signature(bits, said.as_bytes(), &signature)
            .map_err(|error| format!("{error:?}"))
    }

    /// The bit string at the end of the public half: after an outer sequence and the algorithm.
    fn bits(der: &[u8]) -> &[u8] {
        fn inside(der: &[u8]) -> (&[u8], &[u8]) {
            let (long, start) = match der[1] {
                short @ 0..=0x7f => (usize::from(short), 2),
                0x81 => (usize::from(der[2]), 3),
                _ => ((usize::from(der[2]) << 8) | usize::from(der[3]), 4),
            };
            (&der[start..start + long], &der[start + long..])
        }
        let (_, rest) = inside(inside(der).0);
        &inside(rest).0[1..]
    }

    #[test]
    fn a_user_who_logged_in_is_asked_for_by_what_was_left() {
        let file = r#"{"type": "authorized_user", "client_id": "i", "client_secret": "s&", "refresh_token": "r"}"#;
        let ask = Account::read(file.as_bytes()).unwrap().ask(now()).unwrap();
        assert_eq!(ask.url, TOKENS);
        let expected = [
            ("grant_type", "refresh_token"),
            ("client_id", "i"),
            ("client_secret", "s&"),
            ("refresh_token", "r"),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(pairs(&ask.body), expected);
    }

    #[test]
    fn what_is_no_account_is_refused_by_what_is_wrong_with_it() {
        for file in ["", "{}", r#"{"type": "external_account"}"#] {
            let refused = Account::read(file.as_bytes());
            assert!(matches!(refused, Err(AccountError::Form(_))), "{file}");
        }
        let mut key: Value = serde_json::from_str(KEY).unwrap();
        key["private_key"] = "no key".into();
        let account = Account::read(key.to_string().as_bytes()).unwrap();
        assert!(matches!(account.ask(now()), Err(AccountError::Key)));
        let other = rcgen::KeyPair::generate().unwrap().serialize_pem();
        key["private_key"] = other.into();
        let account = Account::read(key.to_string().as_bytes()).unwrap();
        assert!(matches!(account.ask(now()), Err(AccountError::Sign)));
    }
}
