//! Asks the servers which rights the agent lacks.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use serde_json::Value;
use tokio::time::{Instant, sleep};
use tracing::{debug, warn};

use super::options::LeaderElection;
use super::publishing::Publishing;
use super::schemas::{Manifest, PUBLISHED_RESOURCES};
use crate::publish::rights::{
    self, AgentNeeds, PublishedKindNeeds, Right, RightResource, RightsSide,
};
use crate::publish::types::PublishedResourceSpec;
use hawser_runtime::cluster::connection::{Call, Connection, RequestError};
use hawser_runtime::cluster::discovery::{Discovery, DiscoveryError};
use kube_lang::object::Object;
use kube_lang::selector::Selector;

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
const SLICES: &str = "apiexportendpointslices";
/// The number of concurrent reviews.
const TOGETHER: usize = 8;
/// The interval for checking whether other rights are needed.
const LOOK: Duration = Duration::from_secs(5);
/// The time after which a missing right is checked again.
const AGAIN: Duration = Duration::from_mins(1);

/// The interval at which all rights are reviewed again.
const CONFIRM: Duration = Duration::from_hours(1);

/// The reason why a server does not say which rights the caller has.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ReviewError {
    #[error("asking for the right to {right}")]
    Review {
        right: Box<Right>,
        #[source]
        source: Box<RequestError>,
    },
    #[error("listing PublishedResources")]
    List(#[source] Box<RequestError>),
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
    /// The workspace of the `APIExportEndpointSlice`, usually the same.
    pub slices: Connection,
}

impl Reviewers {
    /// The rights that the caller lacks, in the given order.
    pub async fn lacking(&self, rights: &[Right]) -> Result<Vec<Right>, ReviewError> {
        let asked = futures::stream::iter(rights.to_vec())
            .map(|right| async move {
                let has = self.has(&right).await?;
                Ok((right, has))
            })
            .buffered(TOGETHER);
        let lacking = asked.try_filter_map(|(right, has)| async move {
            Ok::<_, ReviewError>((!has).then_some(right))
        });
        lacking.try_collect().await
    }

    async fn has(&self, right: &Right) -> Result<bool, ReviewError> {
        let is_slice =
            matches!(&right.resource, RightResource::Object { resource, .. } if resource == SLICES);
        let at = match right.grantor {
            RightsSide::Service => &self.service,
            RightsSide::Provider if is_slice => &self.slices,
            RightsSide::Provider => &self.provider,
        };
        let answer = at.ask(Call::post(REVIEWS, &right.review())).await;
        let answer = answer.map_err(|source| ReviewError::Review {
            right: Box::new(right.clone()),
            source: Box::new(source),
        })?;
        Ok(answer["status"]["allowed"] == true)
    }
}

/// The selected published resources of the service cluster, and why others cannot be read.
pub async fn published(
    service: &Connection,
    selector: &Selector,
) -> Result<Vec<Result<PublishedResourceSpec, ReviewError>>, ReviewError> {
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
        let object = match Object::new(item.clone()) {
            Ok(object) => object,
            Err(error) => {
                specs.push(Err(unreadable(error.to_string())));
                continue;
            }
        };
        let labels: Vec<_> = object.labels().collect();
        if selector.matches(labels.iter().copied()) {
            let manifest = Manifest::read(&item).map_err(unreadable);
            specs.push(manifest.map(|manifest| PublishedResourceSpec::clone(&manifest.spec)));
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

/// The servers' answers about the rights for one published resource.
struct AccessReview {
    needed: Vec<Right>,
    lacking: Vec<Right>,
    at: Instant,
}

impl AccessReview {
    /// Whether the answer is still taken for true.
    fn holds(&self, needed: &[Right]) -> bool {
        let longest = if self.lacking.is_empty() {
            CONFIRM
        } else {
            AGAIN
        };
        self.needed == needed && self.at.elapsed() < longest
    }
}

/// Checks the rights that running published resources need, when they begin and when they change. Records the answer for
/// their owners, and checks missing rights again.
pub async fn keep(publishing: Arc<Publishing>, reviewers: Reviewers) {
    // By uid.
    let mut reviewed: HashMap<String, AccessReview> = HashMap::new();
    loop {
        sleep(LOOK).await;
        let running = needs(&publishing);
        reviewed.retain(|known, _| running.iter().any(|(uid, ..)| uid == known));
        for (uid, name, needed) in running {
            let before = reviewed.get(&uid);
            if before.is_some_and(|before| before.holds(&needed)) {
                continue;
            }
            let lacking = match reviewers.lacking(&needed).await {
                Ok(lacking) => lacking,
                Err(error) => {
                    debug!(publishedresource = %name, %error, "rights were not reviewed");
                    continue;
                }
            };
            let is_known = |right| before.is_some_and(|before| before.lacking.contains(right));
            for right in lacking.iter().filter(|right| !is_known(right)) {
                let purpose = &*right.purpose;
                warn!(publishedresource = %name, %right, purpose, "the agent lacks a right");
            }
            let told = lacking.iter().map(ToString::to_string).collect();
            publishing.note(&name, |known| known.facts.lacking = Some(told));
            let reviewed_now = AccessReview {
                needed,
                lacking,
                at: Instant::now(),
            };
            reviewed.insert(uid, reviewed_now);
        }
    }
}

/// The rights that each running published resource needs.
fn needs(publishing: &Publishing) -> Vec<(String, Arc<str>, Vec<Right>)> {
    let options = &publishing.options;
    let agent = AgentNeeds {
        namespace: options.namespace.clone(),
        slice: options.slice.clone(),
        export: publishing.export.clone(),
        elects_leader: options.leader_election == LeaderElection::On,
        has_shards: options.shards.get() > 1,
    };
    let running = publishing.dispatch.running();
    let of_object = |object: Arc<Object>| {
        let manifest = Manifest::read(object.as_value()).ok()?;
        let publication = running.get(&*manifest.uid)?;
        let kind = PublishedKindNeeds {
            spec: PublishedResourceSpec::clone(&manifest.spec),
            plural: publication.plan.local_resource.to_string(),
        };
        let name = manifest.name.as_str().into();
        Some((manifest.uid, name, rights::needed(&agent, &[kind])))
    };
    publishing
        .objects()
        .into_iter()
        .filter_map(of_object)
        .collect()
}
