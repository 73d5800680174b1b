//! Discovery in one document.

use http::header::{ETAG, IF_NONE_MATCH, VARY};

use super::*;

const V2: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

async fn ask(
    ground: &Ground,
    path: &str,
    headers: &[(http::HeaderName, &str)],
) -> (ApiResponse, Value) {
    let mut response = ground.raw(Method::GET, path, headers, b"").await;
    let body = std::mem::replace(&mut response.body, ApiBody::Full(Bytes::new()));
    let ApiBody::Full(body) = body else {
        panic!("the answer is a stream");
    };
    let document = serde_json::from_slice(&body).unwrap_or_default();
    (response, document)
}

/// Group, version and resource with its parts, as one of the two forms tells them.
type Told = Vec<(String, String, String, Value)>;

async fn told_plainly(ground: &Ground) -> Told {
    let mut told = Vec::new();
    let groups = ground.get("/apis").await.ok();
    let mut versions = vec![(String::new(), "/api/v1".to_owned())];
    for group in groups["groups"].as_array().unwrap() {
        for version in group["versions"].as_array().unwrap() {
            let path = format!("/apis/{}", version["groupVersion"].as_str().unwrap());
            versions.push((group["name"].as_str().unwrap().to_owned(), path));
        }
    }
    for (group, path) in versions {
        let list = ground.get(&path).await.ok();
        let version = path.rsplit('/').next().unwrap().to_owned();
        for resource in list["resources"].as_array().unwrap() {
            let name = resource["name"].as_str().unwrap().to_owned();
            let entry = json!([
                resource["kind"],
                resource["verbs"],
                resource["namespaced"],
                resource["shortNames"],
                resource["categories"],
                resource["singularName"],
            ]);
            told.push((group.clone(), version.clone(), name, entry));
        }
    }
    told.sort_by_key(|(group, version, name, _)| (group.clone(), version.clone(), name.clone()));
    told
}

async fn told_at_once(ground: &Ground) -> Told {
    let mut told = Vec::new();
    for path in ["/api", "/apis"] {
        let (_, document) = ask(ground, path, &[(ACCEPT, V2)]).await;
        for group in document["items"].as_array().unwrap() {
            let name = group["metadata"]["name"].as_str().unwrap_or_default();
            for version in group["versions"].as_array().unwrap() {
                let number = version["version"].as_str().unwrap();
                for resource in version["resources"].as_array().unwrap() {
                    let namespaced = json!(resource["scope"] == "Namespaced");
                    let plural = resource["resource"].as_str().unwrap();
                    let entry = json!([
                        resource["responseKind"]["kind"],
                        resource["verbs"],
                        namespaced,
                        resource["shortNames"],
                        resource["categories"],
                        resource["singularResource"],
                    ]);
                    told.push((name.to_owned(), number.to_owned(), plural.to_owned(), entry));
                    for part in resource["subresources"].as_array().into_iter().flatten() {
                        let part_name = part["subresource"].as_str().unwrap();
                        let entry = json!([
                            part["responseKind"]["kind"],
                            part["verbs"],
                            namespaced,
                            null,
                            null,
                            "",
                        ]);
                        let name_of_part = format!("{plural}/{part_name}");
                        told.push((name.to_owned(), number.to_owned(), name_of_part, entry));
                    }
                }
            }
        }
    }
    told.sort_by_key(|(group, version, name, _)| (group.clone(), version.clone(), name.clone()));
    told
}

#[tokio::test]
async fn everything_at_once_is_the_same_as_one_by_one() {
    let ground = Ground::with_things().await;
    let plainly = told_plainly(&ground).await;
    assert!(plainly.len() > 20);
    assert_eq!(told_at_once(&ground).await, plainly);
}

#[tokio::test]
async fn documents_say_what_they_are_and_built_in_kinds_leave_out_where() {
    let ground = Ground::with_things().await;
    let (response, document) = ask(&ground, "/apis", &[(ACCEPT, V2)]).await;
    assert_eq!(response.headers[CONTENT_TYPE], V2);
    assert_eq!(response.headers[VARY], "Accept");
    assert_eq!(document["kind"], "APIGroupDiscoveryList");
    assert_eq!(document["apiVersion"], "apidiscovery.k8s.io/v2");
    let group = |name: &str| {
        let groups = document["items"].as_array().unwrap();
        groups
            .iter()
            .find(|g| g["metadata"]["name"] == name)
            .unwrap()
    };
    let things = &group("example.com")["versions"];
    assert_eq!(things[0]["version"], "v2");
    assert_eq!(things[0]["freshness"], "Current");
    assert_eq!(
        things[1]["resources"][0],
        json!({
            "resource": "things", "singularResource": "thing", "scope": "Namespaced",
            "responseKind": {"group": "example.com", "version": "v1", "kind": "Thing"},
            "verbs": ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"],
            "shortNames": ["th"],
            "subresources": [{
                "subresource": "status",
                "responseKind": {"group": "example.com", "version": "v1", "kind": "Thing"},
                "verbs": ["get", "patch", "update"],
            }],
        })
    );
    let leases = &group("coordination.k8s.io")["versions"][0]["resources"][0];
    assert_eq!(
        leases["responseKind"],
        json!({"group": "", "version": "", "kind": "Lease"})
    );
    let (_, document) = ask(&ground, "/api", &[(ACCEPT, V2)]).await;
    assert_eq!(document["items"][0]["metadata"], json!({}));
}

#[tokio::test]
async fn who_has_the_document_already_is_not_sent_it_again() {
    let ground = Ground::with_things().await;
    let (first, _) = ask(&ground, "/apis", &[(ACCEPT, V2)]).await;
    let tag = first.headers[ETAG].to_str().unwrap().to_owned();
    let known = [(ACCEPT, V2), (IF_NONE_MATCH, &tag)];
    let (again, document) = ask(&ground, "/apis", &known).await;
    assert_eq!((again.status, document), (304, json!(null)));
    assert_eq!(again.headers[ETAG], tag);
    let mut other = things();
    other["metadata"]["name"] = "others.example.com".into();
    other["spec"]["names"] =
        json!({"plural": "others", "singular": "other", "kind": "Other", "listKind": "OtherList"});
    ground.post(CRDS, other).await.ok();
    let (changed, document) = ask(&ground, "/apis", &known).await;
    assert_eq!(changed.status, 200);
    assert_ne!(changed.headers[ETAG], tag);
    assert!(document.to_string().contains("others"));
}

#[tokio::test]
async fn only_the_roots_have_everything_and_only_in_clusters() {
    let ground = Ground::new();
    for path in ["/apis/coordination.k8s.io", "/api/v1"] {
        let (refused, _) = ask(&ground, path, &[(ACCEPT, V2)]).await;
        assert_eq!(refused.status, 406, "{path}");
        let both = format!("{V2},application/json");
        let (plain, _) = ask(&ground, path, &[(ACCEPT, &both)]).await;
        assert_eq!(plain.status, 200, "{path}");
        assert!(!plain.headers.contains_key(ETAG));
    }
}
