//! Members: each is a `KubeFedCluster`, with a client by its spec and Secret. A member that is not ready receives only
//! probes.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Uri;
use kube::config::AuthInfo;
use parking_lot::Mutex;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tracing::{info, warn};

use hawser_federation::admission::check_cluster;
use hawser_federation::events::Severity;
use hawser_federation::health::{Health, Location, Probe};
use hawser_federation::types::cluster::{KubeFedClusterSpec, KubeFedClusterStatus};
use hawser_runtime::cluster::cache::{Cache, Change, SourceId, Table};
use hawser_runtime::cluster::connection::{
    self, Call, CallClass, Connection, Limits, Reply, RequestError, SkippedTlsChecks,
};
use hawser_runtime::cluster::feed::{Content, EventHandler};
use hawser_runtime::cluster::queue::{Outcome, Queue, Urgency, Work};
use hawser_runtime::cluster::wire::collection;
use hawser_runtime::controller::{Reconciler, WatchRegistry, work};
use hawser_runtime::process::lease::Fence;
use hawser_sync::{Seen, Store as _};
use kube_lang::object::{Gvk, Object};

use super::events::EventRecorder;
use super::host::{self, FederationSettings, now};
use super::numbers::{FederationMetrics, MemberState};

/// Members that are probed at the same time.
const WORKERS: usize = 64;
/// The interval at which the nodes of a member are listed.
const LOCATED: Duration = Duration::from_mins(10);
/// Nodes of one answer.
const NODES: u32 = 500;
const METADATA: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// A member as everybody else knows it.
#[derive(Clone, Debug)]
pub struct MemberCluster {
    pub labels: BTreeMap<String, String>,
    pub is_ready: bool,
    /// Since when it has not been ready, as far as this process knows.
    pub lost: Option<Instant>,
    /// Changes each time the member becomes ready or is registered again, and is never used twice: earlier lists are no
    /// longer valid.
    pub source: SourceId,
    /// None where its configuration is malformed.
    pub connection: Option<Connection>,
}

/// All registered members by name.
pub type MemberClusters = BTreeMap<Arc<str>, MemberCluster>;

impl MemberCluster {
    /// The connection to a member that is ready.
    pub fn ready(&self) -> Option<&Connection> {
        self.connection.as_ref().filter(|_| self.is_ready)
    }

    fn is_same(&self, other: &Self) -> bool {
        (&self.labels, self.is_ready, &self.source)
            == (&other.labels, other.is_ready, &other.source)
    }
}

/// The facts about a member that are kept between probes.
struct MemberRecord {
    uid: String,
    generation: Option<i64>,
    connection: Option<Connection>,
    health: Health,
    /// When it was probed last, and whether it was ready then.
    probed: Option<(Instant, bool)>,
    /// When its nodes were listed last, and the epoch of then.
    located: Option<(Instant, u64)>,
    lost: Option<Instant>,
    /// The number of its source.
    epoch: u64,
}

/// Probes the members and publishes their states.
pub struct MemberController {
    host: Connection,
    settings: Arc<FederationSettings>,
    fence: Fence,
    cache: Arc<Cache>,
    queue: Queue<Arc<str>>,
    /// Set when the first list is complete.
    listed: OnceLock<Arc<Table>>,
    records: Mutex<HashMap<Arc<str>, MemberRecord>>,
    epochs: AtomicU64,
    /// None until each registered member was probed once.
    members: watch::Sender<Option<Arc<MemberClusters>>>,
    known: Mutex<MemberClusters>,
    recorder: EventRecorder,
    numbers: Arc<FederationMetrics>,
}

impl MemberController {
    pub fn new(
        host: &Connection,
        settings: &Arc<FederationSettings>,
        fence: &Fence,
        cache: &Arc<Cache>,
        recorder: &EventRecorder,
        numbers: &Arc<FederationMetrics>,
    ) -> Arc<Self> {
        Arc::new(Self {
            host: host.clone(),
            settings: Arc::clone(settings),
            fence: fence.clone(),
            cache: Arc::clone(cache),
            queue: Queue::with_share(1),
            listed: OnceLock::new(),
            records: Mutex::default(),
            epochs: AtomicU64::new(0),
            members: watch::Sender::new(None),
            known: Mutex::default(),
            recorder: recorder.clone(),
            numbers: Arc::clone(numbers),
        })
    }

