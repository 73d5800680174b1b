use std::collections::BTreeSet;

use serde_json::json;
use tokio::sync::mpsc;

use super::*;
use crate::cluster::cache::{Cache, ChangeType, Coverage, Partition, TenantMark};
use crate::cluster::ground::{Ground, fault, in_time};
use hawser_sync::{Answer, Found, Request, Seen, Side, Store};
use kcp_playground::server::{Action, LoggedRequest, When};
use kube_lang::object::Gvk;

struct Told(mpsc::UnboundedSender<Change>);

impl EventHandler for Told {
    fn changed(&self, _: &Arc<Table>, change: Change) {
        self.0.send(change).unwrap();
    }
}

struct Fed {
    ground: Ground,
    cache: Arc<Cache>,
    feed: Feed,
    told: mpsc::UnboundedReceiver<Change>,
}

const QUICK: Pace = Pace {
    lasts: (300, 600),
    silence: Duration::from_millis(300),
    retry: (Duration::from_millis(5), Duration::from_millis(40)),
};
/// A watch that is not to be replaced while the test looks at it.
const PATIENT: Pace = Pace {
    silence: Duration::from_mins(10),
    ..QUICK
};
const SOON: Duration = Duration::from_mins(1);

fn path(name: &str) -> String {
    format!("/api/v1/namespaces/default/configmaps{name}")
}

async fn create(ground: &Ground, name: &str, metadata: Value) {
    let mut object =
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } });
    kube_lang::object::merge_patch::apply(&mut object["metadata"], &metadata);
    ground
        .service
        .ask(Call::post(path(""), &object))
        .await
        .unwrap();
}

async fn touch(ground: &Ground, name: &str, data: &str) {
    let patch = json!({ "data": { "d": data } });
    let call = Call::merge_patch(path(&format!("/{name}")), &patch);
    ground.service.ask(call).await.unwrap();
}

async fn delete(ground: &Ground, name: &str) {
    let call = Call::delete(path(&format!("/{name}")), &json!({}));
    ground.service.ask(call).await.unwrap();
}

fn start(ground: Ground, query: Option<&str>, clusters: Clusters, pace: Pace) -> Fed {
    let kind = Gvk::new("", "v1", "ConfigMap");
    start_of(ground, (kind, "configmaps"), query, clusters, pace)
}

fn start_of(
    ground: Ground,
    (kind, resource): (Gvk, &str),
    query: Option<&str>,
    clusters: Clusters,
    pace: Pace,
) -> Fed {
    let coverage = Coverage {
        labelled: query.map(|_| "l".into()),
        ..Coverage::default()
    };
    start_covering(ground, (kind, resource), query, clusters, coverage, pace)
}

fn start_covering(
    ground: Ground,
    (kind, resource): (Gvk, &str),
    query: Option<&str>,
    clusters: Clusters,
    coverage: Coverage,
    pace: Pace,
) -> Fed {
    let cache = Cache::new();
    let (side, kind) = (Side::new("s"), Arc::new(kind));
    cache.route(&side, "", &"here".into());
    let table = cache.add(&side, &kind, &"here".into(), coverage);
    let (sender, told) = mpsc::unbounded_channel();
    let selection = Selection {
        connection: ground.service.clone(),
        resource: resource.into(),
        namespace: Some("default".into()),
        query: query.map(Into::into),
        clusters,
        content: Content::Whole,
    };
    let feed = Feed::start(selection, table, Arc::new(Told(sender)), pace);
    Fed {
        ground,
        cache,
        feed,
        told,
    }
}

fn plain(ground: Ground, pace: Pace) -> Fed {
    start(ground, None, Clusters::One("".into()), pace)
}

impl Fed {
    async fn next(&mut self) -> (String, ChangeType) {
        let wait = timeout(SOON, self.told.recv());
        let change = wait.await.expect("nothing was told").unwrap();
        (change.key.name.to_string(), change.what)
    }

    async fn told_of(&mut self, name: &str, what: ChangeType) {
        while self.next().await != (name.to_owned(), what) {}
    }

    fn has(&self, name: &str) -> bool {
        let scope = self.feed.table().scope("");
        matches!(
            self.cache.get(&scope.key(Some("default"), name)),
            Seen::Present(_)
        )
    }
}

