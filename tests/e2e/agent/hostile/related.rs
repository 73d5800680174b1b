//! What a consumer may do with objects that travel along, and with the names that lead to them.

use anyhow::Result;
use serde_json::{Value, json};

use super::{Scene, secrets};

pub(super) async fn attacks(scene: &mut Scene<'_>) -> Result<()> {
    takes(scene).await?;
    names(scene).await?;
    churn(scene).await?;
    circles(scene).await
}

async fn circles(scene: &mut Scene<'_>) -> Result<()> {
    scene
        .attack(
            "one Secret is original and copy, of one object and of two",
            async |scene| {
                for (name, specs) in [
                    ("both", vec![json!({"up": "both", "down": "both"})]),
                    (
                        "circle",
                        vec![json!({"up": "circle"}), json!({"down": "circle"})],
                    ),
                ] {
                    scene.put_secret(name, json!({"k": "1"})).await;
                    for (number, spec) in specs.into_iter().enumerate() {
                        scene.put(&format!("{name}{number}"), spec).await;
                        scene.copied(&format!("{name}{number}")).await;
                    }
                    let change = json!({"stringData": {"k": "2"}});
                    let original = secrets().at("default", name);
                    scene.bad.plane.merge(&original, change).await?;
                    let copy = secrets().at(&scene.bad.cluster, name);
                    testbed::eventually(super::SOON, "the copy follows", async || -> Result<()> {
                        let copy = scene.world().service.get(&copy).await?;
                        anyhow::ensure!(copy["data"]["k"] == "Mg==", "{copy}");
                        Ok(())
                    })
                    .await;
                    let original = scene.bad.plane.get(&original).await?;
                    anyhow::ensure!(original["data"]["k"] == "Mg==", "{original}");
                }
                Ok(())
            },
        )
        .await?;
    scene
        .attack("a Secret that asks for a token", async |scene| {
            let token = json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
                "metadata": {"name": "token", "annotations": {"kubernetes.io/service-account.name": "default"}}});
            scene.bad.plane.create(&secrets().within("default"), &token).await?;
            scene.put("asks", json!({"up": "token", "down": "token"})).await;
            scene.copied("asks").await;
            scene.put_secret("after", json!({"k": "v"})).await;
            scene.patch("asks", json!({"spec": {"up": ["after", "token"]}})).await;
            let service = &scene.world().service;
            testbed::eventually(super::SOON, "the other one is copied", async || -> Result<()> {
                service.get(&secrets().at(&scene.bad.cluster, "after")).await?;
                Ok(())
            })
            .await;
            let found = service.find(&secrets().at(&scene.bad.cluster, "token")).await?;
            anyhow::ensure!(found.is_none(), "{found:?}");
            Ok(())
        })
        .await?;
    scene
        .attack(
            "twelve objects that refer to the same twenty Secrets of 900 KB",
            async |scene| {
                let names: Vec<String> = (0..20).map(|n| format!("vast{n}")).collect();
                for name in &names {
                    let data = json!({"k": "x".repeat(650_000)});
                    scene.put_secret(name, data).await;
                }
                for n in 0..12 {
                    scene.put(&format!("vasts{n}"), json!({"up": names})).await;
                }
                Ok(())
            },
        )
        .await?;
    scene
        .attack("they are deleted", async |scene| {
            for n in 0..12 {
                scene.remove(&format!("vasts{n}")).await;
            }
            for n in 0..12 {
                scene
                    .bad
                    .await_gone(scene.kind(), &format!("vasts{n}"))
                    .await;
            }
            Ok(())
        })
        .await
}

async fn takes(scene: &mut Scene<'_>) -> Result<()> {
    scene
        .attack(
            "an empty Secret with the name of the provider's, then a value in it",
            async |scene| {
                scene.put_secret("admin", json!({})).await;
                scene.put("taker", json!({"up": "admin"})).await;
                scene.copied("taker").await;
                let path = secrets().at("default", "admin");
                let _refused = scene
                    .bad
                    .plane
                    .merge(&path, json!({"stringData": {"password": "mine"}}))
                    .await;
                scene.put("taker2", json!({"up": "admin"})).await;
                scene.copied("taker2").await;
                Ok(())
            },
        )
        .await?;
    scene
        .attack(
            "the same with an empty value and with another key",
            async |scene| {
                for (name, data) in [
                    ("db", json!({"password": ""})),
                    ("standing-up", json!({"other": "x"})),
                ] {
                    scene.put_secret(name, data).await;
                    scene
                        .put(&format!("taker-{name}"), json!({"up": name}))
                        .await;
                    scene.copied(&format!("taker-{name}")).await;
                }
                Ok(())
            },
        )
        .await?;
    scene
        .attack(
            "a Secret that was taken along is deleted with its object",
            async |scene| {
                for name in ["taker", "taker2", "taker-db", "taker-standing-up"] {
                    scene.remove(name).await;
                }
                for name in ["admin", "db", "standing-up"] {
                    let _refused = scene.bad.plane.delete(&secrets().at("default", name)).await;
                }
                Ok(())
            },
        )
        .await
}