    /// A receiver of the members and their changes.
    pub fn members(&self) -> watch::Receiver<Option<Arc<MemberClusters>>> {
        self.members.subscribe()
    }

    /// Probes until the queue is closed.
    pub async fn run(self: Arc<Self>) {
        let namespace = Some(self.settings.namespace.as_str().into());
        let kind = &host::CLUSTER;
        let spec = host::watch(
            &self.host,
            kind,
            "kubefedclusters",
            namespace,
            Content::Whole,
        );
        let handler = Arc::clone(&self) as _;
        let watches = WatchRegistry::new(&self.cache, host::pace(), handler);
        let _watch = watches.watch(spec);
        work(Arc::clone(&self), &self.queue, WORKERS).await;
    }

    pub fn close(&self) {
        self.queue.close();
    }

    async fn reconcile_member(&self, name: &Arc<str>) -> Outcome {
        let scope = host::scope(&host::CLUSTER);
        let object = match self
            .cache
            .get(&scope.key(Some(&self.settings.namespace), name))
        {
            Seen::Present(object) => object,
            Seen::Absent => {
                self.forget(name);
                return Outcome::Settled;
            }
            // It comes with the list.
            Seen::Unknown => return Outcome::Settled,
        };
        let mut record = self.records.lock().remove(name);
        let generation = object.root()["metadata"]["generation"].as_i64();
        let uid = object.uid().unwrap_or_default();
        let lost = record.as_ref().and_then(|record| record.lost);
        record = record.filter(|t| t.uid == uid && t.generation == generation);
        let mut record = record.unwrap_or_else(|| MemberRecord {
            uid: uid.to_owned(),
            generation,
            connection: None,
            health: Health::of(published(&object)),
            probed: None,
            located: None,
            lost,
            epoch: self.next_epoch(),
        });
        let period = self.settings.probe_period;
        let left = record.probed.and_then(|(at, _)| {
            let left = period.saturating_sub(at.elapsed());
            (!left.is_zero()).then_some(left)
        });
        let outcome = if let Some(left) = left {
            Outcome::Again(left)
        } else {
            self.probe(&object, &mut record).await;
            Outcome::Again(period)
        };
        let is_ready = record.probed.is_some_and(|(_, is_ready)| is_ready);
        if is_ready {
            record.lost = None;
        } else {
            record.lost.get_or_insert_with(Instant::now);
        }
        let labels = object.labels();
        let member = MemberCluster {
            labels: labels.map(|(k, v)| (k.to_owned(), v.to_owned())).collect(),
            is_ready,
            lost: record.lost,
            source: format!("{name}#{}", record.epoch).into(),
            connection: record.connection.clone(),
        };
        self.publish(|known| known.insert(Arc::clone(name), member));
        self.records.lock().insert(Arc::clone(name), record);
        if is_ready {
            self.locate(&object, name).await;
        }
        outcome
    }

    fn next_epoch(&self) -> u64 {
        self.epochs.fetch_add(1, Ordering::Relaxed)
    }

    fn forget(&self, name: &Arc<str>) {
        self.records.lock().remove(name);
        self.numbers.forget_member(name);
        self.publish(|known| known.remove(name));
    }

    /// Changes the record of a member, and notifies receivers if it differs.
    fn publish(&self, change: impl FnOnce(&mut MemberClusters) -> Option<MemberCluster>) {
        let mut known = self.known.lock();
        change(&mut known);
        self.members.send_if_modified(|members| {
            let changed = if let Some(members) = members {
                members.len() != known.len()
                    || members.iter().any(|(name, member)| {
                        known.get(name).is_none_or(|now| !now.is_same(member))
                    })
            } else {
                // All of the first list are known before anything follows from what is not there.
                self.listed.get().is_some_and(|table| {
                    let mut keys = table.keys().into_iter();
                    keys.all(|key| known.contains_key(&key.name))
                })
            };
            if changed {
                *members = Some(Arc::new(known.clone()));
            }
            changed
        });
    }

