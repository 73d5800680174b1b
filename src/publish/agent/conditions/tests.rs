use std::collections::BTreeSet;

use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::*;
use crate::publish::agent::ground::{Dialect, Scene, of_crontabs, until};
use crate::publish::ready::{SchemaFact, SynchronizationFact};
use hawser_runtime::cluster::ground::fault;
use kcp_playground::server::{Action, Fault, When};

const SOON: Duration = Duration::from_mins(1);
/// Nothing happens because of what waits for so long.
const NEVER: Duration = Duration::from_mins(10);
const QUICK: QuietPeriod = QuietPeriod {
    after: Duration::from_millis(60),
    most: NEVER,
};

/// What the test lets the watches see.
#[derive(Clone, Default)]
struct Eyes(Arc<Mutex<Sight>>);

#[derive(Default)]
struct Sight {
    published: HashMap<String, Arc<Value>>,
    definition: Option<CrdPrint>,
    /// The name of a published resource, and how often it is seen before it is deselected.
    deselected: Option<(String, usize)>,
}

impl ConditionSource for Eyes {
    fn published(&self, name: &str) -> Option<Arc<Value>> {
        let mut sight = self.0.lock();
        if let Some((deselected, looks)) = &mut sight.deselected
            && deselected == name
        {
            *looks = looks.checked_sub(1)?;
        }
        sight.published.get(name).cloned()
    }

    fn definition(&self) -> Option<CrdPrint> {
        self.0.lock().definition.clone()
    }
}

struct Running {
    scene: Scene,
    watches: Eyes,
    conditions: Arc<Conditions>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    async fn start(dialect: Dialect, quiet: QuietPeriod) -> Self {
        let scene = Scene::set(dialect).await;
        let watches = Eyes::default();
        watches.0.lock().definition = Some(CrdPrint {
            uid: "u".into(),
            generation: 1,
        });
        for name in ["tabs", "last"] {
            scene.publish(name, of_crontabs("example.com")).await;
        }
        let service = scene.ground.service.clone();
        let conditions = Arc::new(Conditions::new(service, Arc::new(watches.clone()), quiet));
        let stop = CancellationToken::new();
        let task = tokio::spawn({
            let (conditions, stop) = (Arc::clone(&conditions), stop.clone());
            async move { conditions.run(stop).await }
        });
        let mut running = Self {
            scene,
            watches,
            conditions,
            stop,
            task,
        };
        for name in ["tabs", "last"] {
            running.see(name).await;
        }
        running.scene.mark();
        running
    }

    /// Lets the watch see a published resource as it is now.
    async fn see(&self, name: &str) -> Value {
        let now = self.scene.published(name).await;
        let sight = Arc::new(now.clone());
        self.watches
            .0
            .lock()
            .published
            .insert(name.to_owned(), sight);
        now
    }

    fn report(&self, name: &str, facts: &Facts) {
        let seen = self.watches.published(name).unwrap();
        self.conditions
            .report(seen["metadata"]["uid"].as_str().unwrap(), name, facts);
    }

    async fn ready(&self, name: &str, message: &str) -> Value {
        let path = format!("{PUBLISHED_RESOURCES}/{name}");
        let says = |object: &Value| {
            object["status"]["conditions"][0]["message"]
                .as_str()
                .is_some_and(|m| m.contains(message))
        };
        let found = until(&self.scene.ground.service, &path, says).await;
        found["status"]["conditions"][0].clone()
    }

    /// Everything that was reported before has been written or given up when this one is.
    async fn all_is_done(&self, workspaces: usize) {
        self.report("last", &with(workspaces));
        self.ready("last", &format!("with {workspaces} workspaces"))
            .await;
    }

    fn patches(&self) -> Vec<String> {
        let requests = self.scene.requests();
        requests
            .into_iter()
            .filter(|line| line.starts_with("patch"))
            .collect()
    }

    async fn end(self) {
        self.stop.cancel();
        timeout(SOON, self.task).await.unwrap().unwrap();
    }
}

fn with(workspaces: usize) -> Facts {
    Facts {
        generation: 1,
        schema: SchemaFact::Published("v1.crontabs.example.com".into()),
        synchronization: SynchronizationFact::Enabled(workspaces),
        ..Facts::default()
    }
}

fn answer(code: u16) -> Fault {
    fault(
        "patch",
        "publishedresources",
        Action::Status {
            code,
            when: When::Before,
        },
    )
    .once()
}

#[tokio::test]
async fn a_burst_of_changes_is_one_patch_with_the_last_of_them() {
    let running = Running::start(Dialect::Ours, QUICK).await;
    for workspaces in 0..20 {
        running.report("tabs", &with(workspaces));
    }
    let condition = running.ready("tabs", "19 workspaces").await;
    assert_eq!(
        (&condition["status"], &condition["reason"]),
        (&json!("True"), &json!("Synchronizing"))
    );
    assert_eq!(condition["observedGeneration"], 1);
    let stored = running.see("tabs").await;
    assert_eq!(stored["status"]["observedGeneration"], 1);
    assert_eq!(running.patches(), ["patch publishedresources/status 200"]);
    running.end().await;
}

