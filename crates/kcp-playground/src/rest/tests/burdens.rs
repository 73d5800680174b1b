//! What is asked for much, often or by many: it takes its time beside what serves others, and no more
//! memory than its bounds.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::join_all;
use http::header::ACCEPT;

use super::*;

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

static LOOKS: AtomicUsize = AtomicUsize::new(0);

/// Many objects, together larger than what is shown at once.
async fn crowded(clock: fn() -> jiff::Timestamp) -> Ground {
    let ground = Ground::with(StoreOptions {
        clock,
        ..StoreOptions::default()
    });
    for number in 0..300 {
        let mut map = map(&format!("m{number:03}"));
        map["data"]["large"] = "x".repeat(500).into();
        ground.post(MAPS, map).await.ok();
    }
    ground
}

fn noon() -> jiff::Timestamp {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

impl Ground {
    #[track_caller]
    fn answers_at_once(&self) {
        let answer = self.get(&format!("{MAPS}/m000")).now_or_never();
        assert_eq!(answer.expect("others have to wait").code, 200);
    }

    async fn table_watch(&self) -> Events {
        let target = format!("{MAPS}?watch=true");
        let response = self
            .raw(Method::GET, &target, &[(ACCEPT, TABLE)], b"")
            .await;
        match response.body {
            ApiBody::Stream(lines) => Events { lines },
            body => panic!("{:?}", body.whole()),
        }
    }
}

#[tokio::test]
async fn tables_of_watches_that_nobody_reads_are_not_made() {
    let ground = crowded(|| {
        LOOKS.fetch_add(1, Ordering::Relaxed);
        noon()
    })
    .await;
    let before = LOOKS.load(Ordering::Relaxed);
    let mut watches = Vec::new();
    for _ in 0..200 {
        watches.push(ground.table_watch().await);
    }
    assert_eq!(LOOKS.load(Ordering::Relaxed), before, "a row was made");
    let mut read = watches.pop().unwrap();
    for number in 0..300 {
        let event = read.next().await.unwrap();
        let row = &event["object"]["rows"][0]["cells"];
        assert_eq!(row[0], format!("m{number:03}"));
        assert_eq!(event["object"]["columnDefinitions"].is_array(), number == 0);
    }
    assert!(LOOKS.load(Ordering::Relaxed) >= before + 300);
}

#[tokio::test]
async fn a_large_table_is_made_while_others_are_answered() {
    let ground = crowded(noon).await;
    let list = ground.raw(Method::GET, MAPS, &[(ACCEPT, TABLE)], b"");
    tokio::pin!(list);
    assert!(
        list.as_mut().now_or_never().is_none(),
        "it was made at once"
    );
    ground.answers_at_once();
    let table = Answer::of(list.await).ok();
    assert_eq!(table["rows"].as_array().unwrap().len(), 300);

    let mut watch = ground.table_watch().await;
    assert!(watch.lines.next().now_or_never().is_none());
    ground.answers_at_once();
    assert_eq!(watch.next().await.unwrap()["type"], "ADDED");
}

#[tokio::test]
async fn a_large_document_is_made_once_for_all_who_ask_while_others_are_answered() {
    let ground = crowded(noon).await;
    for number in 0..10 {
        let mut crd = things();
        let plural = format!("things{number}");
        crd["metadata"]["name"] = format!("{plural}.example.com").into();
        crd["spec"]["names"] = json!({"plural": plural, "kind": format!("Thing{number}")});
        let properties = (0..200).map(|field| {
            let described = json!({"type": "string", "description": "d".repeat(200)});
            (format!("field{field}"), described)
        });
        for version in crd["spec"]["versions"].as_array_mut().unwrap() {
            let spec = &mut version["schema"]["openAPIV3Schema"]["properties"]["status"];
            spec["properties"] = Value::Object(properties.clone().collect());
        }
        ground.post(CRDS, crd).await.ok();
    }
    for path in ["/openapi/v2", "/openapi/v3/apis/example.com/v1"] {
        let mut asked: Vec<_> = (0..5)
            .map(|_| Box::pin(ground.raw(Method::GET, path, &[], b"")))
            .collect();
        for one in &mut asked {
            assert!(one.now_or_never().is_none(), "it was made at once");
        }
        ground.answers_at_once();
        let bodies: Vec<Bytes> = join_all(asked)
            .await
            .into_iter()
            .map(|answer| answer.body.whole().unwrap())
            .collect();
        assert!(bodies[0].len() > 400_000, "{}", bodies[0].len());
        for body in &bodies {
            assert_eq!(body.as_ptr(), bodies[0].as_ptr(), "it was made twice");
        }
        let again = ground.raw(Method::GET, path, &[], b"").now_or_never();
        assert_eq!(again.expect("it is made again").status, 200);
    }
}

#[tokio::test]
async fn what_no_etcd_would_store_is_refused() {
    let ground = Ground::with_things().await;
    let long = |size: usize| json!({"mode": "x".repeat(size)});
    let refused = ground.post(THINGS, thing("a", &long(1_600_000))).await;
    refused.refused(500, "", "request is too large");
    ground.post(THINGS, thing("a", &long(1_400_000))).await.ok();
    let one = format!("{THINGS}/a");
    let more = json!({"metadata": {"annotations": {"a": "x".repeat(200_000)}}});
    let refused = ground.patch(&one, MERGE, more).await;
    refused.refused(500, "", "request is too large");
    let less = json!({"spec": {"mode": "short"}});
    ground.patch(&one, MERGE, less).await.ok();
}

#[tokio::test]
async fn a_double_for_an_integer_is_another_number_until_it_is_stored() {
    let ground = Ground::with_things().await;
    let one = format!("{THINGS}/a");
    let raw = async |method: Method, target: &str, media_type: &str, body: &str| {
        let headers = [(CONTENT_TYPE, media_type)];
        let answer = ground.raw(method, target, &headers, body.as_bytes()).await;
        Answer::of(answer)
    };
    let body = r#"{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a"},"spec":{"size":2.0}}"#;
    let created = raw(Method::POST, THINGS, "application/json", body)
        .await
        .ok();
    assert_eq!(created["spec"]["size"].to_string(), "2");
    let patched = raw(Method::PATCH, &one, MERGE, r#"{"spec":{"size":2.0}}"#)
        .await
        .ok();
    assert_eq!(patched["spec"]["size"].to_string(), "2");
    assert_eq!(patched["metadata"]["generation"], 2);
    let patched = raw(Method::PATCH, &one, MERGE, r#"{"spec":{"size":2}}"#)
        .await
        .ok();
    assert_eq!(patched["metadata"]["generation"], 2);
    let refused = raw(Method::PATCH, &one, MERGE, r#"{"spec":{"size":2.5}}"#).await;
    refused.refused(422, "Invalid", "must be of type integer");
}
