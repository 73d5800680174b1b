use super::*;
use crate::api::ApiBody;
use crate::protobuf;
use crate::store::Retention;

async fn maps(count: usize) -> Ground {
    let ground = Ground::new();
    for index in 0..count {
        let mut sent = map(&format!("m{index:03}"));
        sent["metadata"]["labels"] = json!({"odd": (index % 2 == 1).to_string()});
        ground.post(MAPS, sent).await.ok();
    }
    ground
}

#[tokio::test]
async fn a_list_has_a_kind_a_revision_and_the_objects_in_order() {
    let ground = Ground::with_things().await;
    let made = ground.post(THINGS, thing("b", &json!({}))).await.ok();
    ground.post(THINGS, thing("a", &json!({}))).await.ok();
    let list = ground.get(THINGS).await.ok();
    assert_eq!(
        (&list["kind"], &list["apiVersion"]),
        (&json!("ThingList"), &json!("example.com/v1"))
    );
    assert_eq!(names(&list), ["a", "b"]);
    assert_eq!(list["items"][1], made);
    assert_eq!(version(&list), ground.store.revision());
    let everywhere = ground.get("/apis/example.com/v1/things").await.ok();
    assert_eq!(names(&everywhere), ["a", "b"]);
    let empty = ground.get("/api/v1/namespaces/nowhere/secrets").await.ok();
    assert_eq!(empty["items"], json!([]));
}

