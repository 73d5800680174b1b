//! What goes over the wire below HTTP/2: the records of TLS, counted on their way.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use futures::future::try_join_all;
use http::Request;
use http_body_util::{BodyExt as _, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kcp_playground::Playground;
use kcp_playground::PlaygroundOptions;
use kube::Config;
use kube::api::{Api, PostParams};
use kube::client::ConfigExt as _;
use kube::config::{KubeConfigOptions, Kubeconfig};
use testbed::SOON;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;

use super::{client, map};

const WATCHES: usize = 100;
/// One change, told to all of them, is some 70 KB, and a record has 16 KiB at most.
const RECORDS: usize = 20;

/// In the header of a record: what it holds is data, and not a part of the handshake.
const DATA: u8 = 23;

/// Stands between a client and a server and counts the records of data that the server sends.
struct Relay {
    port: u16,
    records: Arc<AtomicUsize>,
}

impl Relay {
    /// For one connection.
    async fn to(host: String, port: u16) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let relay = Self {
            port: listener.local_addr()?.port(),
            records: Arc::default(),
        };
        let records = Arc::clone(&relay.records);
        tokio::spawn(async move {
            let (client, _) = listener.accept().await?;
            let server = TcpStream::connect((host, port)).await?;
            let (mut from_client, to_client) = client.into_split();
            let (from_server, mut to_server) = server.into_split();
            tokio::try_join!(
                tokio::io::copy(&mut from_client, &mut to_server),
                counted(from_server, to_client, &records),
            )
        });
        Ok(relay)
    }

    fn records(&self) -> usize {
        self.records.load(Ordering::SeqCst)
    }
}

/// Passes on record by record.
async fn counted(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    records: &AtomicUsize,
) -> io::Result<()> {
    loop {
        let mut record = vec![0; 5];
        from.read_exact(&mut record).await?;
        if record[0] == DATA {
            records.fetch_add(1, Ordering::SeqCst);
        }
        let size = u16::from_be_bytes([record[3], record[4]]);
        record.resize(5 + usize::from(size), 0);
        from.read_exact(&mut record[5..]).await?;
        to.write_all(&record).await?;
    }
}

// One thread: whoever is told of the change has said it to the connection before that comes to write.
#[tokio::test]
async fn what_a_hundred_watches_of_a_connection_are_told_goes_out_together() -> Result<()> {
    let playground = Playground::start_with(PlaygroundOptions {
        // On the threads of the test, as many as there are watches at once.
        own_threads: false,
        ..PlaygroundOptions::default()
    })
    .await?;
    let kubeconfig = playground.service_kubeconfig();
    let maps: Api<_> = Api::namespaced(client(&kubeconfig).await?, "default");
    let token = kubeconfig.pointer("/users/0/user/token");
    let token = format!(
        "Bearer {}",
        token.and_then(|t| t.as_str()).context("no token")?
    );
    let kubeconfig: Kubeconfig = serde_json::from_value(kubeconfig)?;
    let current = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &current).await?;

    let host = config.cluster_url.host().context("no host")?.to_owned();
    let port = config.cluster_url.port_u16().context("no port")?;
    let relay = Relay::to(host.clone(), port).await?;
    let mut tls = config.rustls_client_config()?;
    tls.alpn_protocols = vec![b"h2".to_vec()];
    let tcp = TcpStream::connect(("127.0.0.1", relay.port)).await?;
    let connector = TlsConnector::from(Arc::new(tls));
    let stream = connector.connect(host.clone().try_into()?, tcp).await?;
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
    tokio::spawn(connection);

    let before = maps.create(&PostParams::default(), &map("before")).await?;
    let before = before.metadata.resource_version.context("no revision")?;
    let open = (0..WATCHES).map(|_| {
        let uri = format!(
            "https://{host}:{port}/api/v1/namespaces/default/configmaps?watch=true&resourceVersion={before}"
        );
        let (mut sender, token) = (sender.clone(), token.clone());
        async move {
            let request = Request::get(uri)
                .header("authorization", token)
                .body(Empty::<Bytes>::new())?;
            let answer = sender.send_request(request).await?;
            ensure!(answer.status() == 200, "{}", answer.status());
            anyhow::Ok(answer.into_body())
        }
    });
    let mut watches = tokio::time::timeout(SOON, try_join_all(open)).await??;

    for name in ["one", "two", "three"] {
        let before = relay.records();
        maps.create(&PostParams::default(), &map(name)).await?;
        let told = watches.iter_mut().map(async |watch| {
            let frame = watch.frame().await.context("a watch ended")??;
            let text = frame.into_data().ok().context("no data")?;
            let event: serde_json::Value = serde_json::from_slice(&text)?;
            ensure!(event["type"] == "ADDED" && event["object"]["metadata"]["name"] == name);
            Ok(())
        });
        tokio::time::timeout(SOON, try_join_all(told)).await??;
        let records = relay.records() - before;
        ensure!(
            (1..=RECORDS).contains(&records),
            "{WATCHES} events came in {records} records"
        );
    }
    playground.stop().await;
    Ok(())
}
