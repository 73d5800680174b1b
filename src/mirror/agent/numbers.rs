//! What is counted, by the names that dashboards of the original know, and under ours what those lack.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::{Method, Uri};

use super::traces::Traces;
use hawser_runtime::process::metrics::system;
use hawser_runtime::process::metrics::text::{Counter, Family, Gauge, Histogram, Name, Number};

/// Which cluster a call goes to, as the original says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    Local,
    Remote,
}

impl Location {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Remote => "remote",
        }
    }
}

/// On whose side something happened, or was worked on because of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventSource {
    Upstream,
    Downstream,
}

impl EventSource {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Upstream => "upstream",
            Self::Downstream => "downstream",
        }
    }
}

const CALL: &[&str] = &[
    "location",
    "error_type",
    "http_request_method",
    "http_response_status_code",
    "network_protocol_name",
    "network_protocol_version",
    "otel_scope_name",
    "otel_scope_version",
    "server_address",
    "server_port",
    "url_scheme",
];
/// What the connections speak.
const PROTOCOL: (&str, &str) = ("http", "1.1");
/// Who measured, as OpenTelemetry has it.
const SCOPE: (&str, &str) = (env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));

/// All numbers of the process.
pub struct Numbers {
    syncs: Family<Counter>,
    errors: Family<Counter>,
    durations: Family<Histogram>,
    sizes: Family<Sizes>,
    backlog: Family<Gauge>,
    oldest: Family<Gauge>,
    objects: Family<Gauge>,
    held: Family<Gauge>,
    contested: Family<Counter>,
    fresh: Family<Gauge>,
    silence: Family<Gauge>,
    up: Family<Gauge>,
    delays: Family<Histogram>,
    pub traces: Traces,
    /// The labels that say whose numbers these are.
    resource: String,
}

/// A syncer as it is now.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    pub backlog: usize,
    pub oldest: Duration,
    pub held: usize,
    /// How many objects are known in the cloud and on the robot.
    pub objects: (usize, usize),
    /// Whether both sides are known whole and watched.
    pub fresh: bool,
}