#[tokio::test]
async fn pages_show_one_state_however_much_happens_in_between() {
    let ground = maps(7).await;
    let first = ground.get(&format!("{MAPS}?limit=3")).await.ok();
    assert_eq!(names(&first), ["m000", "m001", "m002"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 4);
    ground.delete(&format!("{MAPS}/m004")).await.ok();
    ground.post(MAPS, map("m0035")).await.ok();
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = ground
        .get(&format!("{MAPS}?limit=3&continue={token}"))
        .await
        .ok();
    assert_eq!(names(&second), ["m003", "m004", "m005"]);
    assert_eq!(
        second["metadata"]["resourceVersion"],
        first["metadata"]["resourceVersion"]
    );
    let token = second["metadata"]["continue"].as_str().unwrap();
    let third = ground
        .get(&format!("{MAPS}?limit=3&continue={token}"))
        .await
        .ok();
    assert_eq!(names(&third), ["m006"]);
    assert_eq!(third["metadata"].get("continue"), None);
    ground.store.compact();
    ground
        .get(&format!("{MAPS}?limit=3&continue={token}"))
        .await
        .refused(410, "Expired", "The provided continue parameter is too old");
    assert_eq!(
        ground.get(&format!("{MAPS}?continue=nonsense")).await.code,
        400
    );
}

#[tokio::test]
async fn selectors_choose_and_pages_of_a_choice_do_not_count_the_rest() {
    let ground = maps(6).await;
    let odd = ground
        .get(&format!("{MAPS}?labelSelector=odd%3Dtrue&limit=2"))
        .await
        .ok();
    assert_eq!(names(&odd), ["m001", "m003"]);
    assert_eq!(odd["metadata"].get("remainingItemCount"), None);
    assert!(odd["metadata"]["continue"].is_string());
    // A full page is not the last one as long as anything comes after it, wanted or not.
    let first = ground
        .get(&format!("{MAPS}?labelSelector=odd%3Dfalse&limit=3"))
        .await
        .ok();
    assert_eq!(names(&first), ["m000", "m002", "m004"]);
    let token = first["metadata"]["continue"].as_str().unwrap();
    let last = ground
        .get(&format!(
            "{MAPS}?labelSelector=odd%3Dfalse&limit=3&continue={token}"
        ))
        .await
        .ok();
    assert_eq!(names(&last), [""; 0]);
    assert_eq!(last["metadata"].get("continue"), None);
    let one = ground
        .get(&format!(
            "{MAPS}?fieldSelector=metadata.name%3Dm002&limit=1"
        ))
        .await
        .ok();
    assert_eq!(names(&one), ["m002"]);
    assert_eq!(one["metadata"].get("continue"), None);
    // What the items are is said by the list alone, also where something stands before it.
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let role = json!({"metadata": {"name": "all"}, "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}});
    ground.post(roles, role).await.ok();
    let all = format!("{roles}?fieldSelector=metadata.name%3Dall");
    let all = ground.get(&all).await.ok();
    assert!(all["items"][0].get("aggregationRule").is_some());
    assert_eq!(all["items"][0].get("kind"), None);
    assert_eq!(all["items"][0].get("apiVersion"), None);
    assert_eq!(one["items"][0].get("kind"), None);
    assert_eq!(one["items"][0].get("apiVersion"), None);
    let rest = ground
        .get("/api/v1/configmaps?fieldSelector=metadata.namespace!=default")
        .await
        .ok();
    assert_eq!(rest["items"], json!([]));
    ground
        .get(&format!("{MAPS}?fieldSelector=data.a%3Db"))
        .await
        .refused(
            400,
            "BadRequest",
            "\"data.a\" is not a known field selector",
        );
    assert_eq!(
        ground
            .get(&format!("{MAPS}?labelSelector=a%20b"))
            .await
            .code,
        400
    );
}

#[tokio::test]
async fn custom_resources_are_selected_by_their_selectable_fields() {
    let ground = Ground::with_things().await;
    ground
        .post(THINGS, thing("a", &json!({"mode": "fast"})))
        .await
        .ok();
    ground.post(THINGS, thing("b", &json!({}))).await.ok();
    let slow = ground
        .get(&format!("{THINGS}?fieldSelector=spec.mode%3Dslow"))
        .await
        .ok();
    assert_eq!(names(&slow), ["b"]);
}

#[tokio::test]
async fn a_list_of_an_exact_revision_shows_that_state() {
    let ground = maps(2).await;
    let then = ground.store.revision();
    ground.delete(&format!("{MAPS}/m000")).await.ok();
    let exact =
        |revision: u64| format!("{MAPS}?resourceVersion={revision}&resourceVersionMatch=Exact");
    let before = ground.get(&exact(then)).await.ok();
    assert_eq!(names(&before), ["m000", "m001"]);
    assert_eq!(version(&before), then);
    let any = ground.get(&format!("{MAPS}?resourceVersion=0")).await.ok();
    assert_eq!(names(&any), ["m001"]);
    ground.store.compact();
    ground.get(&exact(then)).await.refused(
        410,
        "Expired",
        "The resourceVersion for the provided list is too old.",
    );
}

#[tokio::test(start_paused = true)]
async fn a_list_of_the_future_waits_for_a_while() {
    let ground = maps(1).await;
    let future = ground.store.revision() + 100;
    let refused = ground
        .get(&format!("{MAPS}?resourceVersion={future}"))
        .await
        .refused(504, "Timeout", "Too large resource version");
    assert_eq!(
        refused["details"]["causes"][0]["reason"],
        "ResourceVersionTooLarge"
    );
}

#[tokio::test]
async fn the_past_is_bounded() {
    let ground = Ground::with(StoreOptions {
        retention: Retention {
            changes: 5,
            bytes: 1 << 20,
        },
        ..StoreOptions::default()
    });
    let start = ground.store.revision();
    for index in 0..10 {
        ground.post(MAPS, map(&format!("m{index}"))).await.ok();
    }
    let refused = ground
        .get(&format!(
            "{MAPS}?resourceVersion={start}&resourceVersionMatch=Exact"
        ))
        .await;
    assert_eq!(refused.code, 410);
    let mut events = ground
        .watch(&format!("{MAPS}?watch=true&resourceVersion={start}"))
        .await;
    let event = events.next().await.unwrap();
    assert_eq!(
        (&event["type"], &event["object"]["code"]),
        (&json!("ERROR"), &json!(410))
    );
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn metadata_alone_is_shown_to_who_asks_for_it() {
    let ground = maps(1).await;
    let accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let response = ground
        .raw(Method::GET, MAPS, &[(ACCEPT, accept)], b"")
        .await;
    let ApiBody::Full(body) = response.body else {
        panic!("a stream")
    };
    let list: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    let item = &list["items"][0];
    assert_eq!(
        (&item["kind"], &item["apiVersion"]),
        (&json!("PartialObjectMetadata"), &json!("meta.k8s.io/v1"))
    );
    assert_eq!(item["metadata"]["name"], "m000");
    assert_eq!(item.get("data"), None);
}

/// Whether a list is sent piece by piece, the types that are said of it, and all of it.
async fn sent(ground: &Ground, query: &str, accept: &str) -> (bool, Option<String>, Bytes) {
    let target = format!("{MAPS}{query}");
    let response = ground
        .raw(Method::GET, &target, &[(ACCEPT, accept)], b"")
        .await;
    assert_eq!(response.status, 200, "{query} {accept}");
    let media_type = response.headers.get(CONTENT_TYPE);
    let media_type = media_type.map(|value| value.to_str().unwrap().to_owned());
    let in_pieces = matches!(response.body, ApiBody::Pieces(_));
    (in_pieces, media_type, response.body.whole().unwrap())
}

#[tokio::test]
async fn a_large_list_is_sent_in_pieces_and_a_small_one_whole() {
    const PACKED: &str = "application/vnd.kubernetes.protobuf";
    let ground = Ground::new();
    for name in ["a", "b", "c"] {
        let large = json!({"metadata": {"name": name}, "data": {"k": "v".repeat(40_000)}});
        ground.post(MAPS, large).await.ok();
    }
    for (query, count) in [
        ("", 3),
        ("?limit=2", 2),
        ("?limit=1", 1),
        ("?labelSelector=x", 0),
    ] {
        let large = count > 1;
        let (in_pieces, media_type, json) = sent(&ground, query, "application/json").await;
        assert_eq!((in_pieces, media_type), (large, None), "{query}");
        let json: Value = serde_json::from_slice(&json).unwrap();
        assert_eq!(names(&json), ["a", "b", "c"][..count], "{query}");

        let (in_pieces, media_type, packed) = sent(&ground, query, PACKED).await;
        assert_eq!(
            (in_pieces, media_type.as_deref()),
            (large, Some(PACKED)),
            "{query}"
        );
        let (_, items) = protobuf::decode_list(&packed);
        assert_eq!(Value::from(items), json["items"], "{query}");
    }
}
