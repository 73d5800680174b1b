use serde_json::json;

use super::*;
use fuzz;

fn golden() -> Vec<(String, Vec<u8>, Value)> {
    use base64::Engine as _;

    let golden: Value =
        serde_json::from_str(include_str!("../../../../tests/data/protobuf.json")).unwrap();
    let cases = golden["cases"].as_array().unwrap().iter();
    cases
        .map(|case| {
            let body = base64::engine::general_purpose::STANDARD
                .decode(case["protobuf"].as_str().unwrap())
                .unwrap();
            let id = case["id"].as_str().unwrap().to_owned();
            (id, body, without_nulls(case["want"].clone()))
        })
        .collect()
}

/// Go writes null for what is not set; here it is left out.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => map
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name, without_nulls(value)))
            .collect(),
        Value::Array(list) => list.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

#[test]
fn every_body_of_a_typed_client_becomes_the_json_of_its_object() {
    let cases = golden();
    assert!(cases.len() > 15);
    for (id, body, want) in cases {
        assert!(is_protobuf(&body));
        let got = decode(&body).unwrap_or_else(|e| panic!("{id}: {e}"));
        assert_eq!(got, want, "{id}");
    }
}

fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2, u8::try_from(bytes.len()).unwrap()];
    out.extend(bytes);
    out
}

fn body(kind: &str, raw: &[u8]) -> Vec<u8> {
    let types = [field(1, b"v1"), field(2, kind.as_bytes())].concat();
    [MAGIC.to_vec(), field(1, &types), field(2, raw)].concat()
}

#[track_caller]
fn refused(body: &[u8], want: &ProtobufError) {
    assert_eq!(decode(body).as_ref(), Err(want));
}

#[test]
fn bodies_that_are_not_right_are_refused_with_the_reason() {
    refused(b"{}", &ProtobufError::NoMagic);
    refused(b"k8s\0\x0a\x05a", &ProtobufError::Truncated("a field"));
    refused(b"k8s\0\x0a", &ProtobufError::Truncated("a number"));
    refused(b"k8s\0\x02\x00", &ProtobufError::FieldZero);
    refused(b"k8s\0\x0b", &ProtobufError::WireType(3));
    refused(&[MAGIC, &[0xff; 11]].concat(), &ProtobufError::LongVarint);
    refused(
        &body("Pod", b""),
        &ProtobufError::UnknownKind {
            api_version: "v1".into(),
            kind: "Pod".into(),
        },
    );
    refused(
        &[body("Secret", b""), field(3, b"gzip")].concat(),
        &ProtobufError::Encoding("gzip".into()),
    );
    let metadata = field(1, &field(1, b"\xff"));
    refused(&body("Secret", &metadata), &ProtobufError::NotUtf8("name"));
    let wrong = field(1, b"\x08\x01");
    refused(
        &body("Secret", &wrong),
        &ProtobufError::WrongWire {
            field: "name",
            wire: 0,
            wanted: 2,
        },
    );
    // Seconds far beyond the year 9999.
    let late = field(8, &[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]);
    refused(
        &body("Secret", &field(1, &late)),
        &ProtobufError::Time("creationTimestamp"),
    );
    let size = json::MAX_BODY + 1;
    refused(&vec![0; size], &ProtobufError::TooLarge { size });
}

#[test]
fn unknown_fields_are_skipped_and_split_messages_merged() {
    let raw = [
        field(1, &field(1, b"a")),
        vec![0xf8, 0x07, 0x01],
        vec![0xf9, 0x07, 0, 0, 0, 0, 0, 0, 0, 0],
        vec![0xfd, 0x07, 0, 0, 0, 0],
        field(1, &field(3, b"ns")),
    ]
    .concat();
    assert_eq!(
        decode(&body("ConfigMap", &raw)).unwrap(),
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "a", "namespace": "ns"},
        })
    );
}

#[test]
fn fuzz_protobuf() {
    let mut seeds: Vec<Vec<u8>> = golden().into_iter().map(|(_, body, _)| body).collect();
    seeds.push([MAGIC, &[0x12; 500]].concat());
    fuzz::run(&fuzz::mutated(seeds), |body| {
        if let Ok(value) = decode(body) {
            assert!(value["kind"].is_string());
        }
    });
}

/// The group, version and kind that an object says.
fn said(object: &Value) -> (String, String, String) {
    let text = |field: &str| object[field].as_str().unwrap().to_owned();
    let api_version = text("apiVersion");
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    (group.to_owned(), version.to_owned(), text("kind"))
}