#[tokio::test]
async fn a_list_is_told_when_it_is_whole_and_then_every_change() {
    let ground = Ground::start().await;
    create(&ground, "a", json!({})).await;
    create(&ground, "b", json!({})).await;
    let mut fed = plain(ground, PATIENT);
    fed.feed.completed().await;
    let initial = BTreeSet::from([fed.next().await, fed.next().await]);
    assert!(
        initial.contains(&("a".to_owned(), ChangeType::Initial)),
        "{initial:?}"
    );
    touch(&fed.ground, "a", "1").await;
    assert_eq!(fed.next().await, ("a".to_owned(), ChangeType::Changed));
    create(&fed.ground, "c", json!({})).await;
    assert_eq!(fed.next().await, ("c".to_owned(), ChangeType::Changed));
    delete(&fed.ground, "a").await;
    assert_eq!(fed.next().await, ("a".to_owned(), ChangeType::Gone));
    assert!(!fed.has("a") && fed.has("b") && fed.has("c"));
    assert_eq!(
        fed.feed.health(),
        FeedHealth {
            complete: true,
            ..FeedHealth::default()
        }
    );
}

#[tokio::test]
async fn a_server_that_streams_no_lists_is_asked_for_pages() {
    let ground = Ground::start().await;
    create(&ground, "a", json!({})).await;
    let refuse = Action::Status {
        code: 422,
        when: When::Before,
    };
    ground
        .playground
        .faults()
        .add(fault("watch", "configmaps", refuse).once());
    let mut fed = plain(ground, PATIENT);
    assert_eq!(fed.next().await, ("a".to_owned(), ChangeType::Initial));
    create(&fed.ground, "b", json!({})).await;
    assert_eq!(fed.next().await, ("b".to_owned(), ChangeType::Changed));
    let requests = fed.ground.playground.requests().since(0);
    assert!(
        requests
            .iter()
            .any(|r| r.verb == "list" && r.query.contains("limit=500"))
    );
}

#[tokio::test]
async fn a_watch_that_is_cut_goes_on_where_it_was_without_a_list() {
    let ground = Ground::start().await;
    create(&ground, "a", json!({})).await;
    // The first of them lasts until all that is there has been told.
    let faults = ground.playground.faults();
    for (millis, times) in [(1000, 1), (30, 2)] {
        let cut = Action::CutWatch(Duration::from_millis(millis));
        let mut cut = fault("watch", "configmaps", cut);
        cut.times = Some(times);
        faults.add(cut);
    }
    let mut fed = plain(ground, PATIENT);
    fed.feed.completed().await;
    let mut told = 0;
    while told < 10 || fed.ground.playground.faults().struck() != [1, 2] {
        create(&fed.ground, &format!("n{told}"), json!({})).await;
        fed.told_of(&format!("n{told}"), ChangeType::Changed).await;
        told += 1;
    }
    let requests = fed.ground.playground.requests().since(0);
    let lists = requests.iter().filter(|r| is_whole_list(r));
    assert_eq!(lists.count(), 1);
}

/// A request for everything, not only for the version.
fn is_whole_list(request: &LoggedRequest) -> bool {
    let is_list = request.verb == "list" && !request.query.ends_with("limit=1");
    request.resource == "configmaps" && (is_list || request.query.contains("sendInitialEvents"))
}

#[tokio::test]
async fn a_server_that_went_back_to_an_older_state_is_listed_anew() {
    let ground = Ground::start().await;
    let stall = Action::StallWatch(Duration::from_millis(20));
    let faults = ground.playground.faults();
    faults.add(fault("watch", "configmaps", stall).once());
    faults.add(fault("list", "configmaps", Action::StaleList(5)).once());
    create(&ground, "a", json!({})).await;
    let mut fed = plain(ground, QUICK);
    fed.feed.completed().await;
    create(&fed.ground, "b", json!({})).await;
    fed.told_of("b", ChangeType::Changed).await;
    let lists = |fed: &Fed| {
        let requests = fed.ground.playground.requests().since(0);
        requests.iter().filter(|r| is_whole_list(r)).count()
    };
    while lists(&fed) < 2 {
        create(&fed.ground, "c", json!({})).await;
        fed.told_of("c", ChangeType::Changed).await;
        delete(&fed.ground, "c").await;
        fed.told_of("c", ChangeType::Gone).await;
    }
}

#[tokio::test]
async fn a_watch_that_falls_silent_is_replaced() {
    let ground = Ground::start().await;
    let stall = Action::StallWatch(Duration::from_millis(20));
    let mut once_open = fault("watch", "configmaps", stall).once();
    once_open.skip = 0;
    ground.playground.faults().add(once_open);
    let mut fed = plain(ground, QUICK);
    fed.feed.completed().await;
    create(&fed.ground, "a", json!({})).await;
    fed.told_of("a", ChangeType::Changed).await;
    create(&fed.ground, "b", json!({})).await;
    fed.told_of("b", ChangeType::Changed).await;
}

