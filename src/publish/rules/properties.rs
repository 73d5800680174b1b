//! What holds for any content, over objects in hand.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Map, json};

use super::tests::{CLUSTER, Stage};
use super::*;
use hawser_sync::Facts;

/// Any JSON, with numbers of all spellings and sizes.
pub(super) fn content() -> impl Strategy<Value = Value> {
    let float = prop_oneof![
        prop::num::f64::NORMAL | prop::num::f64::SUBNORMAL | prop::num::f64::ZERO,
        any::<i32>().prop_map(f64::from),
        (-30..30).prop_map(|exponent| 10f64.powi(exponent)),
        (60..66).prop_map(|exponent| -(2f64.powi(exponent))),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        float.prop_map(Value::from),
        ".{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-c<~/]{1,2}", inner, 0..4).prop_map(object),
        ]
    })
}

fn object(map: BTreeMap<String, Value>) -> Value {
    map.into_iter().collect::<Map<_, _>>().into()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_content_is_read_back_from_the_state_as_it_was_written(spec in content(), status in content()) {
        let stage = Stage::new(json!({}));
        let subject = stage.create(CLUSTER, "a", spec);
        stage.pass(&subject);
        prop_assert_eq!(stage.pass(&subject), (Vec::new(), Code::InStep));

        let place = subject.memory.as_ref().unwrap();
        let stored = stage.hands.object(&place.key).unwrap();
        let memory = place.codec.read(&stored, &subject.links);
        let desired = Facts::default().desired(&subject.links[0], &stage.source(&subject), None).unwrap();
        let entry = memory.entries[&subject.links[0].id].clone();
        prop_assert_eq!(entry.snapshot.as_ref().unwrap().object(), &*desired);
        let changes = BTreeMap::from([(subject.links[0].id.clone(), Some(entry))]);
        let again = place.codec.write(Some(&stored), &subject.links, &changes).unwrap();
        prop_assert_eq!(&again, &*stored);

        let mut copy = Object::clone(&stage.copy().1);
        copy.root_mut().insert("status".into(), status);
        stage.hands.put(&stage.copy().0, &copy);
        stage.pass(&subject);
        prop_assert_eq!(stage.pass(&subject), (Vec::new(), Code::InStep));
    }
}
