//! Creates beside changes of what they depend on: each comes out as if it had been alone.

use std::collections::BTreeMap;

use super::*;

/// Makers of objects, and somebody who changes what they are made by.
const MAKERS: usize = 3;
const EACH: usize = 60;
const CHANGES: usize = 40;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_object_is_made_by_the_definition_of_its_revision() {
    let ground = Arc::new(Ground::with_things().await);
    let crd = format!("{CRDS}/things.example.com");
    let first = version(&ground.get(&crd).await.ok());
    let makers: Vec<_> = (0..MAKERS)
        .map(|maker| {
            let ground = Arc::clone(&ground);
            tokio::spawn(async move {
                for nth in 0..EACH {
                    let name = format!("{maker}-{nth}");
                    ground.post(THINGS, thing(&name, &json!({}))).await.ok();
                    let named = json!({"metadata": {"generateName": "x-"}});
                    ground.post(MAPS, named).await.ok();
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    let mut modes = BTreeMap::from([(first, "slow".to_owned())]);
    for nth in 0..CHANGES {
        let mode = format!("mode-{nth}");
        let at = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/mode/default";
        let change = json!([{"op": "replace", "path": at, "value": mode}]);
        let changed = ground.patch(&crd, JSON_PATCH, change).await.ok();
        modes.insert(version(&changed), mode);
        tokio::task::yield_now().await;
    }
    for maker in makers {
        maker.await.unwrap();
    }
    let things = ground.get(THINGS).await.ok();
    let things = things["items"].as_array().unwrap();
    assert_eq!(things.len(), MAKERS * EACH);
    for made in things {
        let (_, mode) = modes.range(..version(made)).next_back().unwrap();
        assert_eq!(made["spec"]["mode"], **mode, "{made}");
    }
    let maps = ground.get(MAPS).await.ok();
    assert_eq!(names(&maps).len(), MAKERS * EACH);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_is_left_in_a_namespace_that_goes_while_objects_are_made() {
    const SPACES: &str = "/api/v1/namespaces";
    let ground = Arc::new(Ground::new());
    let inside = format!("{SPACES}/n/configmaps");
    let makers: Vec<_> = (0..MAKERS)
        .map(|maker| {
            let (ground, inside) = (Arc::clone(&ground), inside.clone());
            tokio::spawn(async move {
                for nth in 0..EACH * 2 {
                    let answer = ground.post(&inside, map(&format!("{maker}-{nth}"))).await;
                    assert!(matches!(answer.code, 201 | 403 | 404), "{}", answer.body);
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    for _ in 0..CHANGES {
        let space = json!({"metadata": {"name": "n"}});
        ground.post(SPACES, space).await.ok();
        tokio::task::yield_now().await;
        ground.delete(&format!("{SPACES}/n")).await.ok();
        assert_eq!(ground.get(&format!("{SPACES}/n")).await.code, 404);
        assert!(names(&ground.get(&inside).await.ok()).is_empty());
    }
    for maker in makers {
        maker.await.unwrap();
    }
    assert!(names(&ground.get(&inside).await.ok()).is_empty());
}
