use std::time::Duration;

use serde_json::json;

use super::*;

/// What has been written.
#[derive(Clone, Default)]
struct Paper(Arc<Mutex<Vec<u8>>>);

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A terminal that is gone.
struct Closed;

impl Write for Closed {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Err(io::ErrorKind::BrokenPipe.into())
    }
}

fn logged(format: LogFormat, verbosity: Verbosity, what: impl FnOnce()) -> Vec<String> {
    let paper = Paper::default();
    let options = LogOptions { format, verbosity };
    tracing::subscriber::with_default(subscriber(options, &[], paper.clone()), what);
    let text = String::from_utf8(paper.0.lock().clone()).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'));
    text.lines().map(str::to_owned).collect()
}

fn json_of(what: impl FnOnce()) -> Value {
    let lines = logged(LogFormat::Json, Verbosity::Info, what);
    assert_eq!(lines.len(), 1, "{lines:?}");
    serde_json::from_str(&lines[0]).unwrap()
}

#[test]
fn a_line_has_the_keys_that_readers_of_the_log_know() {
    let lines = logged(LogFormat::Json, Verbosity::Info, || {
        tracing::info!(
            logger = "sync",
            cluster = "root:org",
            number = 3,
            "object created"
        );
    });
    let line: Value = serde_json::from_str(&lines[0]).unwrap();
    assert_eq!(line["level"], "info");
    assert_eq!(line["logger"], "sync");
    assert_eq!(line["msg"], "object created");
    assert_eq!(line["cluster"], "root:org");
    assert_eq!(line["number"], 3);
    let caller = line["caller"].as_str().unwrap();
    let number = caller.strip_prefix("logging/tests.rs:").unwrap();
    assert!(number.parse::<u32>().unwrap() > 0);
    let time = line["time"].as_str().unwrap();
    assert_eq!(time.len(), "2025-02-06T17:39:01.145Z".len());
    assert!(time.ends_with('Z') && time.parse::<Timestamp>().is_ok());
    let keys: Vec<_> = RESERVED
        .iter()
        .map(|key| lines[0].find(&format!("\"{key}\":")).unwrap())
        .collect();
    assert!(keys.is_sorted(), "{}", lines[0]);
}

#[test]
fn durations_are_text_and_numbers_are_numbers() {
    let line = json_of(|| {
        tracing::warn!(
            took = ?Duration::from_millis(1500), share = 0.5, odd = f64::NAN, on = true, left = -1,
            "slow"
        );
    });
    assert_eq!(line["level"], "warn");
    assert_eq!(line["took"], "1.5s");
    assert_eq!(line["share"], 0.5);
    assert_eq!(line["odd"], "NaN");
    assert_eq!(line["on"], true);
    assert_eq!(line["left"], -1);
}

#[test]
fn a_field_can_name_the_logger_and_none_is_made_up() {
    let line = json_of(|| tracing::info!(logger = "export", "hello"));
    assert_eq!(line["logger"], "export");
    let line = json_of(|| tracing::info!("hello"));
    assert_eq!(line.get("logger"), None);
}

