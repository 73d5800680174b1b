//! Ways to the cloud: by a proxy, as an account of Google, with a token in a file.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::world::{MISSIONS, World};

/// A head of HTTP, up to the empty line.
async fn head(stream: &mut BufReader<TcpStream>) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        match line.trim_end() {
            "" => return Ok(lines),
            line => lines.push(line.to_owned()),
        }
    }
}

/// Joins whoever asks for `cloud.example.com` to the way in.
async fn tunnel(
    stream: TcpStream,
    to: std::net::SocketAddr,
    asked: &Mutex<Vec<String>>,
) -> Result<()> {
    let mut stream = BufReader::new(stream);
    let lines = head(&mut stream).await?;
    asked.lock().push(lines.first().context("a line")?.clone());
    let mut far = TcpStream::connect(to).await?;
    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
    tokio::io::copy_bidirectional(&mut stream, &mut far).await?;
    Ok(())
}

/// Answers a token to whoever asks as the account.
async fn token(stream: TcpStream, asked: &Mutex<Vec<String>>) -> Result<()> {
    let mut stream = BufReader::new(stream);
    let lines = head(&mut stream).await?;
    let length = |line: &String| {
        let (name, value) = line.split_once(':')?;
        let is = name.eq_ignore_ascii_case("content-length");
        is.then(|| value.trim().parse::<usize>().ok())?
    };
    let length = lines.iter().find_map(length).context("no length")?;
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    asked.lock().push(format!(
        "{}\n{}",
        lines.join("\n"),
        String::from_utf8(body)?
    ));
    let said =
        json!({"access_token": "google", "expires_in": 3600, "token_type": "Bearer"}).to_string();
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{said}",
        said.len()
    );
    stream.write_all(answer.as_bytes()).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cloud_is_reached_by_a_proxy_as_an_account_of_google() -> Result<()> {
    let world = World::with(&[MISSIONS]).await?;
    world.entry.take_tokens(&["google"]);
    let (asked_proxy, asked_token) = (
        Arc::<Mutex<Vec<String>>>::default(),
        Arc::<Mutex<Vec<String>>>::default(),
    );
    let (proxy, tokens) = (
        TcpListener::bind("127.0.0.1:0").await?,
        TcpListener::bind("127.0.0.1:0").await?,
    );
    let (at_proxy, at_tokens) = (proxy.local_addr()?, tokens.local_addr()?);
    let mut serving = JoinSet::new();
    let (to, asked) = (world.entry.address(), Arc::clone(&asked_proxy));
    serving.spawn(async move {
        let mut all = JoinSet::new();
        while let Ok((stream, _)) = proxy.accept().await {
            let asked = Arc::clone(&asked);
            // Clients come and go.
            all.spawn(async move { drop(tunnel(stream, to, &asked).await) });
        }
    });
    let asked = Arc::clone(&asked_token);
    serving.spawn(async move {
        while let Ok((stream, _)) = tokens.accept().await {
            drop(token(stream, &asked).await);
        }
    });
    let account = testbed::binaries::repository().join("tests/data/mirror/account.json");
    let mut account: Value = serde_json::from_slice(&std::fs::read(account)?)?;
    account["token_uri"] = format!("http://{at_tokens}/token").into();
    let file = world.directory.path().join("account.json");
    std::fs::write(&file, account.to_string())?;

    let launch = world.launch("cloud.example.com");
    let launch = launch
        .env("HTTPS_PROXY", format!("http://{at_proxy}"))
        .env("NO_PROXY", "example.org,10.0.0.0/8")
        .env("GOOGLE_APPLICATION_CREDENTIALS", &file);
    let mirror = world.started(launch)?;
    let on = world.objects(MISSIONS)?;
    on.cloud.create("a", json!({})).await?;
    on.robot.has("a", "/spec/goal", json!("a")).await;
    on.robot.status("a", json!({"phase": "done"})).await?;
    on.cloud.has("a", "/status/phase", json!("done")).await;
    let lines = asked_proxy.lock().clone();
    ensure!(!lines.is_empty(), "the proxy was not asked");
    for line in lines {
        ensure!(line == "CONNECT cloud.example.com:443 HTTP/1.1", "{line}");
    }
    let asked = asked_token.lock().clone();
    let [asked] = &*asked else {
        anyhow::bail!("{asked:?}")
    };
    ensure!(asked.starts_with("POST /token HTTP/1.1"), "{asked}");
    ensure!(
        asked.contains("content-type: application/x-www-form-urlencoded"),
        "{asked}"
    );
    ensure!(asked.contains("jwt-bearer&assertion=ey"), "{asked}");
    world.check(&[MISSIONS])?;
    mirror.stop().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_in_a_file_is_taken_when_it_comes_and_when_it_changes() -> Result<()> {
    let world = World::with(&[MISSIONS]).await?;
    let on = world.objects(MISSIONS)?;
    let file = world.directory.path().join("token");
    std::fs::write(&file, "wrong\n")?;
    let mirror = world.mirror(&[])?;
    on.cloud.create("a", json!({})).await?;
    testbed::eventually(testbed::SOON, "the wrong token is refused", async || {
        let refused = world
            .entry
            .record()
            .iter()
            .any(|request| request.code == Some(401));
        ensure!(refused, "not yet");
        anyhow::Ok(())
    })
    .await;
    // Renewed by whoever renews it, with the end of a line as editors leave it.
    std::fs::write(&file, "r1\n")?;
    on.robot.has("a", "/spec/goal", json!("a")).await;
    mirror.stop().await
}
