use super::*;

fn lines(metrics: &Metrics) -> Vec<String> {
    metrics.render().lines().map(str::to_owned).collect()
}

#[track_caller]
fn says(metrics: &Metrics, line: &str) {
    let lines = lines(metrics);
    assert!(
        lines.iter().any(|said| said == line),
        "{line} is not in\n{}",
        lines.join("\n")
    );
}

#[test]
fn counters_have_their_full_names_and_labels_in_order() {
    let metrics = Metrics::new();
    let settled = Some(Outcome::Settled);
    let (brief, long) = (Duration::from_millis(3), Duration::from_secs(1000));
    metrics.worked("syncagent-sync", brief, long, settled);
    metrics.worked("syncagent-sync", brief, long, None);
    let refused = Outcome::Failed(Some(long));
    metrics.worked("refusing", brief, long, Some(refused));
    let host = "kcp:6443";
    metrics.request("kcp", &Method::PATCH, host, Some(409));
    metrics.request("kcp", &Method::PATCH, host, Some(409));
    metrics.request("service", &Method::GET, host, None);
    metrics.leads("syncagent.one");
    metrics.pass("in step", "", Duration::ZERO);
    metrics.events(EventFate::Dropped, 1);
    for line in [
        "# TYPE controller_runtime_reconcile_total counter",
        "controller_runtime_reconcile_total{controller=\"syncagent-sync\",result=\"success\"} 1",
        "controller_runtime_reconcile_total{controller=\"syncagent-sync\",result=\"error\"} 1",
        "controller_runtime_reconcile_errors_total{controller=\"syncagent-sync\"} 1",
        "controller_runtime_reconcile_total{controller=\"refusing\",result=\"requeue_after\"} 1",
        "controller_runtime_reconcile_errors_total{controller=\"refusing\"} 0",
        "rest_client_requests_total{code=\"409\",method=\"PATCH\",host=\"kcp:6443\"} 2",
        "rest_client_requests_total{code=\"<error>\",method=\"GET\",host=\"kcp:6443\"} 1",
        "hawser_requests_total{side=\"kcp\",verb=\"patch\",code=\"409\"} 2",
        "hawser_requests_total{side=\"service\",verb=\"get\",code=\"\"} 1",
        "leader_election_master_status{name=\"syncagent.one\"} 1",
        "hawser_passes_total{outcome=\"in step\",reason=\"\"} 1",
        "controller_runtime_reconcile_panics_total{controller=\"syncagent-sync\"} 1",
        "workqueue_queue_duration_seconds_sum{name=\"syncagent-sync\",controller=\"syncagent-sync\"} 0.006",
        "workqueue_work_duration_seconds_sum{name=\"syncagent-sync\",controller=\"syncagent-sync\"} 2000",
        "hawser_events_total{result=\"dropped\"} 1",
    ] {
        says(&metrics, line);
    }
    metrics.set_standby("syncagent.one");
    says(
        &metrics,
        "leader_election_master_status{name=\"syncagent.one\"} 0",
    );
}

#[test]
fn histograms_add_up() {
    let metrics = Metrics::new();
    for millis in [1, 4, 400_000, 20] {
        metrics.carried(Direction::Spec, Some(Duration::from_millis(millis)));
    }
    for line in [
        "# TYPE hawser_latency_seconds histogram",
        "hawser_latency_seconds_bucket{direction=\"spec\",le=\"0.001\"} 1",
        "hawser_latency_seconds_bucket{direction=\"spec\",le=\"0.005\"} 2",
        "hawser_latency_seconds_bucket{direction=\"spec\",le=\"0.025\"} 3",
        "hawser_latency_seconds_bucket{direction=\"spec\",le=\"300\"} 3",
        "hawser_latency_seconds_bucket{direction=\"spec\",le=\"+Inf\"} 4",
        "hawser_latency_seconds_sum{direction=\"spec\"} 400.025",
        "hawser_latency_seconds_count{direction=\"spec\"} 4",
    ] {
        says(&metrics, line);
    }
}