#[tokio::test]
async fn silence_is_the_time_since_the_server_said_anything() {
    let ground = Ground::start().await;
    let mut fed = plain(ground, PATIENT);
    fed.feed.completed().await;
    let table = Arc::clone(fed.feed.table());
    while table.size().silence < Duration::from_millis(50) {
        tokio::task::yield_now().await;
    }
    let before = Instant::now();
    create(&fed.ground, "a", json!({})).await;
    fed.told_of("a", ChangeType::Changed).await;
    assert!(table.size().silence <= before.elapsed());
}

#[tokio::test]
async fn a_watch_that_is_doubted_is_replaced_long_before_its_silence_tells() {
    let ground = Ground::start().await;
    let stall = Action::StallWatch(Duration::from_millis(20));
    let faults = ground.playground.faults();
    faults.add(fault("watch", "configmaps", stall).once());
    let mut fed = plain(ground, PATIENT);
    fed.feed.completed().await;
    let mut number = 0;
    let untold = loop {
        let name = format!("n{number}");
        create(&fed.ground, &name, json!({})).await;
        let told = fed.told_of(&name, ChangeType::Changed);
        if timeout(Duration::from_millis(300), told).await.is_err() {
            break name;
        }
        number += 1;
    };
    fed.feed.doubt();
    fed.told_of(&untold, ChangeType::Changed).await;
}

#[tokio::test]
async fn a_version_that_is_no_longer_known_leads_to_a_list_that_tells_what_was_missed() {
    let ground = Ground::start().await;
    create(&ground, "a", json!({})).await;
    create(&ground, "b", json!({})).await;
    // The first watch ends at once, the second finds its version gone.
    let faults = ground.playground.faults();
    faults.add(
        fault(
            "watch",
            "configmaps",
            Action::CutWatch(Duration::from_millis(50)),
        )
        .once(),
    );
    let mut fed = plain(ground, QUICK);
    fed.feed.completed().await;
    let gone = Action::Status {
        code: 410,
        when: When::Before,
    };
    fed.ground
        .playground
        .faults()
        .add(fault("watch", "configmaps", gone).once());
    delete(&fed.ground, "a").await;
    fed.told_of("a", ChangeType::Gone).await;
    touch(&fed.ground, "b", "1").await;
    fed.told_of("b", ChangeType::Changed).await;
    assert!(!fed.has("a"));
}

/// A server does this to every watch as soon as it is opened: none is asked for at once.
async fn watches_are_spaced(action: Action) {
    let ground = Ground::start().await;
    let no_stream = Action::Status {
        code: 422,
        when: When::Before,
    };
    let faults = ground.playground.faults();
    faults.add(fault("watch", "configmaps", no_stream).once());
    let mut strikes = fault("watch", "configmaps", action);
    strikes.times = Some(4);
    faults.add(strikes);
    let pause = Duration::from_millis(200);
    let retry = (pause, pause);
    let started = tokio::time::Instant::now();
    let mut fed = plain(ground, Pace { retry, ..PATIENT });
    fed.feed.completed().await;
    for number in 0.. {
        if fed.ground.playground.faults().struck()[1] == 4 {
            break;
        }
        let name = format!("a{number}");
        create(&fed.ground, &name, json!({})).await;
        fed.told_of(&name, ChangeType::Changed).await;
    }
    let took = started.elapsed();
    assert!(took >= pause * 3 * 3 / 4, "four watches in {took:?}");
}

#[tokio::test]
async fn a_server_that_ends_every_watch_at_once_is_not_asked_without_end() {
    watches_are_spaced(Action::CutWatch(Duration::ZERO)).await;
}

#[tokio::test]
async fn a_server_that_forgets_every_version_at_once_is_not_listed_without_end() {
    let code = 410;
    let when = When::Before;
    watches_are_spaced(Action::Status { code, when }).await;
}