fn packing(object: &Value) -> Option<Packing> {
    let (group, version, kind) = said(object);
    Packing::of(&group, &version, &kind)
}

#[test]
fn what_is_written_is_read_again_as_it_was() {
    let mut written = 0;
    for (id, _, want) in golden() {
        let Some(packing) = packing(&want) else {
            continue;
        };
        written += 1;
        let json = want.to_string();
        let object = packing.object(json.as_bytes());
        let object = object.unwrap_or_else(|error| panic!("{id}: {error}"));
        assert_eq!(decode(&packing.document(&object)).unwrap(), want, "{id}");
    }
    assert!(written > 15, "{written}");
}

#[test]
fn values_are_written_as_they_are_meant() {
    let event = json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {
            "name": "e", "namespace": "n", "uid": "u", "resourceVersion": "9007199254740993",
            "creationTimestamp": "1969-12-31T23:59:58Z", "deletionGracePeriodSeconds": 0,
            "labels": {"": "", "ä\n\"": "\u{2028}"}, "annotations": {"big": "x".repeat(70_000)},
            "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "o", "uid": "1", "controller": false}],
            "managedFields": [{
                "manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
                "fieldsV1": {"f:data": {".": {}, "k:{\"a\":1}": {}}}, "time": "9999-12-31T23:59:59Z",
            }],
        },
        "involvedObject": {}, "source": {"host": "h"}, "count": -3, "reportingComponent": "",
        "reportingInstance": "", "eventTime": "2024-02-29T00:00:00.000001Z",
    });
    let packing = packing(&event).unwrap();
    let object = packing.object(event.to_string().as_bytes()).unwrap();
    assert_eq!(decode(&packing.document(&object)).unwrap(), event);
}

#[test]
fn what_cannot_be_written_is_refused_and_not_left_out() {
    let refused = |object: Value| {
        let packing = packing(&object).unwrap();
        let refused = packing.object(object.to_string().as_bytes());
        refused.unwrap_err().to_string()
    };
    let map =
        |field: &str, value: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", field: value});
    for (object, why) in [
        (
            map("spec", json!({})),
            "no number is known of field \"spec\"",
        ),
        (map("data", json!({"a": 1})), "field \"data\" is an integer"),
        (map("data", json!(["a"])), "field \"data\" is a list"),
        (map("data", json!("a")), "field \"data\" is a string"),
        (map("binaryData", json!({"a": "*"})), "Invalid symbol 42"),
        (
            map("immutable", json!("yes")),
            "field \"immutable\" is a string",
        ),
        (
            map("metadata", json!(true)),
            "field \"metadata\" is a boolean",
        ),
        (
            map("metadata", json!({"kind": "K"})),
            "no number is known of field \"kind\"",
        ),
        (
            map("metadata", json!({"generation": 0.5})),
            "is a number with a fraction",
        ),
        (
            map("metadata", json!({"generation": u64::MAX})),
            "is too large an integer",
        ),
    ] {
        let said = refused(object);
        assert!(said.contains(why), "{said}");
    }
    // Nothing is nothing, and a time that is none was never.
    let never = map("metadata", json!({"creationTimestamp": "now"}));
    let object = packing(&never)
        .unwrap()
        .object(never.to_string().as_bytes());
    assert_eq!(object.unwrap(), [0x12, 2, 0x0a, 0][..]);
    let nothing = map("data", Value::Null);
    let packing = packing(&nothing).unwrap();
    assert_eq!(
        packing.object(nothing.to_string().as_bytes()).unwrap(),
        [0x12, 0][..]
    );
}

/// The names of the fields that a kind has by its published type and not by its message.
fn missing(message: &kinds::Message, schema: &Value, path: &str, missing: &mut Vec<String>) {
    let published = crate::openapi::builtin::types();
    let resolved;
    let mut schema = schema;
    if let Some(name) = crate::openapi::builtin::referred(schema) {
        resolved = published.get(name).unwrap();
        schema = &resolved;
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        // The kind of the whole stands in its envelope.
        if !path.contains('.') && matches!(name.as_str(), "apiVersion" | "kind") {
            continue;
        }
        let path = format!("{path}.{name}");
        let Some(entry) = message.fields.iter().find(|entry| entry.name == name) else {
            missing.push(path);
            continue;
        };
        if let kinds::Kind::Message(inner) = entry.kind {
            let below = property.get("items").unwrap_or(property);
            self::missing(inner, below, &path, missing);
        }
    }
}

