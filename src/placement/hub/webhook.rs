//! The admission webhook of the hub. It uses live reads, because every replica serves the webhook and only one has
//! caches.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube_schema::admission::{Verdict, WebhookAddress, answer};
use parking_lot::RwLock;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::time::Instant;
use tracing::warn;

use hawser_placement::admission::KindScope;
use hawser_placement::admission::review::{
    HubGuards, ReviewContext, ReviewTarget, configurations, judge, needs,
};
use hawser_placement::types::policy::ResourceSelectorTerm;
use hawser_runtime::cluster::connection::{Call, Connection, RequestError};
use hawser_runtime::errors::chain;
use kube_lang::object::Gvk;

use super::catalog::Catalog;
use crate::webhook::{Configured, Reviewer, WebhookSite};

/// The `ClusterRole` by which the hub writes the configuration.
const OWNER: &str = "fleet-hub-webhook";

/// The listen address of the webhook, and its address for API servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubWebhook {
    pub listens: String,
    pub address: WebhookAddress,
    /// The namespace of the Secret with the certificate.
    pub namespace: String,
    pub guards: HubGuards,
}

impl HubWebhook {
    pub fn site(&self) -> WebhookSite {
        WebhookSite {
            flag: "--webhook-bind-address",
            address: self.address.clone(),
            namespace: self.namespace.clone(),
            secret: "fleet-hub-webhook-certificate",
            domain: "kubernetes-fleet.io",
            subject: "fleet-hub-webhook",
        }
    }

    /// Has the guard rail, if there is one, let the hub itself through.
    pub async fn exempt_hub(&mut self, hub: &Connection) -> Result<(), RequestError> {
        let Some(rail) = &mut self.guards.rail else {
            return Ok(());
        };
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
        let found = hub.ask(Call::post(path, &review)).await?;
        let name = found["status"]["userInfo"]["username"].as_str();
        rail.users.extend(name.map(str::to_owned));
        Ok(())
    }

    /// The webhook configurations that API servers read.
    pub fn configured(self) -> Configured<impl Fn(&str) -> Vec<(&'static str, Value)>> {
        Configured {
            owner: OWNER.to_owned(),
            make: move |bundle: &str| configurations(&self.guards, &self.address, bundle),
        }
    }
}

/// The least time between two discoveries.
const LEAST_PAUSE: Duration = Duration::from_secs(1);

/// Answers reviews of the fleet's objects.
pub struct HubReviewer {
    hub: Connection,
    guards: HubGuards,
    catalog: RwLock<Arc<Catalog>>,
    /// The time of the last discovery.
    learned: Mutex<Option<Instant>>,
}

impl HubReviewer {
    pub fn new(hub: Connection, guards: HubGuards) -> Self {
        Self {
            hub,
            guards,
            catalog: RwLock::default(),
            learned: Mutex::default(),
        }
    }

    async fn verdict(&self, kind: ReviewTarget, request: &Value) -> Verdict {
        if let ReviewTarget::ClusterPlacement | ReviewTarget::Placement = kind {
            self.learn(request).await;
        }
        let found = match needs(kind, request) {
            None => Vec::new(),
            Some(path) => match self.hub.ask(Call::get(&*path)).await {
                Ok(mut found) => match found["items"].take() {
                    Value::Array(items) => items,
                    _ => vec![found],
                },
                Err(error) if error.code() == Some(404) => Vec::new(),
                Err(error) => {
                    let error = chain(&error);
                    warn!(error, path, "cannot validate an object");
                    return Verdict::Unavailable(format!("reading {path}: {error}"));
                }
            },
        };
        let catalog = Arc::clone(&self.catalog.read());
        let around = ReviewContext {
            scope_of: &|term| catalog.scope(&kind_of(term)),
            found: &found,
            guards: &self.guards,
        };
        judge(kind, request, &around)
    }

    /// Discovers the kinds of the hub if a selected kind is not known.
    async fn learn(&self, request: &Value) {
        let selectors = request["object"]["spec"]["resourceSelectors"].as_array();
        let terms = selectors.into_iter().flatten();
        let terms = terms.filter_map(|term| serde_json::from_value(term.clone()).ok());
        let kinds: Vec<Gvk> = terms.map(|term| kind_of(&term)).collect();
        let is_known = || {
            let catalog = self.catalog.read();
            let mut kinds = kinds.iter();
            kinds.all(|kind| catalog.scope(kind) != KindScope::Unknown)
        };
        if is_known() {
            return;
        }
        // One at a time: another review may just have asked.
        let mut learned = self.learned.lock().await;
        if is_known() || learned.is_some_and(|at| at.elapsed() < LEAST_PAUSE) {
            return;
        }
        *learned = Some(Instant::now());
        match Catalog::read(&self.hub).await {
            Ok(catalog) => *self.catalog.write() = Arc::new(catalog),
            Err(error) => warn!(
                problem = chain(&error),
                "cannot discover the kinds of the hub"
            ),
        }
    }
}

fn kind_of(term: &ResourceSelectorTerm) -> Gvk {
    Gvk::new(&term.group, &term.version, &term.kind)
}

impl Reviewer for HubReviewer {
    fn review<'a>(&'a self, path: &'a str, given: Value) -> BoxFuture<'a, Option<Value>> {
        async move {
            let kind = ReviewTarget::of_path(path)?;
            let verdict = self.verdict(kind, &given["request"]).await;
            Some(answer(&given, verdict))
        }
        .boxed()
    }
}