#[tokio::test]
async fn an_older_list_than_what_was_seen_takes_nothing_back() {
    let ground = Ground::start().await;
    create(&ground, "a", json!({})).await;
    let cut = Action::CutWatch(Duration::from_millis(50));
    let no_stream = Action::Status {
        code: 422,
        when: When::Before,
    };
    ground
        .playground
        .faults()
        .add(fault("watch", "configmaps", no_stream).once());
    ground
        .playground
        .faults()
        .add(fault("watch", "configmaps", cut).once());
    let mut fed = plain(ground, QUICK);
    fed.feed.completed().await;
    create(&fed.ground, "b", json!({})).await;
    fed.told_of("b", ChangeType::Changed).await;
    let faults = fed.ground.playground.faults();
    let mut stale = fault("list", "configmaps", Action::StaleList(2));
    stale.times = Some(2);
    faults.add(stale);
    let gone = Action::Status {
        code: 410,
        when: When::Before,
    };
    faults.add(fault("watch", "configmaps", gone).once());
    create(&fed.ground, "c", json!({})).await;
    while fed.next().await != ("c".to_owned(), ChangeType::Changed) {
        assert!(fed.has("b"), "an older list took it away");
    }
    assert!(fed.has("b"));
}

#[tokio::test]
async fn a_list_shows_again_what_an_answer_did_not_find() {
    let ground = Ground::start().await;
    create(&ground, "a", json!({})).await;
    let mut fed = plain(ground, PATIENT);
    fed.told_of("a", ChangeType::Initial).await;
    let scope = fed.feed.table().scope("");
    let key = scope.key(Some("default"), "a");
    let request = Request::Read { key };
    let known = fed.cache.known_version(&request);
    fed.cache.learn(&request, Answer::Gone, known);
    touch(&fed.ground, "a", "1").await;
    assert!(!fed.has("a"));
    let gone = Action::Status {
        code: 410,
        when: When::Before,
    };
    let faults = fed.ground.playground.faults();
    faults.add(fault("watch", "configmaps", gone).once());
    fed.feed.doubt();
    fed.told_of("a", ChangeType::Changed).await;
    assert!(fed.has("a"));
}

#[tokio::test]
async fn what_is_refused_is_said_and_tried_again() {
    let ground = Ground::start().await;
    create(&ground, "a", json!({})).await;
    let mut refuse = fault(
        "watch",
        "configmaps",
        Action::Status {
            code: 503,
            when: When::Before,
        },
    );
    refuse.times = Some(3);
    ground.playground.faults().add(refuse);
    let mut fed = plain(ground, QUICK);
    let mut health = fed.feed.health.clone();
    let seen = health
        .wait_for(|health| health.problem.is_some())
        .await
        .unwrap()
        .clone();
    assert!(seen.problem.as_ref().unwrap().contains("503"), "{seen:?}");
    assert_eq!(fed.next().await, ("a".to_owned(), ChangeType::Initial));
    health
        .wait_for(|h| h.complete && h.problem.is_none())
        .await
        .unwrap();
}

#[tokio::test]
async fn where_no_watch_is_allowed_lists_come_less_and_less_often_until_one_is() {
    let ground = Ground::start().await;
    create(&ground, "a", json!({})).await;
    let refuse = Action::Status {
        code: 403,
        when: When::Before,
    };
    let refused = fault("watch", "configmaps", refuse);
    ground.playground.faults().add(refused);
    let mut fed = plain(ground, QUICK);
    fed.feed.completed().await;
    assert_eq!(fed.next().await, ("a".to_owned(), ChangeType::Initial));
    for name in ["b", "c", "d", "e"] {
        create(&fed.ground, name, json!({})).await;
        fed.told_of(name, ChangeType::Changed).await;
    }
    let health = fed.feed.health();
    assert!(
        health.complete && health.forbidden && health.problem.is_some(),
        "{health:?}"
    );
    let asked = fed.ground.playground.requests().since(0);
    let count = |verb: &str| {
        let of = |r: &&kcp_playground::server::LoggedRequest| {
            r.verb == verb && r.resource == "configmaps"
        };
        asked.iter().filter(of).count()
    };
    let (lists, watches) = (count("list"), count("watch"));
    assert!(lists >= 5, "{lists} lists");
    // Watches are tried a few times at first, and then once a list.
    assert!(watches <= lists + 4, "{lists} lists, {watches} watches");
    fed.ground.playground.faults().clear();
    let mut health = fed.feed.health.clone();
    let well = health.wait_for(|h| h.problem.is_none() && !h.forbidden);
    well.await.unwrap();
    create(&fed.ground, "f", json!({})).await;
    fed.told_of("f", ChangeType::Changed).await;
}

