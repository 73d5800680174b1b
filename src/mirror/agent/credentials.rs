//! Who the robot is in the cloud: bearer tokens that an endpoint tells, renewed before they end.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use jiff::Timestamp;
use kube::config::AuthInfo;
use serde_json::Value;
use tokio::time::sleep;
use tracing::{debug, warn};

use crate::cluster::connection::{Call, CallError, ConnectError, Connection, Limits};

/// What an endpoint answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A signed token as it is, which says itself when it ends.
    Jwt,
    /// A document with a token and how long it lasts.
    AccessToken,
}

#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    #[error("{url:?} is no address of a token endpoint")]
    Address { url: String },
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("the token endpoint does not answer: {0}")]
    Call(#[from] CallError),
    #[error("the token endpoint answered {0}")]
    Refused(u16),
    #[error("the token endpoint answered no token: {0}")]
    NoToken(&'static str),
    #[error("using the new token")]
    Use(#[source] ConnectError),
}

/// A token is renewed when it lasts no longer than this.
const MARGIN: Duration = Duration::from_mins(1);
/// The first and the longest wait before an endpoint that failed is asked again.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// No token is used for longer, whatever it says.
const LONGEST: Duration = Duration::from_hours(1);

/// A token and how long it lasts.
struct Token {
    text: String,
    lasts: Duration,
}

/// An endpoint that was made up.
pub struct Renewal {
    endpoint: Connection,
    path: String,
    form: Form,
    config: kube::Config,
}

impl Renewal {
    /// For the configuration of the cloud that lacks a token yet.
    pub fn new(url: &str, form: Form, config: kube::Config) -> Result<Self, TokenError> {
        let wrong = || TokenError::Address {
            url: url.to_owned(),
        };
        let uri: http::Uri = url.parse().map_err(|_| wrong())?;
        let path = uri.path_and_query().ok_or_else(wrong)?.as_str().to_owned();
        let origin = format!(
            "{}://{}",
            uri.scheme_str().ok_or_else(wrong)?,
            uri.authority().ok_or_else(wrong)?
        );
        let mut endpoint = kube::Config::new(origin.parse().map_err(|_| wrong())?);
        if form == Form::AccessToken {
            endpoint.headers.push((
                HeaderName::from_static("metadata-flavor"),
                HeaderValue::from_static("Google"),
            ));
        }
        let endpoint = Connection::new(endpoint, Limits::default())?;
        Ok(Self {
            endpoint,
            path,
            form,
            config,
        })
    }

    /// Hands over a connection's credentials again and again, and tells when there are some.
    pub async fn run(self, cloud: Connection, told: impl Fn(Result<(), String>)) {
        let mut pause = PAUSES.0;
        loop {
            match self.renew(&cloud).await {
                Ok(lasts) => {
                    told(Ok(()));
                    debug!(?lasts, "the cloud's token was renewed");
                    pause = PAUSES.0;
                    sleep(lasts.saturating_sub(MARGIN).max(PAUSES.0)).await;
                }
                Err(error) => {
                    let problem = crate::process::logging::chain(&error);
                    warn!(problem, "no token for the cloud, trying again");
                    told(Err(problem));
                    sleep(pause).await;
                    pause = (pause * 2).min(PAUSES.1);
                }
            }
        }
    }

    async fn renew(&self, cloud: &Connection) -> Result<Duration, TokenError> {
        let reply = self.endpoint.call(Call::get(self.path.as_str())).await?;
        if reply.status != 200 {
            return Err(TokenError::Refused(reply.status));
        }
        let token = match self.form {
            Form::Jwt => jwt(&reply.body, Timestamp::now())?,
            Form::AccessToken => access_token(&reply.body)?,
        };
        let mut config = self.config.clone();
        config.auth_info = AuthInfo {
            token: Some(token.text.into()),
            ..AuthInfo::default()
        };
        cloud.renew(config).map_err(TokenError::Use)?;
        Ok(token.lasts)
    }
}

/// The end of a token is read without asking whether the token is right: who takes it asks.
fn jwt(body: &Bytes, now: Timestamp) -> Result<Token, TokenError> {
    let none = TokenError::NoToken;
    let text = std::str::from_utf8(body).map_err(|_| none("it is no text"))?;
    let text = text.trim();
    let claims = text.split('.').nth(1).ok_or(none("it has no claims"))?;
    let claims = URL_SAFE_NO_PAD
        .decode(claims.trim_end_matches('='))
        .map_err(|_| none("its claims cannot be read"))?;
    let claims: Value =
        serde_json::from_slice(&claims).map_err(|_| none("its claims are no document"))?;
    let ends = claims["exp"]
        .as_i64()
        .ok_or(none("it does not say when it ends"))?;
    let left = u64::try_from(ends - now.as_second()).unwrap_or_default();
    if left == 0 {
        return Err(none("it has ended already"));
    }
    Ok(Token {
        text: text.to_owned(),
        lasts: Duration::from_secs(left).min(LONGEST),
    })
}

fn access_token(body: &Bytes) -> Result<Token, TokenError> {
    let none = TokenError::NoToken;
    let document: Value = serde_json::from_slice(body).map_err(|_| none("it is no document"))?;
    let text = document["access_token"].as_str();
    let lasts = document["expires_in"].as_u64().unwrap_or(MARGIN.as_secs());
    Ok(Token {
        text: text.ok_or(none("it has no access_token"))?.to_owned(),
        lasts: Duration::from_secs(lasts).min(LONGEST),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(claims: &str, expected: Result<u64, &str>) {
        let text = format!("e30.{}.c2ln\n", URL_SAFE_NO_PAD.encode(claims));
        let now = Timestamp::from_second(1000).unwrap();
        match (jwt(&text.into(), now), expected) {
            (Ok(token), Ok(seconds)) => {
                assert_eq!(token.lasts.as_secs(), seconds);
                assert!(!token.text.ends_with('\n'));
            }
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (found, expected) => panic!("{:?} is not {expected:?}", found.map(|token| token.lasts)),
        }
    }

    #[test]
    fn a_signed_token_says_when_it_ends() {
        check(r#"{"exp": 1900}"#, Ok(900));
        check(r#"{"exp": 100000000}"#, Ok(LONGEST.as_secs()));
        check(r#"{"exp": 1000}"#, Err("ended already"));
        check(r#"{"sub": "r1"}"#, Err("when it ends"));
        check("[", Err("no document"));
    }

    #[test]
    fn an_access_token_comes_in_a_document() {
        let token = access_token(&r#"{"access_token": "t", "expires_in": 300}"#.into()).unwrap();
        assert_eq!((&*token.text, token.lasts.as_secs()), ("t", 300));
        assert!(access_token(&"{}".into()).is_err());
        assert!(access_token(&"t".into()).is_err());
    }
}
