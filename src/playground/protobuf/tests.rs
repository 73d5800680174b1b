use serde_json::json;

use super::*;
use crate::playground::fuzz;

fn golden() -> Vec<(String, Vec<u8>, Value)> {
    use base64::Engine as _;

    let golden: Value =
        serde_json::from_str(include_str!("../../../tests/data/protobuf.json")).unwrap();
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
    assert!(cases.len() > 20);
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

#[test]
fn schemas_are_read_no_deeper_than_json_is() {
    // `items` of `items`, as a client nests them.
    let nested = |levels: usize| {
        let mut schema = Vec::new();
        for _ in 0..levels {
            let either = long_field(1, &schema);
            schema = [vec![0xc2, 0x01], length(either.len()), either].concat();
        }
        let validation = long_field(1, &schema);
        let version = long_field(4, &validation);
        let spec = long_field(7, &version);
        let types = [
            field(1, b"apiextensions.k8s.io/v1"),
            field(2, b"CustomResourceDefinition"),
        ]
        .concat();
        let raw = long_field(2, &long_field(2, &spec));
        [MAGIC.to_vec(), field(1, &types), raw].concat()
    };
    assert!(decode(&nested(50)).is_ok());
    refused(&nested(100), &ProtobufError::TooDeep);
    refused(&nested(5_000), &ProtobufError::TooDeep);
}

fn long_field(number: u8, bytes: &[u8]) -> Vec<u8> {
    [vec![number << 3 | 2], length(bytes.len()), bytes.to_vec()].concat()
}

fn length(mut length: usize) -> Vec<u8> {
    let mut out = Vec::new();
    while length >= 0x80 {
        out.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
        length >>= 7;
    }
    out.push(u8::try_from(length).unwrap());
    out
}