#[tokio::test]
async fn only_what_carries_the_label_is_told_and_an_annotation_says_of_which_cluster() {
    let ground = Ground::start().await;
    create(&ground, "without", json!({ "annotations": { "c": "x" } })).await;
    create(&ground, "nowhere", json!({ "labels": { "l": "1" } })).await;
    let both = json!({ "labels": { "l": "1" }, "annotations": { "c": "x" } });
    create(&ground, "both", both).await;
    let mut fed = start(
        ground,
        Some("labelSelector=l"),
        Clusters::Annotation("c"),
        PATIENT,
    );
    fed.feed.completed().await;
    let (name, what) = fed.next().await;
    assert_eq!((&*name, what), ("both", ChangeType::Initial));
    let clusters: Vec<_> = fed
        .feed
        .table()
        .all()
        .iter()
        .map(|(k, _)| k.cluster.clone())
        .collect();
    assert_eq!(clusters, ["x".into()]);
}

#[tokio::test]
async fn what_was_not_asked_for_is_not_taken() {
    let ground = Ground::start().await;
    for (name, label) in [("a", "x"), ("b", "y")] {
        create(&ground, name, json!({"labels": {"l": label}})).await;
    }
    // The server was asked for neither the label nor the value: it might be a proxy that forgets both.
    let cache = Cache::new();
    let (side, kind) = (Side::new("s"), Arc::new(Gvk::new("", "v1", "ConfigMap")));
    cache.route(&side, "", &"here".into());
    let coverage = Coverage {
        labelled: Some("l".into()),
        value: Some("x".into()),
        namespace: Some("default".into()),
        ..Coverage::default()
    };
    let table = cache.add(&side, &kind, &"here".into(), coverage);
    let selection = Selection {
        connection: ground.service.clone(),
        resource: "configmaps".into(),
        namespace: None,
        query: None,
        clusters: Clusters::One("".into()),
        content: Content::Whole,
    };
    let (sender, mut told) = mpsc::unbounded_channel();
    let feed = Feed::start(selection, table, Arc::new(Told(sender)), PATIENT);
    feed.completed().await;
    let elsewhere = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "c", "labels": {"l": "x"}},
    });
    let others = "/api/v1/namespaces/kube-system/configmaps";
    let made = ground.service.ask(Call::post(others, &elsewhere)).await;
    made.unwrap();
    create(&ground, "d", json!({"labels": {"l": "y"}})).await;
    create(&ground, "e", json!({"labels": {"l": "x"}})).await;
    let mut names = Vec::new();
    while names.last().is_none_or(|name| name != "e") {
        names.push(told.recv().await.unwrap().key.name.to_string());
    }
    assert_eq!(names, ["a", "e"]);
}

/// Tenants are named by a label, and the length of the name is the part.
fn parted(ground: Ground) -> (Fed, watch::Sender<Option<BTreeSet<usize>>>) {
    let (want, wanted) = watch::channel(None);
    let partition = Partition {
        mark: TenantMark::Label("l"),
        part_of: Arc::new(str::len),
        wanted,
        everywhere: None,
    };
    let coverage = Coverage {
        labelled: Some("l".into()),
        partition: Some(partition),
        ..Coverage::default()
    };
    let kind = Gvk::new("", "v1", "ConfigMap");
    let clusters = Clusters::One("".into());
    let of = (kind, "configmaps");
    let fed = start_covering(
        ground,
        of,
        Some("labelSelector=l"),
        clusters,
        coverage,
        PATIENT,
    );
    (fed, want)
}

impl Fed {
    /// Lists so far.
    fn lists(&self) -> usize {
        self.ground
            .playground
            .requests()
            .count_since(0, is_whole_list)
    }

    fn names(&self) -> Vec<String> {
        let keys = self.feed.table().keys();
        let mut names: Vec<_> = keys.iter().map(|key| key.name.to_string()).collect();
        names.sort();
        names
    }

