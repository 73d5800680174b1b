//! Workspaces that move between endpoints of one slice.

use serde_json::{Value, json};

use super::*;
use hawser_runtime::cluster::cache::Table;
use hawser_runtime::cluster::feed::{EventHandler, Pace};
use hawser_runtime::cluster::ground::Ground;
use hawser_sync::Scope;

struct IgnoreEvents;

impl EventHandler for IgnoreEvents {
    fn changed(&self, _: &Arc<Table>, _: Change) {}
}

struct Scene {
    ground: Ground,
    cache: Arc<Cache>,
    sides: Sides,
    workspaces: Workspaces,
}

impl Scene {
    async fn set() -> Self {
        let ground = Ground::start().await;
        let (sides, cache) = (Sides::default(), Cache::new());
        let feeds = WatchRegistry::new(&cache, Pace::default(), Arc::new(IgnoreEvents));
        let workspaces = Workspaces::new(&sides, &cache, &feeds, ground.kcp.clone());
        Self {
            ground,
            cache,
            sides,
            workspaces,
        }
    }

    /// The endpoint of a shard; none of them serves anything.
    fn url(&self, shard: &str) -> Arc<str> {
        let base = self.ground.kcp.url().replace("/clusters/root", "");
        format!("{base}/services/{shard}").into()
    }

    fn slice(&self, shards: &[&str]) -> WorkspaceChange {
        let endpoints: Vec<_> = shards
            .iter()
            .map(|shard| json!({"url": &*self.url(shard)}))
            .collect();
        let slice = json!({
            "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIExportEndpointSlice",
            "metadata": {"name": "slice"}, "status": {"endpoints": endpoints},
        });
        self.workspaces.slice(Some(&Object::new(slice).unwrap()))
    }

    fn binding(&self, shard: &str, what: ChangeType) -> WorkspaceChange {
        self.binding_with(shard, what, &json!({}))
    }

    fn binding_with(&self, shard: &str, what: ChangeType, annotations: &Value) -> WorkspaceChange {
        let binding = json!({
            "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIBinding",
            "metadata": {"name": "binding", "annotations": annotations},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        });
        let change = Change {
            key: Scope::new(&self.sides.kcp, &binding_kind(), "team").key(None, "binding"),
            object: Arc::new(Object::new(binding).unwrap()),
            what,
        };
        self.workspaces.binding(&self.url(shard), &change)
    }

    #[track_caller]
    fn check_served_by(&self, shard: Option<&str>) {
        let source = self.cache.source(&self.sides.kcp, "team");
        assert_eq!(source, shard.map(|shard| self.url(shard)));
        assert_eq!(
            self.workspaces.connection("team").is_some(),
            shard.is_some()
        );
        assert_eq!(self.workspaces.is_bound("team"), shard.is_some());
    }
}

fn team() -> Vec<Arc<str>> {
    vec!["team".into()]
}

#[tokio::test]
async fn a_workspace_that_moved_is_served_on_when_its_old_endpoint_goes() {
    let scene = Scene::set().await;
    scene.slice(&["one"]);
    assert_eq!(scene.binding("one", ChangeType::Initial).engaged, team());
    scene.check_served_by(Some("one"));
    scene.slice(&["one", "two"]);
    scene.binding("two", ChangeType::Initial);

    let moved = scene.slice(&["two"]);
    assert_eq!(moved.disengaged, Vec::<Arc<str>>::new());
    assert_eq!(moved.engaged, team());
    scene.check_served_by(Some("two"));

    assert_eq!(scene.slice(&[]).disengaged, team());
    scene.check_served_by(None);
}

#[tokio::test]
async fn a_pause_moves_with_its_workspace_and_ends_with_its_endpoint() {
    let pause = json!({
        "syncagent.kcp.io/pause-until": "2999-01-01T00:00:00Z",
        "syncagent.kcp.io/pause-by": "anna", "syncagent.kcp.io/pause-reason": "mission",
    });
    let scene = Scene::set().await;
    scene.slice(&["one", "two"]);
    let paused = scene.binding_with("one", ChangeType::Initial, &pause);
    assert_eq!(paused.paused, team());
    scene.binding_with("two", ChangeType::Initial, &pause);
    scene.binding("one", ChangeType::Gone);
    assert_eq!(scene.workspaces.pauses("team").len(), 1);
    assert_eq!(scene.workspaces.pauses("other"), []);
    // The same again is no news; incomplete annotations are no pause.
    let same = scene.binding_with("two", ChangeType::Changed, &pause);
    assert_eq!(same.paused, Vec::<Arc<str>>::new());
    let incomplete = json!({"syncagent.kcp.io/pause-by": "anna"});
    let ended = scene.binding_with("two", ChangeType::Changed, &incomplete);
    assert_eq!(
        (ended.paused, scene.workspaces.pauses("team")),
        (team(), Vec::new())
    );

    scene.binding_with("two", ChangeType::Changed, &pause);
    scene.slice(&["one"]);
    assert_eq!(scene.workspaces.pauses("team"), []);
}

#[tokio::test]
async fn a_binding_that_goes_from_one_endpoint_leaves_the_workspace_to_the_other() {
    let scene = Scene::set().await;
    scene.slice(&["one", "two"]);
    scene.binding("one", ChangeType::Initial);
    scene.binding("two", ChangeType::Initial);

    let moved = scene.binding("one", ChangeType::Gone);
    assert_eq!(moved.disengaged, Vec::<Arc<str>>::new());
    scene.check_served_by(Some("two"));

    assert_eq!(scene.binding("two", ChangeType::Gone).disengaged, team());
    scene.check_served_by(None);
}