fn family<N: Number>(
    text: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Family<N> {
    Family::new(Name { text, help, labels })
}

impl Numbers {
    pub fn new() -> Arc<Self> {
        const RESOURCE: &[&str] = &["resource"];
        const SYNC: &[&str] = &[
            "event_source",
            "otel_scope_name",
            "otel_scope_version",
            "resource",
        ];
        Arc::new(Self {
            syncs: family(
                "cr_syncer_cloudrobotics_com_syncs_total",
                SYNC,
                "Objects that were looked at, by the side where something had happened.",
            ),
            errors: family(
                "cr_syncer_cloudrobotics_com_sync_errors_total",
                SYNC,
                "Objects that could not be brought in step.",
            ),
            durations: family(
                "http_client_request_duration_seconds",
                CALL,
                "Time from a request to its answer.",
            ),
            sizes: family(
                "http_client_request_body_size_bytes",
                CALL,
                "What was sent with a request.",
            ),
            backlog: family("hawser_mirror_backlog", RESOURCE, "Objects that wait."),
            oldest: family(
                "hawser_mirror_backlog_oldest_seconds",
                RESOURCE,
                "Time that the object has waited that waits longest.",
            ),
            objects: family(
                "hawser_mirror_objects",
                &["side", "resource"],
                "Objects that are known, by side.",
            ),
            held: family(
                "hawser_mirror_held_deletions",
                RESOURCE,
                "Deletions that wait for approval.",
            ),
            contested: family(
                "hawser_mirror_contested_writes_total",
                RESOURCE,
                "Writes that were put off because somebody else takes them back each time.",
            ),
            fresh: family(
                "hawser_mirror_fresh",
                RESOURCE,
                "1 where both sides are known whole and watched.",
            ),
            silence: family(
                "hawser_mirror_cloud_silence_seconds",
                &[],
                "Time since the cloud answered anything.",
            ),
            up: family(
                "hawser_mirror_cloud_up",
                &[],
                "1 where the cloud answered the last request.",
            ),
            delays: family(
                "hawser_mirror_delay_seconds",
                &["event_source"],
                "Time from a change being seen to its being written to the other side.",
            ),
            traces: Traces::default(),
            resource: resource(|name| std::env::var(name).unwrap_or_default()),
        })
    }

    /// All of it as text.
    pub fn render(&self) -> String {
        let mut out = String::new();
        // Writing to a text does not fail.
        let _ = self.write(&mut out);
        let _ = writeln!(
            out,
            "# TYPE target_info gauge\ntarget_info{{{}}} 1",
            self.resource
        );
        system::write(&mut out);
        out
    }

    fn write(&self, out: &mut String) -> fmt::Result {
        self.syncs.write(out)?;
        self.errors.write(out)?;
        self.durations.write(out)?;
        self.sizes.write(out)?;
        self.delays.write(out)?;
        self.contested.write(out)?;
        let gauges = [
            &self.backlog,
            &self.oldest,
            &self.objects,
            &self.held,
            &self.fresh,
            &self.silence,
            &self.up,
        ];
        gauges.into_iter().try_for_each(|gauge| gauge.write(out))
    }

    pub fn synced(&self, source: EventSource, resource: &str) {
        self.syncs.of(&sync(source, resource)).add(1);
    }

    pub fn failed(&self, source: EventSource, resource: &str) {
        self.errors.of(&sync(source, resource)).add(1);
    }

    pub fn contested(&self, resource: &str) {
        self.contested.of(&[resource]).add(1);
    }

    pub fn carried(&self, source: EventSource, took: Duration) {
        self.delays.of(&[source.as_str()]).observe(took);
    }

    pub fn stands(&self, resource: &str, standing: &Standing) {
        let (cloud, robot) = standing.objects;
        self.backlog.of(&[resource]).set(number(standing.backlog));
        self.oldest
            .of(&[resource])
            .set(standing.oldest.as_secs_f64());
        self.held.of(&[resource]).set(number(standing.held));
        self.objects.of(&["cloud", resource]).set(number(cloud));
        self.objects.of(&["robot", resource]).set(number(robot));
        let fresh = if standing.fresh { 1.0 } else { 0.0 };
        self.fresh.of(&[resource]).set(fresh);
    }

    /// A definition is no longer followed.
    pub fn forget(&self, resource: &str) {
        for gauge in [&self.backlog, &self.oldest, &self.held, &self.fresh] {
            gauge.remove(&[resource]);
        }
        self.objects.remove(&["cloud", resource]);
        self.objects.remove(&["robot", resource]);
    }

    pub fn link(&self, silence: Option<Duration>, up: bool) {
        let silence = silence.unwrap_or_default().as_secs_f64();
        self.silence.of(&[]).set(silence);
        self.up.of(&[]).set(if up { 1.0 } else { 0.0 });
    }

    /// What measures the calls to one cluster.
    pub fn calls(self: &Arc<Self>, location: Location, url: &Uri) -> Calls {
        let scheme = url.scheme_str().unwrap_or("https").to_owned();
        let usual = if scheme == "http" { 80 } else { 443 };
        Calls {
            numbers: Arc::clone(self),
            location,
            address: url.host().unwrap_or_default().to_owned(),
            port: url.port_u16().unwrap_or(usual).to_string(),
            scheme,
        }
    }
}

/// Measures the calls to one cluster.
pub struct Calls {
    numbers: Arc<Numbers>,
    location: Location,
    address: String,
    port: String,
    scheme: String,
}

impl Calls {
    pub fn measured(&self, call: &Method, code: Option<u16>, took: Duration, sent: usize) {
        let error = error_type(code);
        let code = code.map(|code| code.to_string()).unwrap_or_default();
        let labels = [
            self.location.as_str(),
            &error,
            call.as_str(),
            &code,
            PROTOCOL.0,
            PROTOCOL.1,
            SCOPE.0,
            SCOPE.1,
            &self.address,
            &self.port,
            &self.scheme,
        ];
        self.numbers.durations.of(&labels).observe(took);
        self.numbers.sizes.of(&labels).observe(sent);
        let traces = &self.numbers.traces;
        traces.note(self.location, call, code.parse().ok(), took);
    }
}

fn sync(source: EventSource, resource: &str) -> [&str; 4] {
    [source.as_str(), SCOPE.0, SCOPE.1, resource]
}

/// What went wrong with a call, as OpenTelemetry's conventions say it; empty where nothing did.
fn error_type(code: Option<u16>) -> String {
    match code {
        Some(code) if code < 400 => String::new(),
        Some(code) => code.to_string(),
        None => "_OTHER".to_owned(),
    }
}

/// Whose numbers these are, as OpenTelemetry's variables say.
fn resource(variable: impl Fn(&str) -> String) -> String {
    let given = variable("OTEL_RESOURCE_ATTRIBUTES");
    let pairs = given.split(',').filter_map(|pair| pair.split_once('='));
    let mut labels = BTreeMap::from([("service_name".to_owned(), "cr-syncer".to_owned())]);
    for (name, value) in pairs {
        let name = name
            .trim()
            .replace(|c: char| !c.is_ascii_alphanumeric(), "_");
        if name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            let value = percent_encoding::percent_decode_str(value.trim()).decode_utf8_lossy();
            labels.insert(name, value.into_owned());
        }
    }
    let service = variable("OTEL_SERVICE_NAME");
    if !service.is_empty() {
        labels.insert("service_name".to_owned(), service);
    }
    let escaped = |text: &str| {
        text.replace('\\', r"\\")
            .replace('"', r#"\""#)
            .replace('\n', r"\n")
    };
    let labels = labels
        .iter()
        .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)));
    labels.collect::<Vec<_>>().join(",")
}