#[tokio::test]
async fn what_is_there_already_is_not_written_even_where_the_watch_is_behind() {
    let running = Running::start(Dialect::Ours, QUICK).await;
    running.report("tabs", &with(2));
    running.ready("tabs", "with 2 workspaces").await;
    running.report("tabs", &with(2));
    running.see("tabs").await;
    running.report("tabs", &with(2));
    running.report("tabs", &with(3));
    running.report("tabs", &with(2));
    running.all_is_done(7).await;
    assert_eq!(running.patches().len(), 2, "one for each of the two");
    running.end().await;
}

#[tokio::test]
async fn changes_that_never_stop_are_written_all_the_same() {
    let quiet = QuietPeriod {
        after: NEVER,
        most: Duration::from_millis(60),
    };
    let running = Running::start(Dialect::Ours, quiet).await;
    running.report("tabs", &with(2));
    running.report("tabs", &with(3));
    running.ready("tabs", "with 3 workspaces").await;
    running.end().await;
}

#[tokio::test]
async fn the_time_of_the_last_transition_stays_while_the_status_does() {
    let running = Running::start(Dialect::Ours, QUICK).await;
    let uid = running.see("tabs").await["metadata"]["uid"].clone();
    let old = json!({"status": {"conditions": [{
        "type": "Ready", "status": "True", "reason": "X", "message": "x",
        "lastTransitionTime": "2020-01-01T00:00:00Z",
    }]}});
    let path = format!("{PUBLISHED_RESOURCES}/tabs/status");
    running
        .scene
        .ground
        .service
        .ask(Call::merge_patch(path, &old))
        .await
        .unwrap();
    running.see("tabs").await;
    running.report("tabs", &with(2));
    let same = running.ready("tabs", "with 2 workspaces").await;
    assert_eq!(same["lastTransitionTime"], "2020-01-01T00:00:00Z");
    let facts = Facts {
        missing_rights: BTreeSet::from(["create things".to_owned()]),
        ..with(2)
    };
    running.report("tabs", &facts);
    let other = running.ready("tabs", "may not create things").await;
    assert_eq!(other["status"], "False");
    assert_ne!(other["lastTransitionTime"], "2020-01-01T00:00:00Z");
    assert_eq!(running.see("tabs").await["metadata"]["uid"], uid);
    running.end().await;
}

#[tokio::test]
async fn a_type_that_drops_conditions_is_noticed_once_and_asked_again_when_it_is_replaced() {
    let mut running = Running::start(Dialect::Original, QUICK).await;
    running.report("tabs", &with(2));
    let log = running.scene.ground.playground.requests();
    let noticed = async {
        while running.conditions.state.lock().drops == SchemaPruning::Nobody {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(SOON, noticed).await.unwrap();
    let mark = log.mark();
    running.report("tabs", &with(3));
    running.report("last", &with(3));
    assert!(
        running.conditions.state.lock().open.is_empty(),
        "nothing waits"
    );
    assert_eq!(log.count_since(mark, |_| true), 0);
    assert_eq!(running.patches(), ["patch publishedresources/status 200"]);

    running.scene.mark();
    running.watches.0.lock().definition = Some(CrdPrint {
        uid: "u".into(),
        generation: 2,
    });
    running.report("tabs", &with(4));
    assert_eq!(
        running.conditions.state.lock().open.len(),
        1,
        "the new type may keep them"
    );
    running.end().await;
}

#[tokio::test]
async fn a_patch_that_fails_is_sent_again_with_what_is_newest() {
    for code in [409, 500] {
        let running = Running::start(Dialect::Ours, QUICK).await;
        running.scene.ground.playground.faults().add(answer(code));
        running.report("tabs", &with(2));
        running.ready("tabs", "with 2 workspaces").await;
        assert_eq!(running.patches().len(), 2);
        running.end().await;
    }
}

#[tokio::test]
async fn what_is_gone_or_has_come_again_under_its_name_is_not_written() {
    let running = Running::start(Dialect::Ours, QUICK).await;
    running.conditions.report("another-uid", "tabs", &with(2));
    running.conditions.report("gone", "nobody", &with(2));
    running.report("tabs", &with(4));
    let uid = running.see("tabs").await["metadata"]["uid"]
        .as_str()
        .unwrap()
        .to_owned();
    running.conditions.forget(&uid);
    running.all_is_done(5).await;
    assert_eq!(running.patches().len(), 1, "that of the last one");
    running.end().await;
}

#[tokio::test]
async fn what_is_deselected_while_its_condition_waits_for_its_turn_gets_none() {
    let running = Running::start(Dialect::Ours, QUICK).await;
    let uid = running.watches.published("tabs").unwrap()["metadata"]["uid"].clone();
    // It is seen when it is reported and when the patch is worked out, but not when the patch is about to be sent.
    running.watches.0.lock().deselected = Some(("tabs".to_owned(), 2));
    running
        .conditions
        .report(uid.as_str().unwrap(), "tabs", &with(1));
    let looks = || running.watches.0.lock().deselected.clone().unwrap().1;
    while looks() > 0 {
        sleep_until(Instant::now() + Duration::from_millis(1)).await;
    }
    running.all_is_done(2).await;
    assert_eq!(running.patches(), ["patch publishedresources/status 200"]);
    let tabs = running.scene.published("tabs").await;
    assert_eq!(tabs["status"]["conditions"], Value::Null);
    running.end().await;
}
