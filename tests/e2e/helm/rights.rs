//! What the chart lets the agent do: all that it needs, and nothing else.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use k8s_openapi::api::authorization::v1::SelfSubjectRulesReview;
use kube::api::{Api, PostParams};
use serde_json::json;
use testbed::{Access, SOON, ServiceCluster, eventually};

use super::{NO_CRD, chart, helm, with};

/// A verb on a resource of a group: `group/resource verb`.
type Right = String;

fn rights(resource: &str, verbs: &str) -> Vec<Right> {
    verbs
        .split(' ')
        .map(|verb| format!("{resource} {verb}"))
        .collect()
}

/// What somebody may do in a namespace, as the server sees it; what everybody may is left out.
async fn rights_of(who: &Access, namespace: &str) -> Result<BTreeSet<Right>> {
    let review: SelfSubjectRulesReview =
        serde_json::from_value(json!({ "spec": { "namespace": namespace } }))?;
    let answer = Api::<SelfSubjectRulesReview>::all(who.client()?)
        .create(&PostParams::default(), &review)
        .await?;
    let status = answer.status.unwrap_or_default();
    ensure!(!status.incomplete, "{status:?}");
    let mut found = BTreeSet::new();
    for rule in status.resource_rules {
        let resources = rule.resources.unwrap_or_default();
        for group in rule.api_groups.unwrap_or_default() {
            if matches!(&*group, "authorization.k8s.io" | "authentication.k8s.io") {
                continue;
            }
            for resource in &resources {
                ensure!(rule.resource_names.is_none(), "{resource}");
                for verb in &rule.verbs {
                    found.insert(format!("{group}/{resource} {verb}"));
                }
            }
        }
    }
    Ok(found)
}

fn everywhere() -> Vec<Right> {
    [
        rights("/secrets", "get list watch create update"),
        rights("/namespaces", "get list watch create"),
        rights("/events", "create"),
        rights(
            "apiextensions.k8s.io/customresourcedefinitions",
            "get list watch",
        ),
        rights("syncagent.kcp.io/publishedresources", "get list watch"),
        rights(
            "syncagent.kcp.io/publishedresources/status",
            "get create update patch",
        ),
    ]
    .concat()
}

#[track_caller]
fn same(found: &BTreeSet<Right>, wanted: Vec<Right>) {
    let wanted: BTreeSet<Right> = wanted.into_iter().collect();
    let missing: Vec<_> = wanted.difference(found).collect();
    let more: Vec<_> = found.difference(&wanted).collect();
    assert!(
        missing.is_empty() && more.is_empty(),
        "missing {missing:?}, more {more:?}"
    );
}

#[tokio::test]
async fn the_agent_may_do_what_it_needs_and_nothing_else() -> Result<()> {
    let cluster = ServiceCluster::shared().await?;
    let admin = cluster.admin();
    let (own, other) = (
        cluster.namespace("own").await?,
        cluster.namespace("other").await?,
    );
    let chart = chart();
    let release = |command| [command, "ships", &chart, "--namespace", &own];
    helm(admin, &release("install"), &with(&[NO_CRD])).await?;

    // As the Pod is seen by the server.
    let user = format!("system:serviceaccount:{own}:ships");
    let agent = cluster.user(&user, &["system:serviceaccounts"])?;
    eventually(SOON, "the roles are in force", async || {
        let found = rights_of(&agent, &own).await?;
        ensure!(found.contains("/secrets delete") && found.contains("/namespaces create"));
        Ok(())
    })
    .await;
    same(&rights_of(&agent, &other).await?, everywhere());
    let in_default = rights("/events", "create update patch");
    same(
        &rights_of(&agent, "default").await?,
        [everywhere(), in_default].concat(),
    );
    let in_own = [
        rights(
            "coordination.k8s.io/leases",
            "get list watch create update patch delete",
        ),
        rights("/events", "create patch"),
        rights("/secrets", "delete"),
    ]
    .concat();
    same(
        &rights_of(&agent, &own).await?,
        [everywhere(), in_own].concat(),
    );

    let values = with(&[
        NO_CRD,
        "publishedResources[0].group=example.org",
        "publishedResources[0].resource=boats",
        "publishedResources[0].status=true",
        "publishedResources[1].resource=configmaps",
    ]);
    helm(admin, &release("upgrade"), &values).await?;
    let all = "get list watch create update patch delete";
    let published = [
        everywhere(),
        rights("example.org/boats", all),
        rights("example.org/boats/status", "get update patch"),
        rights("/configmaps", all),
    ]
    .concat();
    eventually(SOON, "the new role is in force", async || {
        let found = rights_of(&agent, &other).await?;
        ensure!(found.contains("/configmaps delete"));
        Ok(())
    })
    .await;
    same(&rights_of(&agent, &other).await?, published);

    admin
        .helm(&["uninstall", "ships", "--namespace", &own])
        .await?;
    eventually(SOON, "nothing is allowed any more", async || {
        let found = rights_of(&agent, &own).await?;
        ensure!(found.is_empty(), "{found:?}");
        Ok(())
    })
    .await;
    Ok(())
}

/// The requests themselves, in case that the words of a role mean something else than they say.
#[tokio::test]
async fn the_agents_requests_are_let_through() -> Result<()> {
    let cluster = ServiceCluster::shared().await?;
    let admin = cluster.admin();
    let (own, other) = (
        cluster.namespace("own").await?,
        cluster.namespace("other").await?,
    );
    let chart = chart();
    let command = ["install", "boats", &chart, "--namespace", &own];
    helm(admin, &command, &with(&[NO_CRD])).await?;
    let user = format!("system:serviceaccount:{own}:boats");
    let agent = cluster.user(&user, &["system:serviceaccounts"])?;
    let secret = |namespace| {
        [
            "create",
            "secret",
            "generic",
            "memory",
            "--namespace",
            namespace,
        ]
    };
    eventually(SOON, "the roles are in force", async || {
        agent.kubectl(&["get", "secrets", "--all-namespaces"]).await
    })
    .await;
    agent.kubectl(&secret(&own)).await?;
    agent.kubectl(&secret(&other)).await?;
    let delete = |namespace| ["delete", "secret", "memory", "--namespace", namespace];
    agent.kubectl(&delete(&own)).await?;
    let error = agent
        .kubectl(&delete(&other))
        .await
        .unwrap_err()
        .to_string();
    ensure!(
        error.contains("cannot delete resource \"secrets\""),
        "{error}"
    );
    let error = agent
        .kubectl(&["delete", "namespace", &other])
        .await
        .unwrap_err()
        .to_string();
    ensure!(
        error.contains("cannot delete resource \"namespaces\""),
        "{error}"
    );
    admin
        .helm(&["uninstall", "boats", "--namespace", &own])
        .await?;
    Ok(())
}