#[test]
fn every_published_field_of_what_is_written_has_a_number() {
    let published = crate::openapi::builtin::types();
    let rbac = "rbac.authorization.k8s.io";
    let (access, who) = ("authorization.k8s.io", "authentication.k8s.io");
    let mut all = Vec::new();
    for (group, kind) in [
        ("", "Namespace"),
        ("", "ConfigMap"),
        ("", "Secret"),
        ("", "ServiceAccount"),
        ("", "ResourceQuota"),
        ("", "Event"),
        ("events.k8s.io", "Event"),
        ("coordination.k8s.io", "Lease"),
        (rbac, "Role"),
        (rbac, "ClusterRole"),
        (rbac, "RoleBinding"),
        (rbac, "ClusterRoleBinding"),
        (access, "SubjectAccessReview"),
        (access, "LocalSubjectAccessReview"),
        (access, "SelfSubjectAccessReview"),
        (access, "SelfSubjectRulesReview"),
        (who, "TokenReview"),
        (who, "SelfSubjectReview"),
        ("", "Status"),
    ] {
        let written = kinds::find(group, "v1", kind);
        let message = written.or((kind == "Status").then_some(&kinds::STATUS));
        let name = published.name_of(group, "v1", kind);
        let definition = published.get(name.unwrap()).unwrap();
        missing(message.unwrap(), &definition, kind, &mut all);
    }
    // Of servers in shards, which ours is not.
    assert_eq!(all, ["Status.metadata.shardInfo"]);
}

#[test]
fn documents_are_put_together_as_clients_take_them_apart() {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}});
    let packing = packing(&secret).unwrap();
    let object = packing.object(secret.to_string().as_bytes()).unwrap();
    let name = field(1, &field(1, b"s"));
    assert_eq!(object, field(2, &name));
    let document = packing.document(&object);
    let types = [field(1, b"v1"), field(2, b"Secret")].concat();
    let end = [field(3, b""), field(4, b"")].concat();
    let expected = [MAGIC, &field(1, &types), &field(2, &name), &end].concat();
    assert_eq!(document, expected);

    let meta = json!({"resourceVersion": "7", "continue": "c", "remainingItemCount": 1});
    let kind = ("", "v1", "SecretList");
    let meta = meta.to_string();
    let (head, tail) = Packing::list(kind, meta.as_bytes(), 2 * object.len()).unwrap();
    let types = [field(1, b"v1"), field(2, b"SecretList")].concat();
    let meta = [field(2, b"7"), field(3, b"c"), vec![4 << 3, 1]].concat();
    let list = [field(1, &meta), object.to_vec(), object.to_vec()].concat();
    let expected = [MAGIC, &field(1, &types), &field(2, &list), &end].concat();
    // Fields of metadata come in the order of their names.
    let found = [&*head, &object, &object, tail].concat();
    assert_eq!(found.len(), expected.len());
    assert_eq!(found[..20], expected[..20]);

    let frame = Packing::event("ADDED", &document);
    let told = [field(1, b"ADDED"), field(2, &field(1, &document))].concat();
    let size = u32::try_from(told.len()).unwrap().to_be_bytes();
    assert_eq!(frame, [&size[..], &told].concat());

    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "gone", "reason": "Expired", "code": 410});
    let status = Packing::status(status.to_string().as_bytes()).unwrap();
    let ours = [
        vec![6 << 3, 0x9a, 0x03],
        field(3, b"gone"),
        field(1, b""),
        field(4, b"Expired"),
        field(2, b"Failure"),
    ];
    let types = [field(1, b"v1"), field(2, b"Status")].concat();
    let expected = [MAGIC, &field(1, &types), &field(2, &ours.concat()), &end].concat();
    assert_eq!(status, expected);
}

#[test]
fn times_are_written_to_the_second_whatever_their_zone() {
    for (text, want) in [
        ("2024-02-29T12:00:00Z", "2024-02-29T12:00:00Z"),
        ("2024-02-29T12:00:00+02:00", "2024-02-29T10:00:00Z"),
        (
            "2024-02-29T12:00:00.999999999-00:30",
            "2024-02-29T12:30:00Z",
        ),
        ("1969-12-31T23:59:59.5Z", "1969-12-31T23:59:59Z"),
        ("0001-01-02T00:00:00Z", "0001-01-02T00:00:00Z"),
        ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"),
    ] {
        let map = |at: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"creationTimestamp": at}});
        let packing = packing(&map(text)).unwrap();
        let object = packing.object(map(text).to_string().as_bytes()).unwrap();
        assert_eq!(
            decode(&packing.document(&object)).unwrap(),
            map(want),
            "{text}"
        );
    }
}
