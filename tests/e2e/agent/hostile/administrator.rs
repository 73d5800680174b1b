//! What the administrator of a workspace may do: web hooks that refuse or delay, bindings, claims, namespaces.

use std::time::Duration;

use anyhow::Result;
use kcp_playground::server::{Action, When};
use serde_json::json;

use super::Scene;
use super::secrets;
use crate::agent::world::EXPORT;

const BINDING: &str = "/apis/apis.kcp.io/v1alpha1/apibindings";

fn answers(code: u16) -> Action {
    Action::Status {
        code,
        when: When::Before,
    }
}

pub(super) async fn attacks(scene: &mut Scene<'_>) -> Result<()> {
    // Objects that the agent has to write for, again and again.
    for n in 0..40 {
        let name = format!("busy{n}");
        scene
            .put_secret(&format!("{name}-up"), json!({"k": "v"}))
            .await;
        scene
            .put(&name, json!({"up": format!("{name}-up"), "down": "none"}))
            .await;
    }
    refusals(scene).await?;
    delays(scene).await?;
    bindings(scene).await
}

/// Every object of the hostile workspace changes, so that the agent has something to send.
async fn stir(scene: &Scene<'_>, round: &str) {
    let all = (0..40).map(|n| async move {
        scene
            .patch(&format!("busy{n}"), json!({"spec": {"round": round}}))
            .await;
        scene
            .put(&format!("{round}{n}"), json!({"up": format!("busy{n}-up")}))
            .await;
    });
    futures::future::join_all(all).await;
}

async fn refusals(scene: &mut Scene<'_>) -> Result<()> {
    let hooks = [
        ("update", "secrets", 429),
        ("patch", "secrets", 429),
        ("create", "events", 429),
        ("patch", "secrets", 500),
        ("patch", "secrets", 403),
        ("patch", "", 429),
        ("update", "", 503),
        ("patch", "", 409),
        ("patch", "", 422),
        ("get", "secrets", 500),
    ];
    for (verb, resource, code) in hooks {
        let name = format!("a web hook answers {code} to {verb} of \"{resource}\"");
        let round = format!("r{code}{verb}{resource}");
        scene
            .attack(&name, async |scene| {
                scene.strike(verb, resource, answers(code));
                stir(scene, &round).await;
                Ok(())
            })
            .await?;
        scene.calm();
    }
    Ok(())
}

async fn delays(scene: &mut Scene<'_>) -> Result<()> {
    for (verb, resource) in [
        ("patch", "secrets"),
        ("create", "events"),
        ("patch", ""),
        ("update", ""),
    ] {
        let name = format!("a web hook takes ten seconds for {verb} of \"{resource}\"");
        let round = format!("d{verb}{resource}");
        scene
            .attack(&name, async |scene| {
                scene.strike(verb, resource, Action::Latency(Duration::from_secs(10)));
                stir(scene, &round).await;
                Ok(())
            })
            .await?;
        scene.calm();
    }
    scene
        .attack("connections for the workspace are cut", async |scene| {
            scene.strike("patch", "", Action::Reset(When::Before));
            stir(scene, "cut").await;
            Ok(())
        })
        .await?;
    scene.calm();
    Ok(())
}

