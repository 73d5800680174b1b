//! How many paths, expressions and mutations a second, over a small and a large object.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use hawser::testing::{Pipeline, Step};
use kube_lang::paths;
use kube_lang::template::{Engine, Template};
use serde_json::{Value, json};

/// An object of about so many bytes.
fn object(bytes: usize) -> Value {
    let items: Vec<Value> = (0..bytes / 100)
        .map(|i| json!({"name": format!("item-{i}"), "value": i, "note": "x".repeat(50)}))
        .collect();
    json!({
        "apiVersion": "v1", "kind": "Widget",
        "metadata": {"name": "w", "namespace": "n", "labels": {"app.kubernetes.io/name": "web"}},
        "spec": {"replicas": 3, "image": "docker.io/library/nginx:1", "items": items},
    })
}

fn reading_and_writing_paths(c: &mut Criterion) {
    let mut group = c.benchmark_group("paths");
    for bytes in [2_048, 204_800] {
        let doc = object(bytes);
        for path in [
            "metadata.labels.app\\.kubernetes\\.io/name",
            "spec.items.#(value==5).name",
            "spec.items.#.name",
        ] {
            group.bench_with_input(
                BenchmarkId::new(format!("get {path}"), bytes),
                &doc,
                |b, doc| {
                    b.iter(|| black_box(paths::get(doc, path)));
                },
            );
        }
        group.bench_with_input(
            BenchmarkId::new("set spec.replicas", bytes),
            &doc,
            |b, doc| {
                let mut doc = doc.clone();
                b.iter(|| paths::set(&mut doc, "spec.replicas", json!(5)));
            },
        );
    }
    group.finish();
}

fn applying_steps(c: &mut Criterion) {
    let text = ToOwned::to_owned;
    let steps = [
        (
            "regex",
            Step::Regex {
                path: text("spec.image"),
                pattern: text("^[^/]+/"),
                replacement: text("reg.local/"),
            },
        ),
        (
            "cel",
            Step::Cel {
                path: text("spec.replicas"),
                expression: text("self.spec.replicas * 2"),
            },
        ),
        (
            "cel over a list",
            Step::Cel {
                path: text("spec.names"),
                expression: text("self.spec.items.map(i, i.name)"),
            },
        ),
        (
            "regex on each element",
            Step::Regex {
                path: text("spec.items[*].name"),
                pattern: text("-"),
                replacement: text("_"),
            },
        ),
    ];
    let mut group = c.benchmark_group("mutation");
    for bytes in [2_048, 204_800] {
        let doc = object(bytes);
        for (name, step) in &steps {
            let pipeline = Pipeline::compile(std::slice::from_ref(step))
                .unwrap_or_else(|errors| panic!("{errors:?}"));
            group.bench_with_input(BenchmarkId::new(*name, bytes), &doc, |b, doc| {
                b.iter(|| black_box(pipeline.apply(doc, None)));
            });
        }
    }
    group.finish();
}

fn rendering_templates(c: &mut Criterion) {
    let mut group = c.benchmark_group("templates");
    let pattern =
        "{{ .Object.metadata.namespace | sha3short }}-{{ .Object.metadata.name | lower }}";
    let handlebars = "{{sha3short Object.metadata.namespace}}-{{lower Object.metadata.name}}";
    for bytes in [2_048, 204_800] {
        let data = json!({"Object": object(bytes), "ClusterName": "abc"});
        for (name, engine, text) in [
            ("go", Engine::Go, pattern),
            ("html", Engine::GoHtml, pattern),
            ("handlebars", Engine::Handlebars, handlebars),
        ] {
            let Ok(template) = Template::compile(engine, text) else {
                continue;
            };
            group.bench_with_input(BenchmarkId::new(name, bytes), &data, |b, data| {
                b.iter(|| black_box(template.render(data)));
            });
        }
    }
    group.finish();
}

/// Expressions that are stopped at the limit of steps, one for each kind of step: how long one of them may
/// take is the time of the slowest. The number of steps that docs/mutations.md gives is chosen by it.
fn ending_at_the_limit_of_steps(c: &mut Criterion) {
    let doc = json!({"spec": {
        "l": (0..10_000).collect::<Vec<_>>(),
        "t": (0..10_000).map(|n| format!("item-{n}")).collect::<Vec<_>>(),
        "m": (0..2_000).map(|n| (format!("key-{n}"), json!({"v": n}))).collect::<serde_json::Map<_, _>>(),
        "s": "ab".repeat(50_000),
    }});
    let mut group = c.benchmark_group("limit");
    group.sample_size(10);
    for (name, expression) in [
        ("elements", "spec.l.all(a, spec.l.all(b, true))"),
        ("calls", "spec.l.all(a, spec.l.all(b, a + b >= 0))"),
        ("paths", "spec.l.all(a, spec.l.all(b, size(spec.l) > 0))"),
        ("lists", "spec.l.map(a, [a, a, a]).map(b, [b, b])"),
        ("maps", "spec.l.map(a, spec.l.map(b, {'a': a, 'b': b}))"),
        ("members", "spec.l.all(a, spec.m.all(k, spec.m[k].v >= 0))"),
        ("texts", "spec.t.all(a, spec.t.all(b, a + b != ''))"),
        (
            "numbers as text",
            "spec.l.all(a, spec.l.all(b, string(b) != ''))",
        ),
        (
            "texts compared",
            "spec.t.all(a, spec.t.all(b, a <= b || b <= a))",
        ),
        ("lists compared", "spec.l.all(a, spec.l == spec.l)"),
        ("found in lists", "spec.l.all(a, a in spec.l)"),
        ("patterns", "spec.l.all(a, !spec.s.matches('(a|b|ab)*c'))"),
        (
            "long texts",
            "spec.l.all(a, spec.s.contains('abc') == false)",
        ),
        (
            "times",
            "spec.l.all(a, spec.l.all(b, timestamp('2024-01-01T00:00:00Z') + duration('1h') > timestamp('2023-01-01T00:00:00Z')))",
        ),
    ] {
        let step = Step::Cel {
            path: "spec.result".to_owned(),
            expression: expression.replace("spec.", "self.spec."),
        };
        let pipeline = Pipeline::compile(std::slice::from_ref(&step))
            .unwrap_or_else(|errors| panic!("{errors:?}"));
        assert!(pipeline.apply(&doc, None).is_err(), "{name} ends by itself");
        group.bench_function(name, |b| b.iter(|| black_box(pipeline.apply(&doc, None))));
    }
    group.finish();
}

criterion_group!(
    benches,
    ending_at_the_limit_of_steps,
    reading_and_writing_paths,
    applying_steps,
    rendering_templates
);
criterion_main!(benches);
