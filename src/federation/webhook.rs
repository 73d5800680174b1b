//! The admission webhook of the control plane.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::Value;

use hawser_federation::admission::webhooks::Webhook;
use hawser_federation::admission::{Review, review};

use crate::webhook::{Reviewer, WebhookSite};

/// The names and the place of a control plane's webhook.
pub fn site(of: &Webhook) -> WebhookSite {
    WebhookSite {
        flag: "--webhook-addr",
        address: of.address.clone(),
        namespace: of.namespace.clone(),
        secret: "kubefed-webhook-certificate",
        domain: "kubefed.io",
        subject: "kubefed-webhook",
    }
}

/// Answers reviews of KubeFed's objects.
pub struct FederationReviewer;

impl Reviewer for FederationReviewer {
    fn review<'a>(&'a self, path: &'a str, given: Value) -> BoxFuture<'a, Option<Value>> {
        let answer = Review::of_path(path).map(|kind| review(kind, &given));
        std::future::ready(answer).boxed()
    }
}
