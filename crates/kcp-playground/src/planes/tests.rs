//! The end of a playground. Nothing else in this process starts one: its threads are counted.

use std::fs;

use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::*;

const SOON: Duration = Duration::from_secs(30);

fn threads() -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.trim() == "playground").count()
}

async fn eventually(what: &str, is_so: impl AsyncFn() -> bool) {
    let waiting = async {
        while !is_so().await {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(SOON, waiting).await.expect(what);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_of_a_playground_that_is_dropped() {
    for own_threads in [true, false] {
        let playground = Playground::start_with(PlaygroundOptions {
            own_threads,
            ..PlaygroundOptions::default()
        });
        let playground = playground.await.unwrap();
        assert_eq!(threads() > 0, own_threads);
        let doors = [playground.kcp_url(), playground.service_url()];
        let doors = doors.map(|url| url.trim_start_matches("https://").to_owned());
        let mut clients = Vec::new();
        for door in &doors {
            clients.push(TcpStream::connect(door).await.unwrap());
        }
        drop(playground);
        for mut client in clients {
            let ended = timeout(SOON, client.read_to_end(&mut Vec::new())).await;
            assert!(ended.is_ok(), "a connection stays open");
        }
        for door in &doors {
            eventually("the port is free", async || {
                TcpStream::connect(door).await.is_err()
            })
            .await;
        }
        eventually("the threads end", async || threads() == 0).await;
    }
}