    async fn has_loaded(&self, tenant: &str) {
        in_time(async {
            while !self.feed.table().has_loaded(tenant) {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
}

#[tokio::test]
async fn a_feed_keeps_the_wanted_parts_and_lists_when_there_are_more() {
    let ground = Ground::start().await;
    for (name, tenant) in [("a", "x"), ("b", "yy"), ("c", "zzz")] {
        create(&ground, name, json!({"labels": {"l": tenant}})).await;
    }
    let (mut fed, want) = parted(ground);
    let find = |fed: &Fed, tenant: &str| {
        let labels = hawser_sync::Labels::from([("l".to_owned(), tenant.to_owned())]);
        match fed.cache.find(&fed.feed.table().scope(""), &labels) {
            Found::All(found) => Some(found.len()),
            Found::Unknown => None,
        }
    };
    // Nothing is asked for, and nothing is missing, while nothing is wanted.
    want.send_replace(Some(BTreeSet::new()));
    fed.feed.completed().await;
    assert_eq!((fed.lists(), find(&fed, "x")), (0, None));

    want.send_replace(Some([1].into()));
    fed.has_loaded("x").await;
    assert_eq!((fed.lists(), fed.names()), (1, vec!["a".to_owned()]));
    assert_eq!((find(&fed, "x"), find(&fed, "yy")), (Some(1), None));
    fed.told_of("a", ChangeType::Changed).await;

    // Of the others, no event is told. An object that comes from another part is.
    touch(&fed.ground, "b", "1").await;
    touch(&fed.ground, "a", "1").await;
    fed.told_of("a", ChangeType::Changed).await;
    let relabel = async |fed: &Fed, name: &str, tenant: &str| {
        let patch = json!({"metadata": {"labels": {"l": tenant}}});
        let call = Call::merge_patch(path(&format!("/{name}")), &patch);
        fed.ground.service.ask(call).await.unwrap();
    };
    relabel(&fed, "b", "y").await;
    assert_eq!(fed.next().await, ("b".to_owned(), ChangeType::Changed));
    // Whoever knows an object hears that it left.
    relabel(&fed, "b", "yy").await;
    assert_eq!(fed.next().await, ("b".to_owned(), ChangeType::Changed));
    assert_eq!(find(&fed, "y"), Some(0));

    // More parts need a list; what was known is not told again.
    want.send_replace(Some([1, 3].into()));
    fed.has_loaded("zzz").await;
    assert_eq!((fed.lists(), find(&fed, "zzz")), (2, Some(1)));
    assert_eq!(fed.next().await, ("c".to_owned(), ChangeType::Changed));

    // Fewer need none, and nothing is told: the objects exist.
    want.send_replace(Some([3].into()));
    touch(&fed.ground, "c", "1").await;
    assert_eq!(fed.next().await, ("c".to_owned(), ChangeType::Changed));
    assert_eq!((fed.names(), fed.lists()), (vec!["c".to_owned()], 2));
    assert_eq!((find(&fed, "x"), find(&fed, "zzz")), (None, Some(1)));
}

#[tokio::test]
async fn events_arrive_while_more_parts_are_listed() {
    let ground = Ground::start().await;
    for (name, tenant) in [("a", "x"), ("c", "zzz")] {
        create(&ground, name, json!({"labels": {"l": tenant}})).await;
    }
    let (mut fed, want) = parted(ground);
    want.send_replace(Some([1].into()));
    fed.has_loaded("x").await;
    let never = Action::Latency(Duration::from_hours(1));
    let faults = fed.ground.playground.faults();
    faults.add(fault("list", "configmaps", never).once());
    want.send_replace(Some([1, 3].into()));
    in_time(async {
        let mut number = 0;
        while fed.names() != ["a", "c"] {
            number += 1;
            touch(&fed.ground, "c", &number.to_string()).await;
        }
    })
    .await;
    touch(&fed.ground, "a", "1").await;
    fed.told_of("a", ChangeType::Changed).await;
    assert!(!fed.feed.table().has_loaded("zzz"));
    assert!(fed.feed.table().has_loaded("x"));
    // What is not wanted is dropped at once.
    want.send_replace(Some([1].into()));
    in_time(async {
        while fed.names() != ["a"] {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_list_of_more_parts_that_fails_is_made_up_for() {
    let ground = Ground::start().await;
    create(&ground, "c", json!({"labels": {"l": "zzz"}})).await;
    let (fed, want) = parted(ground);
    want.send_replace(Some([1].into()));
    fed.has_loaded("x").await;
    let refused = Action::Status {
        code: 429,
        when: When::Before,
    };
    let faults = fed.ground.playground.faults();
    faults.add(fault("list", "configmaps", refused).once());
    want.send_replace(Some([1, 3].into()));
    fed.has_loaded("zzz").await;
    assert_eq!((fed.names(), fed.lists()), (vec!["c".to_owned()], 3));
}

#[tokio::test]
async fn a_feed_ends_when_it_is_dropped() {
    let ground = Ground::start().await;
    let fed = plain(ground, PATIENT);
    fed.feed.completed().await;
    let Fed {
        feed,
        mut told,
        ground,
        ..
    } = fed;
    drop(feed);
    assert_eq!(
        told.recv().await,
        None,
        "the reader holds the listener as long as it runs"
    );
    ground.playground.stop().await;
}

/// Looks at a feed when it is told that its list is complete.
struct Looks {
    feed: parking_lot::Mutex<Option<Feed>>,
    found: mpsc::UnboundedSender<bool>,
}

impl EventHandler for Looks {
    fn changed(&self, _: &Arc<Table>, _: Change) {}

    fn completed(&self, _: &Arc<Table>) {
        let complete = self.feed.lock().take().is_some_and(|f| f.health().complete);
        self.found.send(complete).unwrap();
    }
}

#[tokio::test]
async fn who_is_told_that_a_list_is_complete_finds_the_feed_complete() {
    let ground = Ground::start().await;
    let cache = Cache::new();
    let (side, kind) = (Side::new("s"), Arc::new(Gvk::new("", "v1", "ConfigMap")));
    let table = cache.add(&side, &kind, &"here".into(), Coverage::default());
    let selection = Selection {
        connection: ground.service.clone(),
        resource: "configmaps".into(),
        namespace: None,
        query: None,
        clusters: Clusters::One("".into()),
        content: Content::Whole,
    };
    let (found, mut looked) = mpsc::unbounded_channel();
    let looks = Arc::new(Looks {
        feed: parking_lot::Mutex::default(),
        found,
    });
    let listener = Arc::clone(&looks);
    {
        let mut held = looks.feed.lock();
        *held = Some(Feed::start(selection, table, listener, PATIENT));
    }
    let complete = timeout(SOON, looked.recv()).await;
    assert_eq!(complete.unwrap(), Some(true));
}

const THINGS: &str = "/apis/example.com/v1/namespaces/default/things";

/// A kind that takes whatever stands in its objects.
async fn define_things(ground: &Ground) {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }},
            }],
        },
    });
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let made = ground.service.ask(Call::post(path, &definition)).await;
    made.unwrap();
    let served = async || {
        let listed = ground.service.call(Call::get(THINGS)).await.unwrap();
        listed.is_success()
    };
    while !served().await {
        sleep(Duration::from_millis(10)).await;
    }
}

/// An object of so many levels.
fn thing(name: &str, levels: usize) -> String {
    let (open, close) = ("[".repeat(levels - 1), "]".repeat(levels - 1));
    format!(
        r#"{{"apiVersion":"example.com/v1","kind":"Thing","metadata":{{"name":"{name}"}},"spec":{open}{close}}}"#
    )
}

/// Sends an object as it is: nobody here could parse it.
async fn send(ground: &Ground, call: Call, body: String) {
    let body = body.into();
    let reply = ground.service.call(Call { body, ..call }).await.unwrap();
    let said = String::from_utf8_lossy(&reply.body);
    assert!(
        reply.is_success(),
        "{}",
        said.chars().take(300).collect::<String>()
    );
}

async fn make_thing(ground: &Ground, name: &str, levels: usize) {
    let call = Call::post(THINGS, &Value::Null);
    send(ground, call, thing(name, levels)).await;
}

fn things(ground: Ground, pace: Pace) -> Fed {
    let kind = Gvk::new("example.com", "v1", "Thing");
    start_of(
        ground,
        (kind, "things"),
        None,
        Clusters::One("".into()),
        pace,
    )
}

impl Fed {
    /// Whether an object is known, and whether whole.
    fn is_whole(&self, name: &str) -> Option<bool> {
        let scope = self.feed.table().scope("");
        match self.cache.get(&scope.key(Some("default"), name)) {
            Seen::Present(object) => Some(!object.is_fragment()),
            Seen::Absent | Seen::Unknown => None,
        }
    }
}

const LEVELS: usize = 9_000;

#[tokio::test]
async fn an_object_that_is_too_deep_stops_no_other_one() {
    let ground = Ground::start().await;
    define_things(&ground).await;
    let mut fed = things(ground, PATIENT);
    fed.feed.completed().await;
    make_thing(&fed.ground, "deep", LEVELS).await;
    fed.told_of("deep", ChangeType::Changed).await;
    make_thing(&fed.ground, "other", 3).await;
    fed.told_of("other", ChangeType::Changed).await;
    assert_eq!(
        (fed.is_whole("deep"), fed.is_whole("other")),
        (Some(false), Some(true))
    );
    assert_eq!(fed.feed.table().size().fragments, 1);
    assert_eq!(fed.feed.health().problem, None);
    // Of its own depth the one is rid by a write, the other by its end.
    let flat = json!({"spec": null});
    let patch = Call::merge_patch(format!("{THINGS}/deep"), &flat);
    fed.ground.service.ask(patch).await.unwrap();
    fed.told_of("deep", ChangeType::Changed).await;
    assert_eq!(fed.is_whole("deep"), Some(true));
    make_thing(&fed.ground, "second", LEVELS).await;
    fed.told_of("second", ChangeType::Changed).await;
    let gone = Call::delete(format!("{THINGS}/second"), &json!({}));
    assert!(fed.ground.service.call(gone).await.unwrap().is_success());
    fed.told_of("second", ChangeType::Gone).await;
    assert_eq!(
        (fed.is_whole("second"), fed.feed.table().size().fragments),
        (None, 0)
    );
    let requests = fed.ground.playground.requests().since(0);
    let watches = requests
        .iter()
        .filter(|r| r.resource == "things" && r.verb == "watch");
    assert_eq!(watches.count(), 1);
}

#[tokio::test]
async fn a_first_list_with_an_object_that_is_too_deep_is_complete() {
    for streamed in [true, false] {
        let ground = Ground::start().await;
        define_things(&ground).await;
        make_thing(&ground, "a", 3).await;
        make_thing(&ground, "deep", LEVELS).await;
        make_thing(&ground, "z", 3).await;
        if !streamed {
            let (code, when) = (422, When::Before);
            let refuse = fault("watch", "things", Action::Status { code, when });
            ground.playground.faults().add(refuse.once());
        }
        let fed = things(ground, PATIENT);
        timeout(SOON, fed.feed.completed()).await.unwrap();
        let whole = ["a", "deep", "z"].map(|name| fed.is_whole(name));
        assert_eq!(whole, [Some(true), Some(false), Some(true)]);
    }
}

#[tokio::test]
async fn pages_that_do_not_come_through_are_asked_for_smaller() {
    let ground = Ground::start().await;
    for number in 0..3 {
        create(&ground, &format!("a{number}"), json!({})).await;
    }
    let (code, when) = (422, When::Before);
    let faults = ground.playground.faults();
    faults.add(fault("watch", "configmaps", Action::Status { code, when }).once());
    // Slower than anybody waits, then out of time before any answer.
    for action in [
        Action::Latency(Duration::from_mins(1)),
        Action::Status { code: 504, when },
    ] {
        let mut slow = fault("list", "configmaps", action);
        slow.times = Some(4);
        faults.add(slow);
    }
    let fed = plain(ground, QUICK);
    timeout(SOON, fed.feed.completed()).await.unwrap();
    assert!(fed.has("a0") && fed.has("a1") && fed.has("a2"));
    let requests = fed.ground.playground.requests().since(0);
    let lists = requests
        .iter()
        .filter(|r| r.verb == "list" && r.resource == "configmaps");
    let sizes: Vec<_> = lists
        .map(|r| r.query.split("limit=").nth(1).unwrap())
        .collect();
    // Those that nobody waited for, from 500 to 62, are not in the log.
    assert_eq!(sizes[..4], ["31", "15", "7", "3"]);
    assert!(sizes[4..].iter().all(|size| size.starts_with('1')) && sizes.len() == 7);
}

#[tokio::test]
async fn a_watch_that_ends_with_an_error_goes_on_where_it_was_without_a_list() {
    let ground = Ground::start().await;
    let mut fails = fault(
        "watch",
        "configmaps",
        Action::FailWatch(Duration::from_millis(300)),
    );
    fails.times = Some(2);
    ground.playground.faults().add(fails);
    let mut fed = plain(ground, PATIENT);
    fed.feed.completed().await;
    let mut told = 0;
    let watches = |fed: &Fed| {
        let requests = fed.ground.playground.requests().since(0);
        let watches = requests
            .iter()
            .filter(|r| r.verb == "watch" && r.resource == "configmaps");
        watches.count()
    };
    while told < 5 || watches(&fed) < 3 {
        create(&fed.ground, &format!("n{told}"), json!({})).await;
        fed.told_of(&format!("n{told}"), ChangeType::Changed).await;
        told += 1;
    }
    let requests = fed.ground.playground.requests().since(0);
    let lists = requests.iter().filter(|r| {
        r.resource == "configmaps" && (r.verb == "list" || r.query.contains("sendInitialEvents"))
    });
    assert_eq!(lists.count(), 1);
}

#[tokio::test]
async fn a_kind_that_is_expected_is_looked_for_at_once() {
    let ground = Ground::start().await;
    let seldom = Duration::from_hours(1);
    let fed = things(
        ground,
        Pace {
            retry: (seldom, seldom),
            ..PATIENT
        },
    );
    let mut health = fed.feed.health.clone();
    let unserved = health.wait_for(|health| health.problem.is_some());
    timeout(SOON, unserved).await.unwrap().unwrap();
    // It is told before it is true, as by who writes the definition.
    fed.feed.expect();
    define_things(&fed.ground).await;
    timeout(SOON, fed.feed.completed()).await.unwrap();
}
