//! What a decision costs: 2 KiB and 200 KiB, in step and changed, and what knowing by fingerprints costs
//! instead. `cargo bench --bench engine` measures time; allocations a decision are printed first.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "what a benchmark finds is for its terminal, and a broken one may end"
)]

use std::collections::{BTreeMap, HashMap};
use std::hint::black_box;
use std::sync::Arc;

use criterion::Criterion;
use hawser_sync::{
    Codec, CopyOrigin, CopyRecord, Entry, Finalizer, Fingerprint, FingerprintSource, Found, Intent,
    Key, Labels, Link, LinkId, Marks, Memory, MemoryPlace, Owner, PassView, Policy, Question,
    Reason, Report, Rules, Scope, Seen, Settled, Side, Snapshot, Source, Store, Subject, Target,
    decide,
};
use kube_lang::object::{Gvk, Object};
use serde_json::{Value, json};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

#[derive(Debug)]
struct Bench(Key);

impl Rules for Bench {
    fn place(&self, _: &Object) -> Result<Key, Reason> {
        Ok(self.0.clone())
    }

    fn desired(&self, source: &Object, _: &Object, _: Option<&Object>) -> Result<Object, Reason> {
        let mut object = source.clone();
        object.root_mut().remove("status");
        let name = object.name().to_owned();
        object
            .root_mut()
            .insert("metadata".into(), json!({ "name": name }));
        Ok(object)
    }

    fn marks(&self, _: &Object, _: CopyOrigin) -> Marks {
        let mut marks = Marks::default();
        marks.identity.labels.insert("of".into(), "a".into());
        marks
    }

    fn owner(&self, _: &Object) -> Owner {
        Owner::Ours(CopyOrigin::Created)
    }

    fn status(&self, from: &Object, _: &Object, _: &Object) -> Result<Option<Value>, Reason> {
        Ok(from.root().get("status").cloned())
    }
}

/// Reads one snapshot from text, as a real format has to.
#[derive(Debug)]
struct Text;

impl Codec for Text {
    fn read(&self, stored: &Object, links: &[Link]) -> Memory {
        let text = stored.root().get("text").and_then(Value::as_str);
        let snapshot = text.and_then(|text| serde_json::from_str::<Object>(text).ok());
        let entry = Entry {
            snapshot: snapshot.map(Snapshot::whole),
            copy: CopyRecord::Unrecorded,
            pending: None,
        };
        Memory {
            entries: BTreeMap::from([(links[0].id.clone(), entry)]),
        }
    }

    fn write(
        &self,
        stored: Option<&Object>,
        _: &[Link],
        _: &BTreeMap<LinkId, Option<Entry>>,
    ) -> Result<Object, Reason> {
        Ok(stored
            .cloned()
            .unwrap_or_else(|| Object::empty(&Gvk::new("", "v1", "S"), None, "s")))
    }
}

struct World {
    objects: HashMap<Key, (Arc<Object>, Fingerprint)>,
}

impl Store for World {
    fn get(&self, key: &Key) -> Seen {
        self.objects.get(key).map_or(Seen::Absent, |(object, _)| {
            Seen::Present(Arc::clone(object))
        })
    }

    fn find(&self, scope: &Scope, _: &Labels) -> Found {
        let of_scope = self.objects.iter().filter(|(key, _)| key.scope() == *scope);
        Found::All(
            of_scope
                .map(|(key, (object, _))| (key.clone(), Arc::clone(object)))
                .collect(),
        )
    }

    fn saw_deletion(&self, _: &Key) -> bool {
        false
    }

    fn saw_end(&self, _: &Key) -> bool {
        false
    }

    fn fingerprint_of(&self, key: &Key, object: &Object) -> Fingerprint {
        match self.objects.get(key) {
            Some((known, fingerprint)) if std::ptr::eq(Arc::as_ptr(known), object) => *fingerprint,
            _ => Fingerprint::of(object),
        }
    }
}

impl FingerprintSource for World {
    fn fingerprint(&self, question: &Question) -> Option<Fingerprint> {
        Some(match question {
            Question::Object(key) => self
                .objects
                .get(key)
                .map_or(Fingerprint::ABSENT, |(_, fingerprint)| *fingerprint),
            Question::Marked(scope, _) => {
                let all = self.objects.iter().filter(|(key, _)| key.scope() == *scope);
                Fingerprint::of_all(all.map(|(_, (_, fingerprint))| *fingerprint))
            }
        })
    }
}