/// From nothing to what an API server takes at most, in bytes.
const BOUNDS: [usize; 8] = [0, 256, 1024, 4096, 16_384, 65_536, 262_144, 1_572_864];

/// How often a body was how large.
#[derive(Debug, Default)]
pub struct Sizes {
    /// Not summed up; the last one is what is beyond all bounds.
    buckets: [AtomicU64; BOUNDS.len() + 1],
    sum: AtomicU64,
}

impl Sizes {
    fn observe(&self, size: usize) {
        let bucket = BOUNDS.iter().position(|bound| size <= *bound);
        self.buckets[bucket.unwrap_or(BOUNDS.len())].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(size as u64, Ordering::Relaxed);
    }
}

impl Number for Sizes {
    const TYPE: &'static str = "histogram";

    fn new(_: &Name) -> Self {
        Self::default()
    }

    fn write(&self, out: &mut String, name: &Name, values: &[String]) -> fmt::Result {
        let labels = name.labels.iter().zip(values);
        // None of these values has anything in it that would have to be escaped.
        let labels: Vec<_> = labels
            .map(|(name, value)| format!("{name}=\"{value}\""))
            .collect();
        let labels = labels.join(",");
        let mut count = 0;
        for (index, bucket) in self.buckets.iter().enumerate() {
            count += bucket.load(Ordering::Relaxed);
            let bound = BOUNDS
                .get(index)
                .map_or("+Inf".to_owned(), usize::to_string);
            writeln!(
                out,
                "{}_bucket{{{labels},le=\"{bound}\"}} {count}",
                name.text
            )?;
        }
        let sum = self.sum.load(Ordering::Relaxed);
        writeln!(out, "{}_sum{{{labels}}} {sum}", name.text)?;
        writeln!(out, "{}_count{{{labels}}} {count}", name.text)
    }
}

/// Counts of things fit into what a gauge can tell apart.
#[allow(clippy::cast_precision_loss)]
fn number(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_names_that_dashboards_know() {
        let numbers = Numbers::new();
        numbers.synced(EventSource::Upstream, "missions.example.com");
        numbers.failed(EventSource::Downstream, "missions.example.com");
        let calls = numbers.calls(
            Location::Remote,
            &Uri::from_static("https://cloud.example.com"),
        );
        calls.measured(&Method::PUT, Some(200), Duration::from_millis(20), 300);
        calls.measured(&Method::PUT, Some(409), Duration::from_millis(20), 300);
        calls.measured(&Method::PUT, None, Duration::from_millis(20), 300);
        let text = numbers.render();
        let scope = format!(
            r#"otel_scope_name="hawser",otel_scope_version="{}""#,
            env!("CARGO_PKG_VERSION")
        );
        for line in [
            &format!(
                r#"cr_syncer_cloudrobotics_com_syncs_total{{event_source="upstream",{scope},resource="missions.example.com"}} 1"#
            ),
            &format!(
                r#"cr_syncer_cloudrobotics_com_sync_errors_total{{event_source="downstream",{scope},resource="missions.example.com"}} 1"#
            ),
            r#"location="remote",error_type="409",http_request_method="PUT",http_response_status_code="409""#,
            r#"location="remote",error_type="_OTHER",http_request_method="PUT",http_response_status_code="""#,
            &format!(
                r#"http_client_request_duration_seconds_count{{location="remote",error_type="",http_request_method="PUT",http_response_status_code="200",network_protocol_name="http",network_protocol_version="1.1",{scope},server_address="cloud.example.com",server_port="443",url_scheme="https"}} 1"#
            ),
            r#"server_port="443",url_scheme="https",le="1024"} 1"#,
            r#"url_scheme="https",le="256"} 0"#,
            r#"target_info{service_name="cr-syncer"} 1"#,
            "process_",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn whose_numbers_they_are_may_be_said_by_the_environment() {
        let of = |attributes: &'static str, service: &'static str| {
            resource(move |name| match name {
                "OTEL_SERVICE_NAME" => service.to_owned(),
                _ => attributes.to_owned(),
            })
        };
        assert_eq!(of("", ""), r#"service_name="cr-syncer""#);
        assert_eq!(
            of(r#"k8s.pod=a%20"b,x,1=2,service.name=other"#, ""),
            r#"k8s_pod="a \"b",service_name="other""#
        );
        assert_eq!(of("service.name=other", "mine"), r#"service_name="mine""#);
    }
}