async fn bindings(scene: &mut Scene<'_>) -> Result<()> {
    scene
        .attack(
            "a namespace that is relabelled a hundred times",
            async |scene| {
                for n in 0..100 {
                    let labels = json!({"metadata": {"labels": {"n": n.to_string()}}});
                    let _refused = scene
                        .bad
                        .plane
                        .merge("/api/v1/namespaces/default", labels)
                        .await;
                }
                Ok(())
            },
        )
        .await?;
    scene
        .attack(
            "namespaces with the names of the provider's",
            async |scene| {
                for namespace in ["kube-system", "providers", &scene.world().namespace] {
                    let _refused = scene.bad.plane.namespace(namespace, json!({})).await;
                    let object = scene
                        .kind()
                        .object("resides", json!({"up": "admin", "down": "admin"}));
                    let _refused = scene
                        .bad
                        .plane
                        .create(&scene.kind().within(namespace), &object)
                        .await;
                    let object = super::secret("admin", json!({"password": "mine"}));
                    let _refused = scene
                        .bad
                        .plane
                        .create(&secrets().within(namespace), &object)
                        .await;
                }
                Ok(())
            },
        )
        .await?;
    scene
        .attack(
            "the claims are rejected and accepted in a loop",
            async |scene| {
                let at = format!("{BINDING}/{EXPORT}");
                for round in 0..20 {
                    let state = ["Rejected", "Accepted"][round % 2];
                    let mut binding = scene.bad.plane.get(&at).await?;
                    for claim in binding["spec"]["permissionClaims"]
                        .as_array_mut()
                        .into_iter()
                        .flatten()
                    {
                        claim["state"] = state.into();
                    }
                    let _refused = scene.bad.plane.replace(&at, &binding).await;
                    scene
                        .put(&format!("claims{round}"), json!({"up": "busy0-up"}))
                        .await;
                }
                Ok(())
            },
        )
        .await?;
    scene
        .attack(
            "a namespace with everything in it is deleted",
            async |scene| {
                let _refused = scene.bad.plane.delete("/api/v1/namespaces/providers").await;
                Ok(())
            },
        )
        .await?;
    scene
        .attack("a second binding that kcp refuses comes and goes", async |scene| {
            let team = &scene.bad.plane;
            let first = team.get(&format!("{BINDING}/{EXPORT}")).await?;
            let second = json!({
                "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIBinding", "metadata": {"name": "second"},
                "spec": first["spec"],
            });
            for round in 0..3 {
                team.create(BINDING, &second).await?;
                stir(scene, &format!("second{round}")).await;
                team.delete(&format!("{BINDING}/second")).await?;
            }
            Ok(())
        })
        .await?;
    scene
        .attack(
            "bindings of 200 KB, and one that changes all the time",
            async |scene| {
                let at = format!("{BINDING}/{EXPORT}");
                let first = scene.bad.plane.get(&at).await?;
                let other = |n: usize| format!("other{n}");
                for n in 0..20 {
                    let binding = json!({
                        "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIBinding",
                        "metadata": {"name": other(n), "annotations": {
                            "example.com/large": "x".repeat(200_000)}},
                        "spec": first["spec"],
                    });
                    scene.bad.plane.create(BINDING, &binding).await?;
                }
                for n in 0..100 {
                    let labels = json!({"metadata": {"labels": {"n": n.to_string()}}});
                    let _refused = scene.bad.plane.merge(&at, labels).await;
                }
                // It stays: the webhook of the workspace refuses to release it.
                scene.remove("busy0").await;
                for n in 0..20 {
                    scene
                        .bad
                        .plane
                        .delete(&format!("{BINDING}/{}", other(n)))
                        .await?;
                }
                Ok(())
            },
        )
        .await?;
    scene
        .attack("the workspace unbinds and binds again", async |scene| {
            scene.world().unbind(&scene.bad).await?;
            testbed::eventually(super::SOON, "the binding is gone", async || {
                let found = scene.bad.plane.find(&format!("{BINDING}/{EXPORT}")).await?;
                anyhow::ensure!(found.is_none(), "it is there");
                Ok(())
            })
            .await;
            scene.world().bind(&scene.bad).await?;
            scene.put("again", json!({})).await;
            scene.copied("again").await;
            Ok(())
        })
        .await?;
    scene
        .attack(
            "the workspace is deleted with everything in it",
            async |scene| {
                let at = format!(
                    "/apis/tenancy.kcp.io/v1alpha1/workspaces/{}",
                    scene.bad.name
                );
                scene.world().org.delete(&at).await?;
                Ok(())
            },
        )
        .await
}
