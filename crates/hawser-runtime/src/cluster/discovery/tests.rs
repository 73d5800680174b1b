use http::Method;
use serde_json::json;

use super::*;
use crate::cluster::ground::{Ground, fault};
use kcp_playground::server::{Action, Fault, Matcher, When};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

async fn install(ground: &Ground, plural: &str, kind: &str, versions: &[&str]) {
    let versions: Vec<Value> = versions
        .iter()
        .enumerate()
        .map(|(index, name)| {
            json!({
                "name": name, "served": true, "storage": index == 0,
                "subresources": if index == 0 { json!({"status": {}}) } else { json!({}) },
                "schema": {"openAPIV3Schema": {"type": "object"}},
            })
        })
        .collect();
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.a.org")},
        "spec": {
            "group": "a.org", "scope": "Namespaced", "versions": versions,
            "names": {"plural": plural, "kind": kind, "shortNames": [&plural[..2]]},
        },
    });
    ground.service.ask(Call::post(CRDS, &crd)).await.unwrap();
}

fn asked(ground: &Ground, mark: u64) -> usize {
    ground
        .playground
        .requests()
        .count_since(mark, |r| r.resource.is_empty())
}

#[tokio::test]
async fn a_kind_is_asked_for_once_however_many_need_it() {
    let ground = Ground::start().await;
    install(&ground, "things", "Thing", &["v1", "v1beta1"]).await;
    let discovery = Discovery::new(ground.service.clone());
    let mark = ground.playground.requests().mark();
    let ask = (0..20).map(|_| discovery.kind("a.org", "Thing"));
    for found in join_all(ask).await {
        let found = found.unwrap().unwrap();
        let names = (
            found.plural.as_str(),
            found.singular.as_str(),
            found.namespaced,
        );
        assert_eq!(names, ("things", "thing", true));
        let status: Vec<(String, bool)> = found
            .versions
            .into_iter()
            .map(|v| (v.name, v.status))
            .collect();
        assert_eq!(
            status,
            [("v1".to_owned(), true), ("v1beta1".to_owned(), false)]
        );
        assert_eq!(
            (found.preferred.as_str(), found.short_names),
            ("v1", vec!["th".to_owned()])
        );
    }
    assert_eq!(asked(&ground, mark), 3, "the group and its two versions");
    let found = discovery.resource("a.org", "v1beta1", "things").await;
    assert_eq!(found.unwrap().unwrap().kind, "Thing");
    assert_eq!(asked(&ground, mark), 3);
}

#[tokio::test]
async fn kinds_of_the_core_group_are_found_with_one_request() {
    let ground = Ground::start().await;
    let discovery = Discovery::new(ground.service.clone());
    let mark = ground.playground.requests().mark();
    let found = discovery.kind("", "ConfigMap").await.unwrap().unwrap();
    assert_eq!(
        (found.plural.as_str(), found.preferred.as_str()),
        ("configmaps", "v1")
    );
    assert_eq!(asked(&ground, mark), 1);
}

#[tokio::test]
async fn what_is_not_there_is_asked_for_again_later_and_what_is_there_only_when_told() {
    let ground = Ground::start().await;
    let mut discovery = Discovery::new(ground.service.clone());
    assert_eq!(discovery.kind("a.org", "Thing").await, Ok(None));
    let mark = ground.playground.requests().mark();
    install(&ground, "things", "Thing", &["v1"]).await;
    assert_eq!(
        discovery.kind("a.org", "Thing").await,
        Ok(None),
        "known for a while"
    );
    assert_eq!(asked(&ground, mark), 0);
    discovery.negative_for = Duration::ZERO;
    assert!(discovery.kind("a.org", "Thing").await.unwrap().is_some());

    install(&ground, "others", "Other", &["v1"]).await;
    assert!(
        discovery.kind("a.org", "Other").await.unwrap().is_some(),
        "a new kind of a known group"
    );

    let call = Call {
        method: Method::DELETE,
        ..Call::get(format!("{CRDS}/things.a.org"))
    };
    ground.service.ask(call).await.unwrap();
    assert!(
        discovery.kind("a.org", "Thing").await.unwrap().is_some(),
        "remembered"
    );
    discovery.invalidate("a.org");
    assert_eq!(discovery.kind("a.org", "Thing").await, Ok(None));
}

/// A fault that strikes whatever is no request for a resource.
fn outage(times: u64, skip: u64) -> Fault {
    Fault {
        times: Some(times),
        skip,
        ..Fault::new(
            Matcher {
                resource: Some(String::new()),
                ..Matcher::default()
            },
            Action::Status {
                code: 503,
                when: When::Before,
            },
        )
    }
}

#[tokio::test]
async fn those_who_waited_share_a_failure_and_the_next_one_asks_again() {
    let ground = Ground::start().await;
    install(&ground, "things", "Thing", &["v1"]).await;
    let discovery = Discovery::new(ground.service.clone());
    ground.playground.faults().add(outage(1, 0));
    let answers = join_all((0..5).map(|_| discovery.kind("a.org", "Thing"))).await;
    for answer in answers {
        let error = answer.unwrap_err();
        assert_eq!(error.code(), Some(503));
        assert!(
            error
                .to_string()
                .starts_with("discovering /apis/a.org: status 503"),
            "{error}"
        );
    }
    discovery.invalidate("a.org");
    assert!(discovery.kind("a.org", "Thing").await.unwrap().is_some());
}

#[tokio::test]
async fn a_version_that_does_not_answer_hides_only_what_is_in_it() {
    let ground = Ground::start().await;
    install(&ground, "things", "Thing", &["v1"]).await;
    install(&ground, "others", "Other", &["v2"]).await;
    let discovery = Discovery::new(ground.service.clone());
    let group = ground.service.ask(Call::get("/apis/a.org")).await.unwrap();
    assert_eq!(group["versions"].as_array().unwrap().len(), 2);
    // The second of the three requests: one of the versions.
    ground.playground.faults().add(outage(1, 1));
    let things = discovery.kind("a.org", "Thing").await;
    let others = discovery.kind("a.org", "Other").await;
    let (found, hidden) = if things.is_ok() {
        (things, others)
    } else {
        (others, things)
    };
    let found = found.unwrap().unwrap();
    assert_eq!(found.unknown_versions.len(), 1);
    let error = hidden.unwrap_err();
    assert!(
        matches!(error, DiscoveryError::Incomplete { .. }),
        "{error}"
    );
    assert!(error.to_string().contains("status 503"), "{error}");
}

#[tokio::test]
async fn a_server_of_another_group_that_is_out_of_order_is_never_in_the_way() {
    let ground = Ground::start().await;
    install(&ground, "things", "Thing", &["v1"]).await;
    let discovery = Discovery::new(ground.service.clone());
    let mark = ground.playground.requests().mark();
    assert!(discovery.kind("a.org", "Thing").await.unwrap().is_some());
    assert_eq!(asked(&ground, mark), 2, "nothing of any other group");
    assert_eq!(discovery.kind("gone.org", "Thing").await, Ok(None));
}

#[tokio::test]
async fn the_models_of_all_types_are_fetched_anew_each_time() {
    let ground = Ground::start().await;
    let discovery = Discovery::new(ground.service.clone());
    ground.playground.faults().add(
        fault(
            "get",
            "",
            Action::Status {
                code: 403,
                when: When::Before,
            },
        )
        .once(),
    );
    let error = discovery.models().await.unwrap_err();
    assert_eq!(error.code(), Some(403), "{error}");
}
