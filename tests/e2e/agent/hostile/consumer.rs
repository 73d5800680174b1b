//! What a consumer may do with objects of the published kind.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::Scene;

fn nested(levels: usize) -> Value {
    (0..levels).fold(json!("deep"), |inner, _| json!([inner]))
}

pub(super) async fn attacks(scene: &mut Scene<'_>) -> Result<()> {
    shapes(scene).await?;
    amounts(scene).await?;
    marks(scene).await
}

async fn shapes(scene: &mut Scene<'_>) -> Result<()> {
    for levels in [120, 126, 127, 128, 200, 1_000] {
        scene
            .attack(&format!("an object {levels} levels deep"), async |scene| {
                scene
                    .put(&format!("deep{levels}"), json!({"deep": nested(levels)}))
                    .await;
                Ok(())
            })
            .await?;
    }
    scene
        .attack(
            "an object that becomes deep after it was copied",
            async |scene| {
                scene.put("sinks", json!({})).await;
                scene.copied("sinks").await;
                scene
                    .patch("sinks", json!({"spec": {"deep": nested(300)}}))
                    .await;
                Ok(())
            },
        )
        .await?;
    scene
        .attack("a deep object is deleted", async |scene| {
            scene.remove("sinks").await;
            scene.remove("deep200").await;
            Ok(())
        })
        .await?;
    scene
        .attack("keys that mean something to paths, templates and JavaScript", async |scene| {
            let spec = json!({"": 1, ".": 2, "a.b": 3, "~0~1/": 4, "*": 5, "[*]": 6, "__proto__": {"x": 7}, "$ref": "#"});
            scene.put("keys", spec).await;
            Ok(())
        })
        .await?;
    scene
        .attack("values that are templates and expressions", async |scene| {
            let text = "{{ .Object }}{{ range .Object }}{{ end }}${self}{{{{/raw}}}}$1\\0";
            scene
                .put("words", json!({"text": text, "items": [{"image": text}]}))
                .await;
            // They are values, whatever they look like.
            let words = scene.bad.of("words");
            let copy = scene.world().await_copy(scene.kind(), words).await;
            ensure!(copy["spec"]["text"] == text, "{copy}");
            let image = format!("registry.example/{text}");
            ensure!(copy["spec"]["items"][0]["image"] == image, "{copy}");
            Ok(())
        })
        .await?;
    scene
        .attack("numbers at every edge", async |scene| {
            let spec = json!({"a": i64::MAX, "b": i64::MIN, "c": u64::MAX, "d": 1e300, "e": -0.0, "f": 1.0});
            scene.put("numbers", spec).await;
            Ok(())
        })
        .await?;
    scene
        .attack("nulls and empty things", async |scene| {
            scene
                .put(
                    "nulls",
                    json!({"a": null, "b": {}, "c": [], "d": [null], "items": null}),
                )
                .await;
            Ok(())
        })
        .await?;
    scene
        .attack(
            "the wrong type where a step expects a list",
            async |scene| {
                scene.put("typed", json!({"items": {"image": 1}})).await;
                scene.put("typed2", json!({"items": "image"})).await;
                Ok(())
            },
        )
        .await
}

