//! The robot's credentials for the cloud: bearer tokens from an endpoint, renewed before they expire. The endpoint is
//! the machine's metadata server, or the one that a file with an account names.

use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Uri};
use jiff::Timestamp;
use kube::config::AuthInfo;
use serde_json::Value;
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use super::account::{Account, AccountError};
use super::way::{Proxies, RouteError};
use hawser_runtime::cluster::connection::{Call, CallError, ConnectError, Connection, Limits};

/// The format of an endpoint's response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenFormat {
    /// A signed token, which contains its expiry.
    Jwt,
    /// A document with a token and its lifetime.
    AccessToken,
}

#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The value is not shown, because it may contain a password.
    #[error("the URL of the token endpoint is invalid: it has to begin with http:// or https://")]
    Address,
    #[error("reading {path}")]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("the account in {path} cannot be used")]
    Account { path: PathBuf, source: AccountError },
    #[error(
        "the token endpoint of the account is not an https URL: credentials are sent by https only"
    )]
    InTheOpen,
    #[error(transparent)]
    CloudRoute(#[from] RouteError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("the token endpoint does not answer: {0}")]
    Call(#[from] CallError),
    #[error("the token endpoint answered {0}")]
    Refused(u16),
    #[error("the response of the token endpoint contains no token: {0}")]
    NoToken(&'static str),
    #[error("the token file {path} {problem}")]
    TokenFile {
        path: PathBuf,
        problem: &'static str,
    },
    #[error(
        "no credentials for the cloud: no metadata server answers at {0}; set --use-robot-jwt, --remote-token-file, --remote-token-url or GOOGLE_APPLICATION_CREDENTIALS"
    )]
    Nowhere(String),
    #[error("using the new token")]
    Use(#[source] ConnectError),
}

/// A token is renewed this long before it expires.
const MARGIN: Duration = Duration::from_mins(1);
/// The first and the longest pause after a failed endpoint.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// The longest use of a token, whatever its lifetime.
const LONGEST: Duration = Duration::from_hours(1);

/// The time limit of the search for a metadata server that is not configured.
const SEARCH: Duration = Duration::from_secs(10);

/// The interval at which a file with a token is read, or an endpoint that returned expired tokens is called.
const LOOK: Duration = Duration::from_secs(10);

/// A token and its lifetime.
struct Token {
    text: String,
    lasts: Duration,
}

/// Renews the tokens of a source.
pub struct Renewal {
    origin: TokenSource,
    config: kube::Config,
}

enum TokenSource {
    Endpoint {
        endpoint: Connection,
        path: String,
        form: TokenFormat,
    },
    /// The token itself, which another program renews.
    File(PathBuf),
    /// Read again each time, because keys are rotated.
    Account { file: PathBuf, proxies: Proxies },
}

/// Server and path of a URL.
fn split(url: &str) -> Result<(Uri, String), TokenError> {
    let uri: Uri = url.parse().map_err(|_| TokenError::Address)?;
    let wrong = || TokenError::Address;
    let path = uri.path_and_query().ok_or_else(wrong)?.as_str().to_owned();
    let origin = format!(
        "{}://{}",
        uri.scheme_str().ok_or_else(wrong)?,
        uri.authority().ok_or_else(wrong)?
    );
    Ok((origin.parse().map_err(|_| wrong())?, path))
}

impl Renewal {
    /// For the configuration of the cloud that lacks a token yet.
    pub fn new(url: &str, form: TokenFormat, config: kube::Config) -> Result<Self, TokenError> {
        let (origin, path) = split(url)?;
        let mut endpoint = kube::Config::new(origin);
        if form == TokenFormat::AccessToken {
            endpoint.headers.push((
                HeaderName::from_static("metadata-flavor"),
                HeaderValue::from_static("Google"),
            ));
        }
        let endpoint = Connection::new(endpoint, Limits::default())?;
        let origin = TokenSource::Endpoint {
            endpoint,
            path,
            form,
        };
        Ok(Self { origin, config })
    }

    /// Reads the token from a file.
    pub fn file(file: PathBuf, config: kube::Config) -> Self {
        let origin = TokenSource::File(file);
        Self { origin, config }
    }

    /// Requests a token for the account in a file.
    pub fn account(
        file: PathBuf,
        config: kube::Config,
        proxies: Proxies,
    ) -> Result<Self, TokenError> {
        // One that is wrong from the beginning is not waited for.
        read(&file)?;
        let origin = TokenSource::Account { file, proxies };
        Ok(Self { origin, config })
    }

    /// Checks whether the endpoint exists. A response that refuses the request comes from something else.
    pub async fn find(&self) -> Result<(), TokenError> {
        let TokenSource::Endpoint { endpoint, path, .. } = &self.origin else {
            return Ok(());
        };
        let searching = async {
            loop {
                let asked = endpoint.call(Call::get(path.as_str())).await;
                if asked.is_ok_and(|reply| reply.status != 403) {
                    return;
                }
                sleep(PAUSES.0).await;
            }
        };
        let nowhere = |_| TokenError::Nowhere(endpoint.url());
        timeout(SEARCH, searching).await.map_err(nowhere)
    }

    /// Renews a connection's credentials repeatedly, and notifies when there are some.
    pub async fn run(self, cloud: Connection, told: impl Fn(Result<(), String>)) {
        let mut pause = PAUSES.0;
        let mut known = String::new();
        loop {
            match self.renew(&cloud, &mut known).await {
                Ok(lasts) => {
                    told(Ok(()));
                    debug!(?lasts, "renewed the token for the cloud");
                    pause = PAUSES.0;
                    sleep(lasts.saturating_sub(MARGIN).max(PAUSES.0)).await;
                }
                Err(error) => {
                    let problem = hawser_runtime::errors::chain(&error);
                    warn!(problem, "no token for the cloud; retrying");
                    told(Err(problem));
                    sleep(pause).await;
                    pause = (pause * 2).min(PAUSES.1);
                }
            }
        }
    }

    async fn token(&self) -> Result<Token, TokenError> {
        match &self.origin {
            TokenSource::Endpoint {
                endpoint,
                path,
                form,
            } => {
                let body = ask(endpoint, Call::get(path.as_str())).await?;
                match form {
                    TokenFormat::Jwt => jwt(&body, Timestamp::now()),
                    TokenFormat::AccessToken => access_token(&body),
                }
            }
            TokenSource::File(file) => of_file(file, &content(file)?),
            TokenSource::Account { file, proxies } => {
                let unusable = |source| TokenError::Account {
                    path: file.clone(),
                    source,
                };
                let wanted = read(file)?.ask(Timestamp::now()).map_err(unusable)?;
                let (origin, path) = split(&wanted.url)?;
                let is_near = ["127.0.0.1", "localhost"].contains(&origin.host().unwrap_or(""));
                if origin.scheme_str() != Some("https") && !is_near {
                    return Err(TokenError::InTheOpen);
                }
                let mut endpoint = kube::Config::new(origin);
                endpoint.proxy_url = proxies.to(&endpoint.cluster_url)?;
                let endpoint = Connection::new(endpoint, Limits::default())?;
                let call = Call {
                    method: http::Method::POST,
                    body: wanted.body.into(),
                    content_type: "application/x-www-form-urlencoded",
                    ..Call::get(path)
                };
                access_token(&ask(&endpoint, call).await?)
            }
        }
    }

    async fn renew(&self, cloud: &Connection, known: &mut String) -> Result<Duration, TokenError> {
        let token = self.token().await?;
        // Other credentials are other connections: those that are open stay for the same ones.
        if token.text == *known {
            return Ok(token.lasts);
        }
        let mut config = self.config.clone();
        config.auth_info = AuthInfo {
            token: Some(token.text.clone().into()),
            ..AuthInfo::default()
        };
        cloud.renew(config).map_err(TokenError::Use)?;
        *known = token.text;
        Ok(token.lasts)
    }
}

async fn ask(endpoint: &Connection, call: Call) -> Result<Bytes, TokenError> {
    let reply = endpoint.call(call).await?;
    match reply.status {
        200 => Ok(reply.body),
        status => Err(TokenError::Refused(status)),
    }
}

fn content(file: &Path) -> Result<Vec<u8>, TokenError> {
    std::fs::read(file).map_err(|source| TokenError::Read {
        path: file.to_owned(),
        source,
    })
}

/// Editors and `echo` end a file with a line break, which is not part of a token.
fn of_file(path: &Path, content: &[u8]) -> Result<Token, TokenError> {
    let wrong = |problem| TokenError::TokenFile {
        path: path.to_owned(),
        problem,
    };
    let text = std::str::from_utf8(content).map_err(|_| wrong("is not UTF-8 text"))?;
    let text = text.trim();
    if text.is_empty() || text.contains(|c: char| !c.is_ascii_graphic()) {
        return Err(wrong("must contain one token and nothing else"));
    }
    Ok(Token {
        text: text.to_owned(),
        lasts: MARGIN + LOOK,
    })
}

fn read(file: &Path) -> Result<Account, TokenError> {
    Account::read(&content(file)?).map_err(|source| TokenError::Account {
        path: file.to_owned(),
        source,
    })
}

/// The expiry of a token is read without verifying the token: its recipient does that.
fn jwt(body: &Bytes, now: Timestamp) -> Result<Token, TokenError> {
    let none = TokenError::NoToken;
    let text = std::str::from_utf8(body).map_err(|_| none("it is not UTF-8 text"))?;
    let text = text.trim();
    let claims = text.split('.').nth(1).ok_or(none("it has no claims"))?;
    let claims = URL_SAFE_NO_PAD
        .decode(claims.trim_end_matches('='))
        .map_err(|_| none("its claims are not base64"))?;
    let claims: Value =
        serde_json::from_slice(&claims).map_err(|_| none("its claims are not a JSON object"))?;
    let ends = claims["exp"]
        .as_i64()
        .ok_or(none("its claims have no expiry time (exp)"))?;
    let left = u64::try_from(ends - now.as_second()).unwrap_or_default();
    Ok(Token {
        text: text.to_owned(),
        // One that has ended may be good where the clock is right, which a robot's often is not.
        lasts: match left {
            0 => MARGIN + LOOK,
            left => Duration::from_secs(left).min(LONGEST),
        },
    })
}

fn access_token(body: &Bytes) -> Result<Token, TokenError> {
    let none = TokenError::NoToken;
    let document: Value =
        serde_json::from_slice(body).map_err(|_| none("it is not a JSON object"))?;
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
        check(r#"{"exp": 1000}"#, Ok(70));
        check(r#"{"exp": -7}"#, Ok(70));
        check(r#"{"sub": "r1"}"#, Err("no expiry time"));
        check("[", Err("not a JSON object"));
    }

    #[test]
    fn a_file_has_one_token_and_may_end_its_line() {
        assert_eq!(of_file(Path::new("t"), b"a.b.c\r\n").unwrap().text, "a.b.c");
        for wrong in [&b""[..], b" \n", b"a\nb", "\u{e4}".as_bytes(), b"\xff"] {
            assert!(of_file(Path::new("t"), wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn an_access_token_comes_in_a_document() {
        let token = access_token(&r#"{"access_token": "t", "expires_in": 300}"#.into()).unwrap();
        assert_eq!((&*token.text, token.lasts.as_secs()), ("t", 300));
        assert!(access_token(&"{}".into()).is_err());
        assert!(access_token(&"t".into()).is_err());
    }
}
