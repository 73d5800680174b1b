//! Answers in other forms than the object's: tables and metadata.

use super::*;

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const PARTIAL: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const PARTIALS: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";

impl Ground {
    async fn as_form(&self, method: Method, target: &str, accept: &str, body: Value) -> Answer {
        let body = match body {
            Value::Null => Vec::new(),
            body => body.to_string().into_bytes(),
        };
        let media_type = match method {
            Method::PATCH => MERGE,
            _ => "application/json",
        };
        let headers = [(ACCEPT, accept), (CONTENT_TYPE, media_type)];
        Answer::of(self.raw(method, target, &headers, &body).await)
    }

    async fn table(&self, target: &str) -> Value {
        self.as_form(Method::GET, target, TABLE, json!(null))
            .await
            .ok()
    }

    async fn watch_as(&self, target: &str, accept: &str) -> Events {
        let response = self
            .raw(Method::GET, target, &[(ACCEPT, accept)], b"")
            .await;
        match response.body {
            ApiBody::Stream(lines) => Events { lines },
            body => panic!("{target} answered {:?}", body.whole()),
        }
    }
}

fn clock() -> StoreOptions {
    StoreOptions {
        clock: || "2026-03-01T12:00:00Z".parse().unwrap(),
        ..StoreOptions::default()
    }
}

fn heads(table: &Value) -> Vec<&str> {
    let columns = table["columnDefinitions"].as_array().unwrap();
    columns
        .iter()
        .map(|c| c["name"].as_str().unwrap())
        .collect()
}

