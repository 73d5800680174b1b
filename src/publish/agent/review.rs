//! Asks the servers which rights the agent lacks.

use futures::{StreamExt as _, TryStreamExt as _};
use serde_json::Value;

use super::schemas::{Manifest, PUBLISHED_RESOURCES};
use crate::publish::rights::{Grantor, PublishedKindNeeds, Right};
use crate::publish::types::PublishedResourceSpec;
use hawser_runtime::cluster::connection::{AskError, Call, Connection};
use hawser_runtime::cluster::discovery::{Discovery, DiscoveryError};
use kube_lang::object::Object;
use kube_lang::selector::Selector;

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
/// The number of concurrent reviews.
const TOGETHER: usize = 8;

/// The reason why a server does not say which rights the caller has.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ReviewError {
    #[error("asking for the right to {right}")]
    Review {
        right: Box<Right>,
        #[source]
        source: Box<AskError>,
    },
    #[error("listing PublishedResources")]
    List(#[source] Box<AskError>),
    #[error("the PublishedResource {name} cannot be read: {problem}")]
    Unreadable { name: String, problem: String },
    #[error("the service cluster does not serve the kind {kind} of group {group:?}")]
    NoSuchKind { group: String, kind: String },
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
}

/// The servers that grant rights, with the caller's credentials.
#[derive(Clone)]
pub struct Reviewers {
    pub service: Connection,
    /// The workspace of the `APIExport`.
    pub provider: Connection,
}

impl Reviewers {
    /// Those of the rights that the caller lacks, in their order.
    pub async fn lacking(&self, rights: &[Right]) -> Result<Vec<Right>, ReviewError> {
        let asked = futures::stream::iter(rights)
            .map(|right| async move { Ok((right, self.has(right).await?)) })
            .buffered(TOGETHER);
        let lacking = asked.try_filter_map(|(right, has)| async move {
            Ok::<_, ReviewError>((!has).then(|| right.clone()))
        });
        lacking.try_collect().await
    }

    async fn has(&self, right: &Right) -> Result<bool, ReviewError> {
        let at = match right.grantor {
            Grantor::Service => &self.service,
            Grantor::Provider => &self.provider,
        };
        let answer = at.ask(Call::post(REVIEWS, &right.review())).await;
        let answer = answer.map_err(|source| ReviewError::Review {
            right: Box::new(right.clone()),
            source: Box::new(source),
        })?;
        Ok(answer["status"]["allowed"] == true)
    }
}

/// The selected published resources that the service cluster has.
pub async fn published(
    service: &Connection,
    selector: &Selector,
) -> Result<Vec<PublishedResourceSpec>, ReviewError> {
    let list = service.ask(Call::get(PUBLISHED_RESOURCES)).await;
    let mut list = list.map_err(|source| ReviewError::List(Box::new(source)))?;
    let items = match list["items"].take() {
        Value::Array(items) => items,
        _ => Vec::new(),
    };
    let mut specs = Vec::new();
    for item in items {
        let name = item["metadata"]["name"].as_str().unwrap_or_default();
        let unreadable = |problem: String| ReviewError::Unreadable {
            name: name.to_owned(),
            problem,
        };
        let manifest = Manifest::read(&item).map_err(unreadable)?;
        let object = Object::new(item.clone()).map_err(|error| unreadable(error.to_string()))?;
        let labels: Vec<_> = object.labels().collect();
        if selector.matches(labels.iter().copied()) {
            specs.push(PublishedResourceSpec::clone(&manifest.spec));
        }
    }
    Ok(specs)
}

/// A published kind with its plural, as the service cluster serves it.
pub async fn served(
    discovery: &Discovery,
    spec: PublishedResourceSpec,
) -> Result<PublishedKindNeeds, ReviewError> {
    let (group, kind) = (&spec.resource.api_group, &spec.resource.kind);
    let found = discovery.kind(group, kind).await?;
    let found = found.ok_or_else(|| ReviewError::NoSuchKind {
        group: group.clone(),
        kind: kind.clone(),
    })?;
    Ok(PublishedKindNeeds {
        plural: found.plural,
        spec,
    })
}
