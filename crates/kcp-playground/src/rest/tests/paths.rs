use super::*;

#[tokio::test]
async fn discovery_tells_groups_versions_and_resources() {
    let ground = Ground::with_things().await;
    assert_eq!(ground.get("/api").await.ok()["versions"], json!(["v1"]));
    let groups = ground.get("/apis").await.ok();
    assert_eq!(groups["kind"], "APIGroupList");
    let found = groups["groups"].as_array().unwrap();
    let group = found
        .iter()
        .find(|group| group["name"] == "example.com")
        .unwrap();
    assert_eq!(group["preferredVersion"]["groupVersion"], "example.com/v2");
    let one = ground.get("/apis/example.com").await.ok();
    assert_eq!(
        (&one["kind"], &one["versions"]),
        (&json!("APIGroup"), &group["versions"])
    );
    let list = ground.get("/apis/example.com/v1").await.ok();
    assert_eq!(list["groupVersion"], "example.com/v1");
    let resources = list["resources"].as_array().unwrap();
    assert_eq!(resources[0]["name"], "things");
    assert_eq!(resources[0]["singularName"], "thing");
    assert_eq!(resources[0]["shortNames"], json!(["th"]));
    assert_eq!(
        resources[0]["verbs"],
        json!([
            "delete",
            "deletecollection",
            "get",
            "list",
            "patch",
            "create",
            "update",
            "watch"
        ])
    );
    assert_eq!(resources[1]["name"], "things/status");
    assert_eq!(resources[1]["verbs"], json!(["get", "patch", "update"]));
    let core = ground.get("/api/v1").await.ok();
    let names: Vec<&str> = core["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["name"].as_str().unwrap())
        .collect();
    assert!(
        names.contains(&"namespaces/finalize") && names.contains(&"secrets"),
        "{names:?}"
    );
    for missing in [
        "/api/v2",
        "/apis/none.com",
        "/apis/example.com/v9",
        "/nothing",
        "/",
    ] {
        assert_eq!(ground.get(missing).await.code, 404, "{missing}");
    }
    assert_eq!(ground.post("/apis", json!({})).await.code, 405);
}

#[tokio::test]
async fn what_is_not_served_is_said_to_be_missing() {
    let ground = Ground::with_things().await;
    ground.post(THINGS, thing("a", &json!({}))).await.ok();
    for path in [
        "/api/v1/pods",
        "/api/v1/nodes",
        "/api/v1/namespaces/default/services",
        "/api/v1/namespaces/default/services/a",
        "/api/v1/namespaces/default/endpoints",
        "/api/v1/persistentvolumes",
        "/api/v1/namespaces/default/serviceaccounts/default/token",
        "/apis/certificates.k8s.io/v1/certificatesigningrequests/a/approval",
        "/apis/apps",
        "/apis/apps/v1/deployments",
        "/apis/batch/v1/namespaces/default/jobs",
        "/apis/networking.k8s.io/v1/ingresses",
        "/apis/autoscaling/v1",
        "/metrics",
        "/logs",
        "/debug/pprof",
    ] {
        assert_eq!(ground.get(path).await.code, 404, "{path}");
        let posted = ground.post(path, json!({})).await;
        assert!(matches!(posted.code, 404 | 405), "{path} {}", posted.body);
    }
    let scale = format!("{THINGS}/a/scale");
    ground.get(&scale).await.refused(404, "NotFound", "");
    let protobuf = "application/vnd.kubernetes.protobuf";
    for (accept, code) in [
        ("application/cbor".to_owned(), 406),
        (format!("{protobuf}, application/json"), 200),
        (format!("{protobuf}, */*"), 200),
    ] {
        for path in [THINGS, MAPS, "/api"] {
            let answer = ground
                .raw(Method::GET, path, &[(ACCEPT, &accept)], b"")
                .await;
            assert_eq!(answer.status, code, "{path} {accept}");
        }
    }
    for path in ["/openapi/v2", "/openapi/v3/api/v1"] {
        let yaml = [(ACCEPT, "application/yaml")];
        assert_eq!(ground.raw(Method::GET, path, &yaml, b"").await.status, 406);
    }
}

#[tokio::test]
async fn probes_and_the_version_are_answered() {
    let ground = Ground::new();
    for probe in ["/readyz", "/livez", "/healthz", "/readyz/ping"] {
        let answer = ground.get(probe).await;
        assert_eq!((answer.code, &answer.body), (200, &json!("ok")));
    }
    let version = ground.get("/version").await.ok();
    assert_eq!(version["gitVersion"], "v1.34.2+kcp-v0.32.0");
    assert_eq!(
        (&version["major"], &version["minor"]),
        (&json!("1"), &json!("34"))
    );
}

#[tokio::test]
async fn addresses_that_are_nothing_are_missing_and_wrong_verbs_not_allowed() {
    let ground = Ground::with_things().await;
    for missing in [
        "/api/v1/namespaces/default/nothings",
        "/api/v1/namespaces/default/namespaces",
        "/apis/rbac.authorization.k8s.io/v1/namespaces/default/clusterroles",
        "/apis/example.com/v1/things/a",
        "/api/v1/namespaces/default/configmaps/a/status",
        "/apis/example.com/v3/things",
    ] {
        assert_eq!(ground.get(missing).await.code, 404, "{missing}");
    }
    // Of custom resources nothing is there where they cannot be created.
    for (refused, code) in [
        ("/apis/example.com/v1/things", 404),
        ("/api/v1/configmaps", 405),
    ] {
        let answer = ground.post(refused, json!({})).await;
        assert_eq!(answer.code, code, "{refused}");
    }
    let a = format!("{MAPS}/a");
    assert_eq!(ground.post(&a, map("a")).await.code, 405);
    assert_eq!(ground.put(MAPS, map("a")).await.code, 405);
    assert_eq!(ground.delete(&format!("{THINGS}/a/status")).await.code, 405);
}

#[tokio::test]
async fn bad_bodies_get_the_status_that_fits() {
    let ground = Ground::with_things().await;
    let json = [(CONTENT_TYPE, "application/json")];
    let deep = format!("{}1{}", "[".repeat(10_001), "]".repeat(10_001));
    for (body, code) in [
        (&b""[..], 400),
        (b"{", 400),
        (b"\xff\xfe", 400),
        (b"[]", 400),
        (b"null", 400),
        (b"{\"metadata\":7}", 400),
        (b"{\"metadata\":{\"name\":\"a\",\"labels\":{\"a\":1}}}", 400),
        (deep.as_bytes(), 400),
        (
            b"{\"kind\":\"Secret\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"a\"}}",
            400,
        ),
        (b"{\"metadata\":{\"name\":\"A_B\"}}", 422),
    ] {
        let answer = ground.raw(Method::POST, MAPS, &json, body).await;
        assert_eq!(
            answer.status,
            code,
            "{:?}",
            String::from_utf8_lossy(&body[..body.len().min(40)])
        );
    }
    let missing = ground
        .raw(
            Method::POST,
            THINGS,
            &json,
            b"{\"metadata\":{\"name\":\"a\"}}",
        )
        .await;
    assert_eq!(missing.status, 400);
    let huge = vec![b' '; 4 << 20];
    assert_eq!(
        ground.raw(Method::POST, MAPS, &json, &huge).await.status,
        413
    );
    let toml = [(CONTENT_TYPE, "application/toml")];
    assert_eq!(
        ground.raw(Method::POST, MAPS, &toml, b"a: b").await.status,
        415
    );
    let proto = [(CONTENT_TYPE, "application/vnd.kubernetes.protobuf")];
    assert_eq!(
        ground
            .raw(Method::POST, MAPS, &proto, b"k8s\0\xff")
            .await
            .status,
        400
    );
}

/// One request of foreign bytes: method, path, query, media type, body.
async fn digest(ground: &Ground, bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let mut parts = text.splitn(4, '\n');
    let method = match parts.next().unwrap_or_default().len() % 5 {
        0 => Method::GET,
        1 => Method::POST,
        2 => Method::PUT,
        3 => Method::PATCH,
        _ => Method::DELETE,
    };
    let target = parts
        .next()
        .unwrap_or_default()
        .replace(|c: char| c.is_control(), "");
    let media_type = parts
        .next()
        .unwrap_or_default()
        .replace(|c: char| !c.is_ascii_graphic(), "");
    let body = parts.next().unwrap_or_default().as_bytes();
    let response = ground
        .raw(method, &target, &[(CONTENT_TYPE, &media_type)], body)
        .await;
    assert!((200..600).contains(&response.status));
    if let ApiBody::Full(body) = response.body
        && response.status >= 400
    {
        let page = &*body == b"404 page not found\n";
        let status: Value = serde_json::from_slice(&body).unwrap_or_default();
        assert!(page || status["kind"] == "Status", "{body:?}");
    }
}

#[test]
fn fuzz_requests_are_answered_whatever_they_are() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    let ground = runtime.block_on(Ground::with_things());
    let seeds: Vec<Vec<u8>> = [
        format!("\n{MAPS}?limit=2&continue=abc&resourceVersion=3&resourceVersionMatch=Exact\n\n"),
        format!("\n{THINGS}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1\n\n"),
        format!("a\n{MAPS}?dryRun=All&fieldValidation=Strict\napplication/json\n{}", map("a")),
        format!("a\n{THINGS}\napplication/json\n{}", thing("a", &json!({"size": 3}))),
        format!("aa\n{THINGS}/a\napplication/json\n{}", thing("a", &json!({"size": 3}))),
        format!("aaa\n{THINGS}/a\n{JSON_PATCH}\n[{{\"op\":\"add\",\"path\":\"/spec/size\",\"value\":4}}]"),
        format!("aaa\n{MAPS}/a\n{STRATEGIC}\n{{\"data\":{{\"$patch\":\"replace\"}}}}"),
        format!("aaaa\n{MAPS}/a?propagationPolicy=Orphan\napplication/json\n{{\"preconditions\":{{\"uid\":\"x\"}}}}"),
        format!("a\n{CRDS}\napplication/json\n{}", things()),
        "\n/apis/example.com/v1/namespaces/%2e%2e/things/a/status\n\n".to_owned(),
    ]
    .into_iter()
    .map(String::into_bytes)
    .collect();
    let cases = fuzz::mutated(seeds);
    fuzz::run(&cases, |bytes| runtime.block_on(digest(&ground, bytes)));
}