    /// Probes a member, and writes what follows into its status.
    async fn probe(&self, object: &Object, record: &mut MemberRecord) {
        let name = object.name();
        let began = Instant::now();
        let probe = self.result(object, record).await;
        let state = match &probe {
            Probe::Ready { .. } => MemberState::Ready,
            Probe::NotReady => MemberState::NotReady,
            Probe::Unreachable { .. } | Probe::Malformed => MemberState::Offline,
        };
        self.numbers.member(name, state, began.elapsed());
        if let Probe::Unreachable { error } = &probe {
            let message = format!("Failed to retrieve health of the cluster: {error}");
            let reason = "RetrievingClusterHealthFailed";
            self.recorder
                .record(object, Severity::Warning, reason, &message);
        }
        let status = record
            .health
            .probed(&probe, self.settings.thresholds, &now());
        // Below the threshold, a member that cannot be connected to counts as ready in its status only: others have to hear
        // of its next connection.
        let is_ready = status.is_ready() && record.connection.is_some();
        let was_ready = record.probed.is_some_and(|(_, was_ready)| was_ready);
        if is_ready != was_ready {
            info!(cluster = name, ready = is_ready, ?probe, "a member changed");
        }
        if is_ready && !was_ready {
            record.epoch = self.next_epoch();
        }
        record.probed = Some((Instant::now(), is_ready));
        let kind = &host::CLUSTER;
        let all = collection(kind, object.namespace(), "kubefedclusters");
        let mut written = object.as_value().clone();
        written["status"] = json!(status);
        let put = Call::put(format!("{all}/{name}/status"), &written);
        // After a conflict the next probe writes it, with what was read by then.
        if let Err(error) = self.host.ask(put).await
            && error.code() != Some(409)
        {
            warn!(cluster = name, %error, "cannot write the status of a member");
        }
    }

    /// Finds out where the nodes of a member are: when it has become ready, and now and then. The next probe writes it.
    async fn locate(&self, object: &Object, name: &Arc<str>) {
        let connection = self.records.lock().get_mut(name).and_then(|record| {
            let epoch = record.epoch;
            let located = record.located;
            if located.is_some_and(|(at, of)| of == epoch && at.elapsed() < LOCATED) {
                return None;
            }
            record.located = Some((Instant::now(), epoch));
            record.connection.clone()
        });
        let Some(connection) = connection else {
            return;
        };
        let limit = self.settings.probe_timeout;
        let found = match timeout(limit, nodes(&connection)).await {
            Ok(found) => found.map_err(|error| error.to_string()),
            Err(_) => Err(format!("no answer within {limit:?}")),
        };
        match found {
            Ok(at) => {
                if let Some(record) = self.records.lock().get_mut(name) {
                    record.health.located(&at);
                }
            }
            Err(problem) => {
                let message = format!("Failed to get zones and region for the cluster: {problem}");
                let reason = "RetrievingRegionZonesFailed";
                self.recorder
                    .record(object, Severity::Warning, reason, &message);
            }
        }
    }

    async fn result(&self, object: &Object, record: &mut MemberRecord) -> Probe {
        let mut fresh = record.connection.is_none();
        loop {
            if fresh {
                let began = Instant::now();
                match self.connect(object).await {
                    Ok(config) => {
                        if let Err(problem) = self.take(record, config) {
                            return self.malformed(object, &problem);
                        }
                        self.numbers.connected(began.elapsed());
                    }
                    Err(problem) => {
                        record.connection = None;
                        return self.malformed(object, &problem);
                    }
                }
            }
            let Some(connection) = &record.connection else {
                return Probe::Malformed;
            };
            match self.ask(connection, "/healthz").await {
                Ok(reply) if reply.is_success() => {
                    let body = String::from_utf8_lossy(&reply.body);
                    let version = match self.ask(connection, "/version").await {
                        Ok(reply) => reply.ok().ok(),
                        Err(_) => None,
                    };
                    let version = version.and_then(|v| v["gitVersion"].as_str().map(str::to_owned));
                    return Probe::of_body(body.trim(), version);
                }
                // The token may have been replaced.
                Ok(reply) if reply.status == 401 && !fresh => fresh = true,
                Ok(reply) => {
                    let error = reply.refusal().to_string();
                    return Probe::Unreachable { error };
                }
                Err(error) => return Probe::Unreachable { error },
            }
        }
    }

    fn malformed(&self, object: &Object, problem: &str) -> Probe {
        let message = format!("The configuration for this cluster may be malformed: {problem}");
        let reason = "MalformedClusterConfig";
        self.recorder
            .record(object, Severity::Warning, reason, &message);
        Probe::Malformed
    }