async fn amounts(scene: &mut Scene<'_>) -> Result<()> {
    scene
        .attack("an object of 1.4 MB", async |scene| {
            scene
                .put("large", json!({"blob": "x".repeat(1_400_000)}))
                .await;
            Ok(())
        })
        .await?;
    scene
        .attack(
            "eight objects of 1.2 MB that are many small values",
            async |scene| {
                let values: Vec<Value> = (0..100_000).map(|n| json!({"a": n})).collect();
                for n in 0..8 {
                    scene
                        .put(&format!("crumbs{n}"), json!({"values": values}))
                        .await;
                }
                Ok(())
            },
        )
        .await?;
    scene
        .attack("names as long as servers take them", async |scene| {
            let namespace = "n".repeat(63);
            let _refused = scene.bad.plane.namespace(&namespace, json!({})).await;
            let name = format!("{}x", "l.".repeat(126));
            for (namespace, label) in [("default", "a"), (namespace.as_str(), "b")] {
                let mut object = scene
                    .kind()
                    .object(&name, json!({"up": name, "down": name}));
                let key = format!("{}/{}", "d".repeat(253), "k".repeat(63));
                object["metadata"]["labels"] = json!({key.clone(): "v".repeat(63), "l": label});
                object["metadata"]["annotations"] = json!({key: "v"});
                let place = scene.kind().within(namespace);
                scene.bad.plane.create(&place, &object).await?;
            }
            scene.copied(&name).await;
            Ok(())
        })
        .await?;
    scene
        .attack(
            "five thousand elements with a step for each",
            async |scene| {
                let items: Vec<Value> = (0..5_000)
                    .map(|n| json!({"image": format!("i{n}"), "pad": "p".repeat(200)}))
                    .collect();
                scene.put("steps", json!({"items": items})).await;
                Ok(())
            },
        )
        .await?;
    scene
        .attack("three hundred objects at once", async |scene| {
            let all = (0..300)
                .map(|n| async move { scene.put(&format!("burst{n}"), json!({"n": n})).await });
            futures::future::join_all(all).await;
            Ok(())
        })
        .await?;
    scene
        .attack("two hundred changes of one object", async |scene| {
            for n in 0..200 {
                scene.patch("burst0", json!({"spec": {"n": n}})).await;
            }
            Ok(())
        })
        .await?;
    scene
        .attack("three hundred deletions at once", async |scene| {
            let all = (0..300).map(|n| async move { scene.remove(&format!("burst{n}")).await });
            futures::future::join_all(all).await;
            Ok(())
        })
        .await?;
    let second = scene.world().team("bad2").await?;
    scene
        .attack(
            "two workspaces of one tenant that are cleared",
            async |scene| {
                let names: Vec<String> = (0..60).map(|n| format!("clears{n}")).collect();
                for name in &names {
                    scene.put(name, json!({})).await;
                    second.make(scene.kind(), name, json!({})).await;
                }
                for name in &names {
                    scene.copied(name).await;
                    scene
                        .world()
                        .await_copy(scene.kind(), second.of(name))
                        .await;
                }
                for name in &names {
                    scene.remove(name).await;
                    second.delete(scene.kind(), name).await?;
                }
                Ok(())
            },
        )
        .await?;
    scene
        .attack(
            "annotations of 200 KB, and two thousand of them",
            async |scene| {
                let mut many = serde_json::Map::new();
                for n in 0..2_000 {
                    many.insert(format!("example.com/a{n}"), "v".into());
                }
                many.insert("example.com/large".to_owned(), "x".repeat(200_000).into());
                scene.put("noted", json!({})).await;
                scene
                    .patch("noted", json!({"metadata": {"annotations": many}}))
                    .await;
                Ok(())
            },
        )
        .await?;
    scene
        .attack(
            "an object that is made and deleted fifty times",
            async |scene| {
                for n in 0..50 {
                    scene.put("flicker", json!({"n": n})).await;
                    scene.remove("flicker").await;
                }
                Ok(())
            },
        )
        .await
}

async fn marks(scene: &mut Scene<'_>) -> Result<()> {
    scene
        .attack(
            "an object of the same name as another tenant's",
            async |scene| {
                scene.put("standing", json!({"size": 666})).await;
                scene.copied("standing").await;
                scene.remove("standing").await;
                Ok(())
            },
        )
        .await?;
    let cluster = scene.good.cluster.clone();
    scene
        .attack(
            "the agent's labels and annotations with another tenant's values",
            async |scene| {
                let labels = scene.good.of("standing").labels();
                scene.put("forged", json!({"size": 667})).await;
                let marks = json!({"metadata": {"labels": labels, "annotations": {
                    "syncagent.kcp.io/remote-object-cluster": cluster,
                    "syncagent.kcp.io/remote-object-name": "standing",
                    "syncagent.kcp.io/remote-object-namespace": "default",
                    "kcp.io/cluster": cluster,
                }}});
                scene.patch("forged", marks).await;
                scene.copied("forged").await;
                scene.remove("forged").await;
                Ok(())
            },
        )
        .await?;
    scene
        .attack(
            "the agent's finalizer is taken off again and again",
            async |scene| {
                scene.put("loose", json!({})).await;
                for _ in 0..20 {
                    scene
                        .patch("loose", json!({"metadata": {"finalizers": null}}))
                        .await;
                }
                scene.remove("loose").await;
                scene
                    .patch("loose", json!({"metadata": {"finalizers": null}}))
                    .await;
                Ok(())
            },
        )
        .await?;
    scene
        .attack(
            "an object that foreign finalizers hold for ever",
            async |scene| {
                scene.put("held", json!({})).await;
                scene.copied("held").await;
                let many: Vec<String> = (0..500).map(|n| format!("example.com/f{n}")).collect();
                scene
                    .patch("held", json!({"metadata": {"finalizers": many}}))
                    .await;
                scene.remove("held").await;
                Ok(())
            },
        )
        .await?;
    scene
        .attack("owner references to objects of others", async |scene| {
            let standing = scene.good.get(scene.kind(), "standing").await?;
            let owner = json!({"apiVersion": standing["apiVersion"], "kind": standing["kind"], "name": "standing",
                "uid": standing["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true});
            scene.put("owned", json!({})).await;
            scene.patch("owned", json!({"metadata": {"ownerReferences": [owner]}})).await;
            scene.remove("owned").await;
            Ok(())
        })
        .await?;
    scene
        .attack("a status that the consumer insists on", async |scene| {
            scene.put("boasts", json!({})).await;
            let at = format!("{}/status", scene.kind().at("default", "boasts"));
            for n in 0..50 {
                let _refused = scene
                    .bad
                    .plane
                    .merge(&at, json!({"status": {"n": n}}))
                    .await;
            }
            Ok(())
        })
        .await
}