#[test]
fn fields_do_not_hide_the_keys_of_the_line() {
    let line = json_of(|| tracing::info!(level = "high", time = 3, r#type = "Secret", "hello"));
    assert_eq!(line["level"], "info");
    assert_eq!(line["level_"], "high");
    assert_eq!(line["time_"], 3);
    assert_eq!(line["type"], "Secret");
}

#[test]
fn what_is_around_an_event_stands_in_its_line_and_the_nearest_wins() {
    let line = json_of(|| {
        let outer = tracing::info_span!(
            "resource",
            logger = "sync",
            kind = "Bucket",
            late = tracing::field::Empty
        );
        let _outer = outer.clone().entered();
        let _inner = tracing::info_span!("object", name = "one", kind = "Crate").entered();
        outer.record("late", "now");
        tracing::info!(name = "two", "hello");
    });
    assert_eq!(
        (&line["logger"], &line["kind"], &line["name"], &line["late"]),
        (
            &json!("sync"),
            &json!("Crate"),
            &json!("two"),
            &json!("now")
        )
    );
}

#[test]
fn a_fatal_error_has_its_level_and_all_its_reasons() {
    #[derive(Debug, thiserror::Error)]
    #[error("reading the kubeconfig")]
    struct Outer(#[source] io::Error);

    let line = json_of(|| fatal("cannot start", &Outer(io::ErrorKind::NotFound.into())));
    assert_eq!(line["level"], "fatal");
    assert_eq!(line["msg"], "cannot start");
    assert_eq!(line["error"], "reading the kubeconfig: entity not found");
    assert_eq!(line.get("fatal"), None);
}

#[test]
fn debug_lines_are_ours_alone_and_only_on_demand() {
    let what = || {
        tracing::debug!(target: "hawser_runtime::process", "ours");
        tracing::debug!("ours");
        tracing::trace!("ours, but too much");
        tracing::debug!(target: "hyper_util::client", "theirs");
        tracing::info!(target: "kube_client", "theirs");
        tracing::warn!(target: "kube_client", "theirs, but worth a line");
    };
    assert_eq!(logged(LogFormat::Json, Verbosity::Info, what).len(), 1);
    assert_eq!(logged(LogFormat::Json, Verbosity::Debug, what).len(), 3);
}

#[test]
fn an_event_is_one_line_for_people_too() {
    let lines = logged(LogFormat::Console, Verbosity::Info, || {
        tracing::error!(
            logger = "sync",
            name = "a\nb",
            "first\nsecond\tthird \u{1b}[0m"
        );
        tracing::info!("hello");
    });
    assert_eq!(lines.len(), 2, "{lines:?}");
    let parts: Vec<_> = lines[0].split('\t').collect();
    assert_eq!(parts[1], "ERROR");
    assert_eq!(parts[2], "sync");
    assert!(parts[3].starts_with("logging/tests.rs:"));
    assert_eq!(parts[4], "first\\nsecond\\tthird \\u{1b}[0m");
    assert_eq!(parts[5], r#"{"name":"a\nb"}"#);
    assert_eq!(lines[1].split('\t').count(), 4);
}

#[test]
fn a_closed_stderr_ends_nothing() {
    let options = LogOptions {
        format: LogFormat::Json,
        verbosity: Verbosity::Info,
    };
    let mut passed = 0;
    tracing::subscriber::with_default(subscriber(options, &[], Closed), || {
        for _ in 0..3 {
            tracing::info!("into the void");
            passed += 1;
        }
    });
    assert_eq!(passed, 3);
}

#[test]
fn formats_are_read_in_any_case() {
    for (text, expected) in [
        ("JSON", LogFormat::Json),
        ("json", LogFormat::Json),
        ("console", LogFormat::Console),
        ("ConSole", LogFormat::Console),
    ] {
        assert_eq!(text.parse(), Ok(expected));
    }
    assert!("text".parse::<LogFormat>().is_err());
    assert!("".parse::<LogFormat>().is_err());
}

#[test]
fn a_line_for_a_cloud_has_the_keys_that_its_collectors_look_for() {
    let lines = logged(LogFormat::Cloud, Verbosity::Warn, || {
        tracing::info!("nobody asked");
        tracing::warn!(Key = "default/a", "Syncing key from queue failed");
    });
    assert_eq!(lines.len(), 1, "{lines:?}");
    let line: Value = serde_json::from_str(&lines[0]).unwrap();
    assert_eq!(line["severity"], "WARN");
    assert_eq!(line["message"], "Syncing key from queue failed");
    assert_eq!(line["Key"], "default/a");
    assert!(
        line["timestamp"].is_string() && line["source"]["line"].is_u64(),
        "{line}"
    );
}