async fn names(scene: &mut Scene<'_>) -> Result<()> {
    let long = "x".repeat(300);
    let names: Vec<Value> = vec![
        "../providers/admin".into(),
        "providers/admin".into(),
        "..".into(),
        ".".into(),
        "".into(),
        " ".into(),
        "admin?labelSelector=a".into(),
        "admin%2fx".into(),
        "ADMIN".into(),
        "ä".into(),
        "a\nb".into(),
        long.as_str().into(),
        "kube-root-ca.crt".into(),
        json!(7),
        json!({"name": "admin"}),
        json!(["admin"]),
        Value::Null,
    ];
    scene
        .attack(
            "references to every kind of name, both ways",
            async |scene| {
                for (number, name) in names.iter().enumerate() {
                    scene
                        .put(
                            &format!("refers{number}"),
                            json!({"up": name, "down": name}),
                        )
                        .await;
                }
                Ok(())
            },
        )
        .await?;
    scene
        .attack(
            "references to Secrets of the provider and of the other tenant",
            async |scene| {
                let state = scene
                    .world()
                    .service
                    .list(&secrets().within(&scene.world().namespace))
                    .await?;
                let states = state
                    .iter()
                    .filter_map(|one| one["metadata"]["name"].as_str());
                let found: Vec<String> = states
                    .map(str::to_owned)
                    .chain(["admin", "db", "standing-up"].map(str::to_owned))
                    .collect();
                for (number, name) in found.iter().enumerate() {
                    scene
                        .put(&format!("spies{number}"), json!({"down": name}))
                        .await;
                }
                scene.put("spies", json!({})).await;
                scene.copied("spies").await;
                // Nothing of these reached the workspace.
                for name in ["admin", "db", "standing-up"] {
                    let seen = scene.bad.plane.find(&secrets().at("default", name)).await?;
                    anyhow::ensure!(seen.is_none(), "{name} reached the workspace");
                }
                Ok(())
            },
        )
        .await
}

async fn churn(scene: &mut Scene<'_>) -> Result<()> {
    scene
        .attack(
            "forty objects share one Secret that changes all the time",
            async |scene| {
                scene.put_secret("shared", json!({"k": "0"})).await;
                for n in 0..40 {
                    scene
                        .put(&format!("shares{n}"), json!({"up": "shared"}))
                        .await;
                }
                for n in 0..40 {
                    let change = json!({"stringData": {"k": n.to_string()}});
                    let _refused = scene
                        .bad
                        .plane
                        .merge(&secrets().at("default", "shared"), change)
                        .await;
                }
                Ok(())
            },
        )
        .await?;
    scene
        .attack("a Secret that is deleted and made again, immutable, with another type", async |scene| {
            scene.put("changes", json!({"up": "changes"})).await;
            for kind in ["Opaque", "example.com/a", "example.com/b"] {
                let object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "changes"},
                    "type": kind, "immutable": true, "stringData": {"k": kind}});
                let _refused = scene.bad.plane.create(&secrets().within("default"), &object).await;
                scene.put(&format!("marks-{}", kind.replace(['.', '/'], "-").to_lowercase()), json!({})).await;
                let _refused = scene.bad.plane.delete(&secrets().at("default", "changes")).await;
            }
            Ok(())
        })
        .await?;
    scene
        .attack("references that swing between two Secrets", async |scene| {
            scene.put_secret("left", json!({"k": "l"})).await;
            scene.put_secret("right", json!({"k": "r"})).await;
            scene.put("swings", json!({"up": "left"})).await;
            for n in 0..40 {
                let up = if n % 2 == 0 { "right" } else { "left" };
                scene.patch("swings", json!({"spec": {"up": up}})).await;
            }
            Ok(())
        })
        .await?;
    scene
        .attack(
            "three hundred Secrets nobody refers to, of 100 KB each",
            async |scene| {
                let all = (0..300).map(|n| async move {
                    scene
                        .put_secret(&format!("idle{n}"), json!({"k": "x".repeat(100_000)}))
                        .await;
                });
                futures::future::join_all(all).await;
                Ok(())
            },
        )
        .await
}