    async fn ask(&self, connection: &Connection, path: &str) -> Result<Reply, String> {
        // A probe waits for no turn.
        let call = Call::get(path).class(CallClass::Lease);
        let limit = self.settings.probe_timeout;
        match timeout(limit, connection.call(call)).await {
            Ok(answered) => answered.map_err(|error| error.to_string()),
            Err(_) => Err(format!("no answer within {limit:?}")),
        }
    }

    /// Takes a configuration: new credentials for a connection that there is.
    fn take(
        &self,
        record: &mut MemberRecord,
        (config, unchecked): (kube::Config, SkippedTlsChecks),
    ) -> Result<(), String> {
        let done = if let Some(connection) = &record.connection {
            connection.renew(config)
        } else {
            let to = connection::host(&config.cluster_url);
            let limits = Limits {
                guard: Some(self.fence.guard()),
                observer: Some(Arc::new(self.numbers.requests("member", to))),
                unchecked,
                ..Limits::default()
            };
            Connection::new(config, limits).map(|connection| {
                record.connection = Some(connection);
            })
        };
        done.map_err(|error| error.to_string())
    }

    /// The configuration of a client, by the spec and the Secret.
    async fn connect(&self, object: &Object) -> Result<(kube::Config, SkippedTlsChecks), String> {
        let spec = check_cluster(object).map_err(|rejection| rejection.to_string())?;
        let secret = &spec.secret_ref.name;
        let all = collection(
            &Gvk::new("", "v1", "Secret"),
            Some(&self.settings.namespace),
            "secrets",
        );
        let found = self.host.ask(Call::get(format!("{all}/{secret}"))).await;
        let found = found.map_err(|error: RequestError| format!("Secret {secret:?}: {error}"))?;
        let token = token(&found).ok_or_else(|| format!("Secret {secret:?} has no token"))?;
        config(&spec, &token)
    }
}

/// The location of a member's nodes, by their labels.
async fn nodes(connection: &Connection) -> Result<Location, RequestError> {
    let mut at = Location::default();
    let mut from = String::new();
    loop {
        let path = format!("/api/v1/nodes?limit={NODES}{from}");
        let page = connection.ask(Call::get(path).accept(METADATA)).await?;
        let items = page["items"].as_array().into_iter().flatten();
        items.for_each(|node| at.add(node));
        let token = page["metadata"]["continue"].as_str().unwrap_or_default();
        if token.is_empty() {
            return Ok(at);
        }
        let token: String = form_urlencoded::byte_serialize(token.as_bytes()).collect();
        from = format!("&continue={token}");
    }
}

/// The status that an earlier process published.
fn published(object: &Object) -> KubeFedClusterStatus {
    let status = object.root().get("status").cloned().unwrap_or_default();
    serde_json::from_value(status).unwrap_or_default()
}

fn token(secret: &Value) -> Option<String> {
    let token = STANDARD.decode(secret["data"]["token"].as_str()?).ok()?;
    let token = String::from_utf8(token).ok()?;
    Some(token.trim().to_owned()).filter(|token| !token.is_empty())
}

/// The configuration of a client for a member, and the certificate checks that it skips.
fn config(
    spec: &KubeFedClusterSpec,
    token: &str,
) -> Result<(kube::Config, SkippedTlsChecks), String> {
    let switches = &spec.disabled_tls_validations;
    let is_off = |validation: &str| switches.iter().any(|switch| switch == validation);
    let unchecked = SkippedTlsChecks {
        subject_name: is_off("SubjectName"),
        validity_period: is_off("ValidityPeriod"),
    };
    let authorities = spec
        .ca_bundle
        .as_deref()
        .filter(|bundle| !bundle.is_empty());
    let authorities = authorities.map(|bundle| -> Result<Vec<Vec<u8>>, String> {
        let wrong = |_| "spec.caBundle contains no PEM certificates".to_owned();
        let pem = STANDARD.decode(bundle).map_err(|e| wrong(e.to_string()))?;
        let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
        let found = found.map_err(|e| wrong(e.to_string()))?;
        if found.is_empty() {
            return Err(wrong(String::new()));
        }
        Ok(found
            .iter()
            .map(|certificate| certificate.to_vec())
            .collect())
    });
    let authorities = authorities.transpose()?;
    let endpoint = &spec.api_endpoint;
    let url: Uri = if endpoint.contains("://") {
        endpoint.parse()
    } else if authorities.is_some() || !switches.is_empty() {
        format!("https://{endpoint}").parse()
    } else {
        format!("http://{endpoint}").parse()
    }
    .map_err(|error| format!("spec.apiEndpoint: {error}"))?;
    let mut config = kube::Config::new(url);
    config.root_cert = authorities;
    config.accept_invalid_certs = is_off("*");
    config.auth_info = AuthInfo {
        token: Some(token.to_owned().into()),
        ..AuthInfo::default()
    };
    if !spec.proxy_url.is_empty() {
        let proxy = spec.proxy_url.parse();
        config.proxy_url = Some(proxy.map_err(|_| "spec.proxyURL is not a URL".to_owned())?);
    }
    Ok((config, unchecked))
}

