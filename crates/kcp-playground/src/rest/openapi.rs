//! OpenAPI documents over HTTP: their forms and `ETag`s.

use std::borrow::Cow;

use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY};
use http::{HeaderMap, HeaderValue};

use super::query::Query;
use super::target::Target;
use super::{Rest, full, view};
use crate::api::{ApiRequest, ApiResponse};
use crate::openapi::{Document, Documents, protobuf};
use crate::status::Status;

impl Rest {
    /// Answers for paths below `/openapi`.
    pub(super) async fn describe(
        &self,
        request: &ApiRequest,
        target: &Target,
    ) -> Result<ApiResponse, Status> {
        let form = DocumentForm::accepted(&request.headers, target).ok_or_else(refuse)?;
        let scope = &request.scope;
        let catalog = self.store.read(|read| self.scopes.catalog(read, scope))?;
        let documents = &self.documents;
        let document = match target {
            Target::OpenApi => {
                let mut index = full(200, view::bytes(&Documents::index(&catalog)));
                let json = HeaderValue::from_static("application/json");
                index.headers.insert(CONTENT_TYPE, json);
                return Ok(index);
            }
            Target::OpenApiOf(path) => Documents::of_version(&catalog, path),
            Target::Swagger => Some(match form {
                DocumentForm::Json => Documents::of_all(&catalog),
                DocumentForm::Protobuf => Documents::of_all_in_protobuf(&catalog),
            }),
            _ => None,
        };
        let wanted = document.ok_or_else(Status::no_such_path)?;
        let document = match documents.known(&wanted) {
            Some(document) => document,
            None => documents.make(&catalog, wanted).await?,
        };
        let mut response = answer(request, &document);
        if form == DocumentForm::Protobuf {
            let media_type = HeaderValue::from_static(protobuf::MEDIA_TYPE);
            response.headers.insert(CONTENT_TYPE, media_type);
        }
        Ok(response)
    }
}

fn answer(request: &ApiRequest, document: &Document) -> ApiResponse {
    let tag = format!("\"{}\"", document.digest);
    let known = request
        .headers
        .get_all(IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|known| matches!(known.trim().trim_start_matches("W/"), "*") || known.trim() == tag);
    let mut response = if known {
        full(304, bytes::Bytes::new())
    } else {
        full(200, document.body.clone())
    };
    // The content of a path with a digest never changes.
    let query = Query::parse(request.query.as_deref());
    let lasting = query.get("hash") == Some(&document.digest);
    let caching = if lasting {
        "public, max-age=31536000, immutable"
    } else {
        "no-cache, private"
    };
    let headers = &mut response.headers;
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(caching));
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(ETAG, tag);
    }
    response
}

/// The encoding of a document.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DocumentForm {
    Json,
    Protobuf,
}

impl DocumentForm {
    /// The first form in the `Accept` header that is served; protobuf is served for v2 only.
    fn accepted(headers: &HeaderMap, target: &Target) -> Option<Self> {
        // The index has one form, whatever is accepted.
        if *target == Target::OpenApi {
            return Some(Self::Json);
        }
        let values: Vec<Cow<'_, str>> = headers
            .get_all(ACCEPT)
            .iter()
            .map(|value| String::from_utf8_lossy(value.as_bytes()))
            .collect();
        let mut types = values
            .iter()
            .flat_map(|value| value.split(','))
            .map(|accept| accept.split(';').next().unwrap_or_default().trim())
            .filter(|accept| !accept.is_empty())
            .peekable();
        if types.peek().is_none() {
            return Some(Self::Json);
        }
        types.find_map(|accept| match accept {
            "application/json" | "application/*" | "*/*" => Some(Self::Json),
            protobuf::ASKED | protobuf::MEDIA_TYPE if matches!(target, Target::Swagger) => {
                Some(Self::Protobuf)
            }
            _ => None,
        })
    }
}

fn refuse() -> Status {
    Status::not_acceptable("only the following media types are accepted: application/json")
}
