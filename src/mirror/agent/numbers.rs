//! The metrics of the mirror, under the names of cr-syncer's dashboards; Hawser's own names for the rest.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Uri};

use super::traces::{Location, Traces};
use hawser_runtime::controller::telemetry::OutOfSyncGauges;
use hawser_runtime::overview::recent::Recent;
use hawser_runtime::process::metrics::system;
use hawser_runtime::process::metrics::text::{
    Counter, Gauge, Histogram, MetricFamily, Name, Number,
};

/// The side of an event, or of the work because of it.
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
/// The protocol of the connections.
const PROTOCOL: (&str, &str) = ("http", "1.1");
/// The instrumentation scope, as in OpenTelemetry.
const SCOPE: (&str, &str) = (env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));

/// All metrics of the process.
pub struct MirrorMetrics {
    syncs: MetricFamily<Counter>,
    errors: MetricFamily<Counter>,
    durations: MetricFamily<Histogram>,
    sizes: MetricFamily<Histogram>,
    backlog: MetricFamily<Gauge>,
    oldest: MetricFamily<Gauge>,
    objects: MetricFamily<Gauge>,
    held: MetricFamily<Gauge>,
    contested: MetricFamily<Counter>,
    fresh: MetricFamily<Gauge>,
    silence: MetricFamily<Gauge>,
    up: MetricFamily<Gauge>,
    delays: MetricFamily<Histogram>,
    pub out_of_sync: OutOfSyncGauges,
    pub traces: Traces,
    /// The last minutes, for people.
    pub recent: Recent,
    /// The labels that identify the process.
    resource: String,
}

/// The current numbers of a syncer.
#[derive(Clone, Copy, Debug)]
pub struct SyncerGauges {
    pub backlog: usize,
    pub oldest: Duration,
    pub held: usize,
    /// The number of known objects in the cloud and on the robot.
    pub objects: (usize, usize),
    /// Whether both sides are listed completely and watched.
    pub fresh: bool,
}

fn family<N: Number>(
    text: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> MetricFamily<N> {
    MetricFamily::new(Name::new(text, help, labels))
}

impl MirrorMetrics {
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
                "Total number of processed objects, by the side of the event.",
            ),
            errors: family(
                "cr_syncer_cloudrobotics_com_sync_errors_total",
                SYNC,
                "Total number of failed syncs.",
            ),
            durations: family(
                "http_client_request_duration_seconds",
                CALL,
                "Duration of requests in seconds.",
            ),
            sizes: MetricFamily::new(Name {
                text: "http_client_request_body_size_bytes",
                help: "Size of request bodies in bytes.",
                labels: CALL,
                bounds: BYTES,
            }),
            backlog: family(
                "hawser_mirror_backlog",
                RESOURCE,
                "Number of queued objects.",
            ),
            oldest: family(
                "hawser_mirror_backlog_oldest_seconds",
                RESOURCE,
                "Age of the oldest queued object in seconds.",
            ),
            objects: family(
                "hawser_mirror_objects",
                &["side", "resource"],
                "Number of known objects, by side.",
            ),
            held: family(
                "hawser_mirror_held_deletions",
                RESOURCE,
                "Number of deletions that wait for approval.",
            ),
            contested: family(
                "hawser_mirror_contested_writes_total",
                RESOURCE,
                "Total number of writes delayed because another writer undoes them.",
            ),
            fresh: family(
                "hawser_mirror_fresh",
                RESOURCE,
                "1 if both sides are listed and watched.",
            ),
            silence: family(
                "hawser_mirror_cloud_silence_seconds",
                &[],
                "Seconds since the last answer of the cloud.",
            ),
            up: family(
                "hawser_mirror_cloud_up",
                &[],
                "1 if the cloud answered the last request.",
            ),
            delays: family(
                "hawser_mirror_delay_seconds",
                &["event_source"],
                "Time from seeing a change to writing it to the other side, in seconds.",
            ),
            out_of_sync: OutOfSyncGauges::default(),
            traces: Traces::default(),
            recent: Recent::default(),
            resource: resource(|name| std::env::var(name).unwrap_or_default()),
        })
    }

    /// All metrics as text.
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
        self.out_of_sync.write(out)?;
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
        let delays = self.delays.of(&[source.as_str()]);
        delays.observe(took.as_secs_f64());
    }

    pub fn stands(&self, resource: &str, standing: &SyncerGauges) {
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

    /// The observer of calls to one cluster.
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

/// Observes the calls to one cluster.
pub struct Calls {
    numbers: Arc<MirrorMetrics>,
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
        let duration = took.as_secs_f64();
        self.numbers.durations.of(&labels).observe(duration);
        self.numbers.sizes.of(&labels).observe(number(sent));
        let traces = &self.numbers.traces;
        traces.note(self.location, call, code.parse().ok(), took);
    }
}

fn sync(source: EventSource, resource: &str) -> [&str; 4] {
    [source.as_str(), SCOPE.0, SCOPE.1, resource]
}

/// The error type of a call, by OpenTelemetry's conventions; empty for success.
fn error_type(code: Option<u16>) -> String {
    match code {
        Some(code) if code < 400 => String::new(),
        Some(code) => code.to_string(),
        None => "_OTHER".to_owned(),
    }
}

/// The resource attributes from OpenTelemetry's variables.
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

/// From nothing to the largest request of an API server, in bytes.
const BYTES: &[f64] = &[
    0.0,
    256.0,
    1024.0,
    4096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_572_864.0,
];

/// Converts a count to the value of a gauge.
#[allow(clippy::cast_precision_loss)]
fn number(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_names_that_dashboards_know() {
        let numbers = MirrorMetrics::new();
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