impl Reconciler for MemberController {
    type Key = Arc<str>;

    async fn reconcile(self: &Arc<Self>, work: &Work<Arc<str>>) -> Outcome {
        self.reconcile_member(&work.key).await
    }
}

impl EventHandler for MemberController {
    fn changed(&self, _: &Arc<Table>, change: Change) {
        let name = Arc::clone(&change.key.name);
        // Each is its own tenant: one that does not answer delays nobody.
        self.queue.add(name, Urgency::Live);
    }

    fn completed(&self, table: &Arc<Table>) {
        let _ = self.listed.set(Arc::clone(table));
        self.publish(|_| None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(more: &Value) -> KubeFedClusterSpec {
        let mut spec = json!({"apiEndpoint": "member.example.com", "secretRef": {"name": "s"}});
        kube_lang::object::merge_patch::apply(&mut spec, more);
        serde_json::from_value(spec).unwrap()
    }

    #[test]
    fn an_endpoint_without_a_scheme_gets_https_where_tls_is_configured() {
        let url = |more: &Value| config(&spec(more), "t").unwrap().0.cluster_url.to_string();
        assert_eq!(url(&json!({})), "http://member.example.com/");
        let all = json!({"disabledTLSValidations": ["*"]});
        assert_eq!(url(&all), "https://member.example.com/");
        let given = json!({"apiEndpoint": "https://10.0.0.1:6443/path"});
        assert_eq!(url(&given), "https://10.0.0.1:6443/path");
    }

    #[test]
    fn checks_are_left_out_one_by_one_or_all() {
        let pem = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let off = |switches: &[&str]| {
            let more =
                json!({"caBundle": STANDARD.encode(pem), "disabledTLSValidations": switches});
            let (config, unchecked) = config(&spec(&more), "t").unwrap();
            let SkippedTlsChecks {
                subject_name,
                validity_period,
            } = unchecked;
            (config.accept_invalid_certs, subject_name, validity_period)
        };
        assert_eq!(off(&[]), (false, false, false));
        assert_eq!(off(&["*"]), (true, false, false));
        assert_eq!(off(&["SubjectName"]), (false, true, false));
        assert_eq!(off(&["ValidityPeriod"]), (false, false, true));
        let both = ["SubjectName", "ValidityPeriod"];
        assert_eq!(off(&both), (false, true, true));
    }

    #[test]
    fn what_cannot_be_a_client_says_why() {
        let wrong = [
            (json!({"caBundle": "!"}), "caBundle"),
            (
                json!({"caBundle": STANDARD.encode("no certificate")}),
                "caBundle",
            ),
            (json!({"apiEndpoint": "https://a b"}), "apiEndpoint"),
        ];
        for (more, about) in wrong {
            let problem = config(&spec(&more), "t").unwrap_err();
            assert!(problem.contains(about), "{problem}");
        }
    }

    #[test]
    fn a_token_is_read_from_its_secret_or_there_is_none() {
        let secret = |text: &str| json!({"data": {"token": STANDARD.encode(text)}});
        assert_eq!(token(&secret("abc\n")).as_deref(), Some("abc"));
        for none in [
            secret(""),
            secret(" "),
            json!({}),
            json!({"data": {"token": "?"}}),
        ] {
            assert_eq!(token(&none), None, "{none}");
        }
    }
}