/// Things with a column of each type.
fn shown_things() -> Value {
    let mut crd = things();
    crd["spec"]["versions"][0]["additionalPrinterColumns"] = json!([
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Mode", "type": "string", "jsonPath": ".spec.mode", "priority": 1},
        {"name": "Ready", "type": "boolean", "jsonPath": ".status.ready"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]);
    crd
}

#[tokio::test]
async fn lists_of_built_in_kinds_are_shown_with_their_columns() {
    let ground = Ground::with(clock());
    ground.post(MAPS, map("a")).await.ok();
    let table = ground.table(MAPS).await;
    assert_eq!(table["kind"], "Table");
    assert_eq!(table["apiVersion"], "meta.k8s.io/v1");
    assert_eq!(heads(&table), ["Name", "Data", "Age"]);
    assert!(table["metadata"]["resourceVersion"].is_string());
    let rows = table["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0]["cells"], json!(["a", 1, "0s"]));
    let object = &rows[0]["object"];
    assert_eq!(object["kind"], "PartialObjectMetadata");
    assert_eq!(object["apiVersion"], "meta.k8s.io/v1");
    assert_eq!(object["metadata"]["name"], "a");
    assert_eq!(object["data"], json!(null));
}

#[tokio::test]
async fn custom_resources_are_shown_with_the_columns_of_their_version() {
    let ground = Ground::with(clock());
    ground.post(CRDS, shown_things()).await.ok();
    ground
        .post(THINGS, thing("a", &json!({"size": 3})))
        .await
        .ok();
    ground.post(THINGS, thing("b", &json!({}))).await.ok();
    let table = ground.table(THINGS).await;
    assert_eq!(heads(&table), ["Name", "Size", "Mode", "Ready", "Age"]);
    assert_eq!(table["columnDefinitions"][2]["priority"], 1);
    assert_eq!(table["metadata"]["continue"], json!(null));
    assert_eq!(
        table["rows"][0]["cells"],
        json!(["a", 3, "slow", null, "0s"])
    );
    assert_eq!(
        table["rows"][1]["cells"],
        json!(["b", null, "slow", null, "0s"])
    );
    let other = ground.table(&THINGS.replace("v1", "v2")).await;
    assert_eq!(heads(&other), ["Name", "Age"]);
}

#[tokio::test]
async fn a_table_of_nothing_has_its_columns() {
    let ground = Ground::new();
    let table = ground.table(MAPS).await;
    assert_eq!(table["rows"], json!([]));
    assert_eq!(heads(&table), ["Name", "Data", "Age"]);
    let table = ground.table(ROLES).await;
    assert_eq!(table["rows"], json!(null));
    assert_eq!(heads(&table), ["Name", "Created At"]);
}

#[tokio::test]
async fn pages_of_tables_go_on_as_others() {
    let ground = Ground::new();
    for name in ["a", "b", "c"] {
        ground.post(MAPS, map(name)).await.ok();
    }
    let first = ground.table(&format!("{MAPS}?limit=2")).await;
    assert_eq!(first["rows"].as_array().unwrap().len(), 2);
    assert_eq!(first["metadata"]["remainingItemCount"], 1);
    let token = first["metadata"]["continue"].as_str().unwrap();
    let rest = ground
        .table(&format!("{MAPS}?limit=2&continue={token}"))
        .await;
    assert_eq!(rest["rows"][0]["cells"][0], "c");
    assert_eq!(rest["metadata"]["continue"], json!(null));
}

#[tokio::test]
async fn rows_have_beside_them_what_was_asked_for() {
    let ground = Ground::new();
    ground.post(MAPS, map("a")).await.ok();
    let with = async |include: &str| {
        let table = ground
            .table(&format!("{MAPS}?includeObject={include}"))
            .await;
        table["rows"][0]["object"].clone()
    };
    assert_eq!(with("None").await, json!(null));
    assert_eq!(with("Metadata").await["kind"], "PartialObjectMetadata");
    let whole = with("Object").await;
    assert_eq!(
        (&whole["kind"], &whole["data"]),
        (&json!("ConfigMap"), &json!({"a": "b"}))
    );
    ground
        .as_form(
            Method::GET,
            &format!("{MAPS}?includeObject=All"),
            TABLE,
            json!(null),
        )
        .await
        .refused(
            400,
            "BadRequest",
            "must be 'Metadata', 'Object', 'None', or empty",
        );
    ground.get(&format!("{MAPS}?includeObject=All")).await.ok();
}

#[tokio::test]
async fn objects_and_the_answers_of_writes_are_tables_of_one_row() {
    let ground = Ground::new();
    let made = ground.as_form(Method::POST, MAPS, TABLE, map("a")).await;
    assert_eq!(made.code, 201);
    let made = made.ok();
    assert_eq!(made["rows"][0]["cells"][0], "a");
    let path = format!("{MAPS}/a");
    let read = ground.table(&path).await;
    assert_eq!(
        read["metadata"]["resourceVersion"],
        made["metadata"]["resourceVersion"]
    );
    let change = json!({"data": {"c": "d"}, "metadata": {"finalizers": ["e.com/f"]}});
    let patched = ground
        .as_form(Method::PATCH, &path, TABLE, change)
        .await
        .ok();
    assert_eq!(patched["rows"][0]["cells"][1], 2);
    let gone = ground
        .as_form(Method::DELETE, &path, TABLE, json!(null))
        .await
        .ok();
    assert_eq!(gone["kind"], "Table");
    let free = json!({"metadata": {"finalizers": null}});
    let freed = ground.as_form(Method::PATCH, &path, TABLE, free).await.ok();
    assert_eq!(freed["rows"][0]["cells"][0], "a");
    ground.post(MAPS, map("b")).await.ok();
    let path = format!("{MAPS}/b");
    let gone = ground
        .as_form(Method::DELETE, &path, TABLE, json!(null))
        .await
        .ok();
    assert_eq!(gone["kind"], "Status");
    ground.post(MAPS, map("c")).await.ok();
    let gone = ground
        .as_form(Method::DELETE, MAPS, TABLE, json!(null))
        .await
        .ok();
    assert_eq!(gone["rows"][0]["cells"][0], "c");
    let nothing = ground.as_form(Method::GET, &path, TABLE, json!(null)).await;
    nothing.refused(404, "NotFound", "configmaps \"b\" not found");
}

#[tokio::test]
async fn a_watch_tells_its_columns_once() {
    let ground = Ground::with(clock());
    ground.post(MAPS, map("a")).await.ok();
    let target = format!(
        "{MAPS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    );
    let mut events = ground.watch_as(&target, TABLE).await;
    let added = events.next().await.unwrap();
    assert_eq!(added["type"], "ADDED");
    assert_eq!(heads(&added["object"]), ["Name", "Data", "Age"]);
    assert_eq!(added["object"]["rows"][0]["cells"], json!(["a", 1, "0s"]));
    let mark = events.next().await.unwrap();
    assert_eq!(mark["type"], "BOOKMARK");
    assert_eq!(mark["object"]["columnDefinitions"], json!(null));
    let row = &mark["object"]["rows"][0];
    assert_eq!(row["cells"], json!(["", 0, "<unknown>"]));
    assert_eq!(
        row["object"],
        json!({
            "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
            "metadata": {
                "resourceVersion": mark["object"]["metadata"]["resourceVersion"],
                "annotations": {"k8s.io/initial-events-end": "true"},
            },
        })
    );
    ground.post(MAPS, map("b")).await.ok();
    let later = events.next().await.unwrap();
    assert_eq!(later["object"]["columnDefinitions"], json!(null));
    assert_eq!(later["object"]["rows"][0]["cells"][0], "b");
    ground.delete(&format!("{MAPS}/b")).await.ok();
    let gone = events.next().await.unwrap();
    assert_eq!(gone["type"], "DELETED");
    assert_eq!(gone["object"]["rows"][0]["cells"][0], "b");
}

#[tokio::test]
async fn a_watch_of_nothing_tells_its_columns_with_the_bookmark() {
    let ground = Ground::new();
    let target = format!(
        "{MAPS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&includeObject=Object"
    );
    let mut events = ground.watch_as(&target, TABLE).await;
    let mark = events.next().await.unwrap();
    assert_eq!(heads(&mark["object"]), ["Name", "Data", "Age"]);
    assert_eq!(mark["object"]["rows"][0]["object"]["kind"], "ConfigMap");
}

#[tokio::test]
async fn metadata_alone_is_answered_in_the_fitting_form_only() {
    let ground = Ground::with_things().await;
    ground
        .post(THINGS, thing("a", &json!({"size": 1})))
        .await
        .ok();
    let path = format!("{THINGS}/a");
    let ask = async |target: &str, accept: &str| {
        ground
            .as_form(Method::GET, target, accept, json!(null))
            .await
    };
    let one = ask(&path, PARTIAL).await.ok();
    assert_eq!(one["kind"], "PartialObjectMetadata");
    assert_eq!(
        (&one["metadata"]["name"], &one["spec"]),
        (&json!("a"), &json!(null))
    );
    let older = ask(&path, &PARTIAL.replace("v=v1", "v=v1beta1")).await.ok();
    assert_eq!(older["apiVersion"], "meta.k8s.io/v1beta1");
    let list = ask(THINGS, PARTIALS).await.ok();
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    assert_eq!(list["items"][0]["kind"], "PartialObjectMetadata");
    assert_eq!(list["metadata"]["continue"], json!(null));
    ask(THINGS, PARTIAL)
        .await
        .refused(406, "NotAcceptable", "is a list");
    ask(&path, PARTIALS).await.refused(500, "", "not a list");
    ground.post(MAPS, map("a")).await.ok();
    ask(&format!("{MAPS}/a"), PARTIALS).await.refused(
        406,
        "NotAcceptable",
        "is not a list (*core.ConfigMap)",
    );
    let mut events = ground.watch_as(&format!("{THINGS}?watch=1"), PARTIAL).await;
    let event = events.next().await.unwrap();
    assert_eq!(event["object"]["kind"], "PartialObjectMetadata");
    let mut events = ground
        .watch_as(&format!("{THINGS}?watch=1"), PARTIALS)
        .await;
    let event = events.next().await.unwrap();
    assert_eq!(event["object"]["kind"], "Thing");
}

#[tokio::test]
async fn what_is_never_stored_has_no_table() {
    let ground = Ground::new();
    let reviews = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let ask = async |accept: &str| {
        ground
            .as_form(Method::POST, reviews, accept, json!({}))
            .await
    };
    ask(TABLE).await.refused(406, "NotAcceptable", "");
    let answer = ask(&format!("{TABLE},application/json")).await.ok();
    assert_eq!(answer["kind"], "SelfSubjectReview");
}

#[tokio::test]
async fn fields_that_nobody_knows_are_refused_as_their_kind_does() {
    let ground = Ground::with_things().await;
    for (path, message) in [
        (
            "/api/v1/configmaps",
            "\"spec.nope\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
        ),
        ("/api/v1/secrets", "field label not supported: spec.nope"),
        (
            "/apis/example.com/v1/things",
            "field label not supported: spec.nope",
        ),
    ] {
        let target = format!("{path}?fieldSelector=spec.nope=1");
        let answer = ground.get(&target).await;
        let said = answer.refused(400, "BadRequest", message)["message"].clone();
        assert_eq!(said, message, "{path}");
    }
    let spaces = "/api/v1/namespaces?fieldSelector=metadata.namespace=x";
    ground
        .get(spaces)
        .await
        .refused(400, "BadRequest", "metadata.namespace");
    let roles = ground
        .get(&format!("{ROLES}?fieldSelector=metadata.namespace=x"))
        .await
        .ok();
    assert_eq!(roles["items"], json!([]));
}

#[tokio::test]
async fn events_are_selected_by_who_tells_them() {
    let ground = Ground::new();
    let events = "/api/v1/namespaces/default/events";
    let event = |name: &str, more: Value| {
        let mut event = json!({
            "metadata": {"name": name},
            "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        });
        for (field, value) in more.as_object().unwrap() {
            event[field] = value.clone();
        }
        event
    };
    ground
        .post(events, event("old", json!({"source": {"component": "me"}})))
        .await
        .ok();
    ground
        .post(events, event("new", json!({"reportingComponent": "me"})))
        .await
        .ok();
    ground
        .post(events, event("other", json!({"reportingComponent": "you"})))
        .await
        .ok();
    let found = ground
        .get(&format!("{events}?fieldSelector=source=me"))
        .await
        .ok();
    assert_eq!(names(&found), ["new", "old"]);
}
