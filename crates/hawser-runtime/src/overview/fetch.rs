//! The overview of a running process, by the address of its page.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Uri};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde::de::DeserializeOwned;

use super::plain;

/// The time limit of a request.
const LONGEST: Duration = Duration::from_secs(10);
/// The most bytes of an answer.
const MOST: usize = 16 << 20;

#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error("{0:?} is not an address of a page: use http://host:port")]
    Address(String),
    #[error("no page at {address}: {problem}")]
    Unreachable { address: String, problem: String },
    #[error("{address} is not the page of an agent: {problem}")]
    NotAPage { address: String, problem: String },
}

/// Reads the JSON at a path of a page. The address is `host:port`, with or without `http://`.
pub async fn fetch<T: DeserializeOwned>(address: &str, path: &str) -> Result<T, FetchError> {
    let host = address.strip_prefix("http://").unwrap_or(address);
    let host = host.trim_end_matches('/');
    let wrong = || FetchError::Address(address.to_owned());
    let uri: Uri = format!("http://{host}{path}")
        .parse()
        .map_err(|_| wrong())?;
    if host.contains('/') || uri.port().is_none() {
        return Err(wrong());
    }
    let unreachable = |problem: String| FetchError::Unreachable {
        address: address.to_owned(),
        problem,
    };
    let not_a_page = |problem: String| FetchError::NotAPage {
        address: address.to_owned(),
        problem: plain(&problem),
    };
    let asking = async {
        let client: Client<_, Empty<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
        let request = Request::get(uri).body(Empty::new()).map_err(|_| wrong())?;
        let answer = client.request(request).await;
        let answer = answer.map_err(|error| unreachable(crate::errors::chain(&error)))?;
        let status = answer.status();
        if !status.is_success() {
            return Err(not_a_page(format!("it answers {status}")));
        }
        let body = Limited::new(answer.into_body(), MOST).collect().await;
        let body = body.map_err(|error| unreachable(error.to_string()))?;
        serde_json::from_slice(&body.to_bytes()).map_err(|error| not_a_page(error.to_string()))
    };
    let answer = tokio::time::timeout(LONGEST, asking).await;
    answer.unwrap_or_else(|_| Err(unreachable("no answer within 10 s".to_owned())))
}