#[test]
fn a_queue_is_told_as_it_is() {
    let metrics = Metrics::new();
    let state = QueueState {
        ready: 3,
        oldest: Duration::from_secs(9),
        busy: 2,
        unfinished: Duration::from_secs(8),
        longest: Duration::from_secs(5),
        adds: 7,
        retries: 1,
    };
    metrics.queue("c", 4, state);
    metrics.queue("c", 4, QueueState { adds: 9, ..state });
    let labels = "{name=\"c\",controller=\"c\"}";
    for (name, value) in [
        ("workqueue_depth", 3),
        ("workqueue_adds_total", 9),
        ("workqueue_retries_total", 1),
        ("workqueue_unfinished_work_seconds", 8),
        ("workqueue_longest_running_processor_seconds", 5),
    ] {
        says(&metrics, &format!("{name}{labels} {value}"));
    }
    says(&metrics, "hawser_queue_oldest_seconds{name=\"c\"} 9");
    for (name, value) in [("max_concurrent_reconciles", 4), ("active_workers", 2)] {
        let line = format!("controller_runtime_{name}{{controller=\"c\"}} {value}");
        says(&metrics, &line);
    }
}

#[test]
fn a_kind_that_is_not_watched_any_more_is_told_no_more() {
    let metrics = Metrics::new();
    let size = Size {
        entries: 12,
        bytes: 4096,
        fragments: 1,
        left_out: 5,
        largest: 1024,
        silence: Duration::from_secs(90),
    };
    metrics.cache("service", "Bucket", size);
    for line in [
        "hawser_cache_entries{side=\"service\",kind=\"Bucket\"} 12",
        "hawser_cache_bytes{side=\"service\",kind=\"Bucket\"} 4096",
        "hawser_unreadable_objects{side=\"service\",kind=\"Bucket\"} 1",
        "hawser_cache_left_out_objects{side=\"service\",kind=\"Bucket\"} 5",
        "hawser_cache_largest_workspace_bytes{side=\"service\",kind=\"Bucket\"} 1024",
        "hawser_cache_silence_seconds{side=\"service\",kind=\"Bucket\"} 90",
    ] {
        says(&metrics, line);
    }
    metrics.forget("service", "Bucket");
    assert!(!metrics.render().contains("Bucket"));
    metrics.held_deletions("Bucket", 3);
    says(&metrics, "hawser_held_deletions{kind=\"Bucket\"} 3");
}

#[test]
fn label_values_are_escaped_and_bounded() {
    let metrics = Metrics::new();
    let size = Size {
        entries: 1,
        ..Size::default()
    };
    metrics.cache("kcp", "a\"b\\c\nd", size);
    says(
        &metrics,
        r#"hawser_cache_entries{side="kcp",kind="a\"b\\c\nd"} 1"#,
    );
    for number in 0..3000 {
        metrics.cache("kcp", &number.to_string(), size);
    }
    says(
        &metrics,
        "hawser_cache_entries{side=\"other\",kind=\"other\"} 1",
    );
    let series = lines(&metrics)
        .into_iter()
        .filter(|line| line.starts_with("hawser_cache_entries{"));
    assert_eq!(series.count(), 2001);
}

/// Each line of the text format, as a reader of it takes it apart.
#[test]
fn everything_can_be_read_back() {
    let metrics = Metrics::new();
    let again = Some(Outcome::Again(Duration::MAX));
    metrics.worked("c", Duration::ZERO, Duration::ZERO, again);
    metrics.queue("c", 4, QueueState::default());
    let sample = regex::Regex::new(
        r#"^([a-z_]+)(\{[a-z_]+="[^"]*"(,[a-z_]+="[^"]*")*\})? (-?[0-9.]+(e-?[0-9]+)?|NaN|[+-]Inf)$"#,
    )
    .unwrap();
    let mut typed = std::collections::BTreeSet::new();
    for line in lines(&metrics) {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let name = rest.split(' ').next().unwrap();
            assert!(typed.insert(name.to_owned()), "{name} comes twice");
        } else if !line.starts_with("# HELP ") {
            let name = &sample.captures(&line).unwrap_or_else(|| panic!("{line}"))[1];
            let family = ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|end| name.strip_suffix(end).filter(|name| typed.contains(*name)));
            assert!(typed.contains(family.unwrap_or(name)), "{line} has no type");
        }
    }
    for name in [
        "process_cpu_seconds_total",
        "process_resident_memory_bytes",
        "process_open_fds",
    ] {
        assert!(typed.contains(name), "{name}");
    }
}

#[test]
fn no_label_names_a_workspace_or_an_object() {
    for (name, labels) in NAMES {
        for label in *labels {
            assert!(
                [
                    "controller",
                    "result",
                    "name",
                    "code",
                    "method",
                    "host",
                    "version",
                    "outcome",
                    "class",
                    "reason",
                    "side",
                    "verb",
                    "direction",
                    "kind"
                ]
                .contains(label),
                "{name} has the label {label}"
            );
        }
        let counts = name.ends_with("_total");
        assert!(counts || !name.ends_with("count"), "{name}");
    }
}
