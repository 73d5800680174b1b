use std::fs;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::advance;

use super::super::tests::{Files, authority, in_workspace, kubeconfig};
use super::*;
use crate::cluster::connection::{Call, Connection, Limits};
use crate::cluster::ground::Ground;

/// A watched configuration and what was handed over.
struct Scene {
    files: Files,
    /// The token of each new configuration, and the server it leads to.
    handed: Arc<Mutex<Vec<String>>>,
    refuse: Arc<Mutex<bool>>,
    task: JoinHandle<()>,
}

fn with_token_file(server: &str) -> String {
    kubeconfig(server, "certificate-authority: ca.crt", "tokenFile: token")
}

impl Scene {
    fn start() -> Self {
        let files = Files::new();
        files.write("ca.crt", &authority());
        files.write("token", "first");
        let path = files.write("config", &with_token_file("https://one/clusters/root"));
        let (watched, config) = Watched::start(in_workspace(&path)).unwrap();
        assert_eq!(config.cluster_url.host(), Some("one"));
        let handed = Arc::new(Mutex::new(Vec::new()));
        let refuse = Arc::new(Mutex::new(false));
        let (hand, no) = (Arc::clone(&handed), Arc::clone(&refuse));
        let task = tokio::spawn(watched.follow(move |config| {
            if *no.lock() {
                return Err(std::io::Error::other("no"));
            }
            let token = fs::read_to_string(config.auth_info.token_file.unwrap()).unwrap();
            let host = config.cluster_url.host().unwrap().to_owned();
            hand.lock().push(format!("{token}@{host}"));
            Ok(())
        }));
        Self {
            files,
            handed,
            refuse,
            task,
        }
    }

    /// What is handed over by the next look.
    async fn next_look(&self) -> Vec<String> {
        tokio::task::yield_now().await;
        advance(INTERVAL).await;
        tokio::task::yield_now().await;
        assert!(!self.task.is_finished());
        std::mem::take(&mut self.handed.lock())
    }
}

#[tokio::test(start_paused = true)]
async fn a_changed_file_is_read_again_and_an_unchanged_one_is_not() {
    let scene = Scene::start();
    assert!(scene.next_look().await.is_empty());

    scene
        .files
        .write("config", &with_token_file("https://two/clusters/root"));
    assert_eq!(scene.next_look().await, ["first@two"]);
    assert!(scene.next_look().await.is_empty());

    // Written again as it was.
    scene
        .files
        .write("config", &with_token_file("https://two/clusters/root"));
    assert!(scene.next_look().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn files_that_the_kubeconfig_names_count_too() {
    let scene = Scene::start();
    scene.files.write("token", "second");
    assert_eq!(scene.next_look().await, ["second@one"]);
    scene.files.write("ca.crt", &authority());
    assert_eq!(scene.next_look().await, ["second@one"]);
    assert!(scene.next_look().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn files_that_a_new_kubeconfig_names_are_handed_over_once_and_watched_from_then_on() {
    let scene = Scene::start();
    scene.files.write("other", "third");
    let text = with_token_file("https://one/clusters/root")
        .replace("tokenFile: token", "tokenFile: other");
    scene.files.write("config", &text);
    assert_eq!(scene.next_look().await, ["third@one"]);
    assert!(scene.next_look().await.is_empty());
    scene.files.write("token", "nobody's any more");
    assert!(scene.next_look().await.is_empty());
    scene.files.write("other", "fourth");
    assert_eq!(scene.next_look().await, ["fourth@one"]);
}

#[tokio::test(start_paused = true)]
async fn a_broken_file_changes_nothing_until_it_is_mended() {
    let scene = Scene::start();
    for broken in ["users: [", "", "current-context: none\n"] {
        scene.files.write("config", broken);
        assert!(scene.next_look().await.is_empty());
    }
    fs::remove_file(scene.files.path("config")).unwrap();
    assert!(scene.next_look().await.is_empty());
    // Leads nowhere any more.
    scene
        .files
        .write("config", &with_token_file("https://plain"));
    assert!(scene.next_look().await.is_empty());

    scene
        .files
        .write("config", &with_token_file("https://two/clusters/root"));
    assert_eq!(scene.next_look().await, ["first@two"]);
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_mended_as_it_was_needs_no_renewal() {
    let scene = Scene::start();
    scene.files.write("config", "users: [");
    assert!(scene.next_look().await.is_empty());
    scene
        .files
        .write("config", &with_token_file("https://one/clusters/root"));
    assert!(scene.next_look().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_is_offered_again() {
    let scene = Scene::start();
    *scene.refuse.lock() = true;
    scene.files.write("token", "second");
    assert!(scene.next_look().await.is_empty());
    *scene.refuse.lock() = false;
    assert_eq!(scene.next_look().await, ["second@one"]);
}

#[tokio::test]
async fn a_connection_lives_on_with_the_credentials_of_a_changed_file() {
    let ground = Ground::start().await;
    let files = Files::new();
    let good = ground.playground.kcp_kubeconfig().to_string();
    let token = ground.playground.kcp_kubeconfig()["users"][0]["user"]["token"].clone();
    let stale = good.replace(token.as_str().unwrap(), "stale");
    assert_ne!(stale, good);
    let path = files.write("config", &stale);
    let (mut watched, config) = Watched::start(in_workspace(&path)).unwrap();
    let connection = Connection::new(config, Limits::default()).unwrap();
    let version = || connection.call(Call::get("/api/v1/namespaces"));
    assert_eq!(version().await.unwrap().status, 401);

    files.write("config", &good);
    watched.look(&mut |config| connection.renew(config));
    assert_eq!(version().await.unwrap().status, 200);
}