fn stage(fields: usize, changed: bool) -> (Subject, World) {
    let kind = |name| Arc::new(Gvk::new("example.com", "v1", name));
    let scope = |side, name| Scope::new(&Side::new(side), &kind(name), "");
    let source = scope("kcp", "Thing").key(Some("default"), "a");
    let copy = scope("svc", "Thing").key(Some("copies"), "a");
    let memory = scope("svc", "State").key(Some("agent"), "a");
    let spec: serde_json::Map<_, _> = (0..fields)
        .map(|n| {
            (
                format!("field{n}"),
                json!({"value": "x".repeat(80), "n": n}),
            )
        })
        .collect();
    let thing = |name: &str| {
        json!({"apiVersion": "example.com/v1", "kind": "Thing", "spec": spec, "status": {"ok": 1},
            "metadata": {"name": name, "uid": name, "resourceVersion": "1",
                "labels": {"of": "a"}, "finalizers": ["f"]}})
    };
    let mut a = Object::new(thing("a")).unwrap();
    let rules = Bench(copy.clone());
    let remembered = rules.desired(&a, &a, None).unwrap();
    let text = serde_json::to_string(&remembered).unwrap();
    let state = json!({"metadata": {"name": "s", "uid": "s"}, "text": text});
    if changed {
        a.root_mut()["spec"]["field1"] = json!("changed");
    }
    let objects = [
        (source.clone(), a),
        (copy.clone(), Object::new(thing("b")).unwrap()),
        (memory.clone(), Object::new(state).unwrap()),
    ];
    let objects = objects.map(|(key, object)| {
        let fingerprint = Fingerprint::of(&object);
        (key, (Arc::new(object), fingerprint))
    });
    let subject = Subject {
        anchor: source.clone(),
        finalizer: Some(Finalizer::new("f")),
        memory: Some(MemoryPlace {
            key: memory,
            codec: Arc::new(Text),
        }),
        intent: Intent::Sync,
        links: vec![Link {
            id: LinkId::new("primary"),
            wave: 0,
            source: Source::Live(source),
            target: Target::Marked {
                scope: copy.scope(),
                labels: Labels::from([("of", "a".into())]),
            },
            rules: Arc::new(rules),
            policy: Policy::primary(),
        }],
    };
    let objects = HashMap::from(objects);
    (subject, World { objects })
}

fn main() {
    let sizes = [("2 KiB", 17), ("200 KiB", 1750)];
    for (size, fields) in sizes {
        for (what, changed) in [("in step", false), ("changed", true)] {
            let (subject, world) = stage(fields, changed);
            let profiler = dhat::Profiler::builder().testing().build();
            black_box(decide(&subject, &PassView::new(&world)));
            let stats = dhat::HeapStats::get();
            println!(
                "{size} {what}: {} allocations, {} bytes a decision",
                stats.total_blocks, stats.total_bytes
            );
            drop(profiler);
        }
    }
    let mut criterion = Criterion::default().configure_from_args();
    for (size, fields) in sizes {
        for (what, changed) in [("in step", false), ("changed", true)] {
            let (subject, world) = stage(fields, changed);
            let first = decide(&subject, &PassView::new(&world));
            assert_eq!(first.steps.is_empty(), !changed);
            criterion.bench_function(&format!("decide, {size}, {what}"), |b| {
                b.iter(|| decide(black_box(&subject), &PassView::new(black_box(&world))));
            });
        }
        let (subject, world) = stage(fields, false);
        let view = PassView::new(&world);
        let decision = decide(&subject, &view);
        let asked = view.take_asked();
        let report = Report {
            outcomes: decision.outcomes,
            happened: Vec::new(),
            reverted: Vec::new(),
            requests: 0,
            recheck: None,
            fingerprints: asked.iter().map(|one| world.fingerprint(one)).collect(),
            asked,
        };
        let settled = Settled::of(&report, 1).expect("in step");
        criterion.bench_function(&format!("know by fingerprints, {size}, in step"), |b| {
            b.iter(|| assert!(black_box(&settled).holds(1, black_box(&world))));
        });
    }
    criterion.final_summary();
}
