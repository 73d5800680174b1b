use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::Instant;

use super::*;

const FLAG: &str = "--health-address";

struct Served {
    address: SocketAddr,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Served {
    async fn start(pages: Pages) -> Self {
        let bound = bind(FLAG, "127.0.0.1:0").await.unwrap();
        let address = bound.address();
        let stop = CancellationToken::new();
        let task = tokio::spawn(bound.serve(pages, stop.clone()));
        Self {
            address,
            stop,
            task,
        }
    }

    async fn ask(&self, first_line: &str) -> (u16, String) {
        self.ask_of("here", first_line).await
    }

    async fn ask_of(&self, host: &str, first_line: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let request = format!("{first_line} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, body.to_owned())
    }
}

#[tokio::test]
async fn probes_tell_what_is_missing() {
    let health = Arc::new(Health::missing(["cache of buckets", "leader election"]));
    let served = Served::start(Pages::Probes(Arc::clone(&health))).await;
    assert_eq!(served.ask("GET /healthz").await, (200, "ok\n".to_owned()));
    let missing = "cache of buckets: not ready yet\nleader election: not ready yet\n".to_owned();
    assert_eq!(served.ask("GET /readyz").await, (503, missing));

    health.found("cache of buckets");
    health.found("leader election");
    assert_eq!(
        served.ask("GET /readyz?verbose=1").await,
        (200, "ok\n".to_owned())
    );

    health.lost("kcp", "out of reach");
    assert_eq!(
        served.ask("GET /readyz/").await,
        (503, "kcp: out of reach\n".to_owned())
    );
    assert_eq!(served.ask("GET /metrics").await.0, 404);
    assert_eq!(served.ask("POST /healthz").await.0, 405);
    assert_eq!(served.ask("HEAD /healthz").await, (200, String::new()));
}

#[tokio::test]
async fn metrics_are_served_as_text() {
    let page = MetricsPage(|| "orders 2\n".to_owned());
    let served = Served::start(Pages::Site(Arc::new(page))).await;
    let (status, text) = served.ask("GET /metrics").await;
    assert_eq!(status, 200);
    assert_eq!(text, "orders 2\n");
    assert_eq!(served.ask("GET /").await.0, 404);
}

#[tokio::test]
async fn private_pages_are_for_clients_that_ask_for_this_machine() {
    let page = MetricsPage(|| "orders 2\n".to_owned());
    let served = Served::start(Pages::Private(Arc::new(page))).await;
    let hosts = [
        "localhost",
        "LOCALHOST:80",
        "127.0.0.1:8090",
        "[::1]:80",
        "[::1]",
    ];
    for host in hosts {
        let (status, _) = served.ask_of(host, "GET /metrics").await;
        assert_eq!(status, 200, "{host}");
    }
    for host in [
        "evil.example:8090",
        "10.0.0.1",
        "localhost.evil.example",
        "",
    ] {
        let (status, text) = served.ask_of(host, "GET /metrics").await;
        assert_eq!((status, text.contains("orders")), (403, false), "{host}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_main_loop_that_is_silent_for_a_minute_is_stuck() {
    let health = Health::missing([]);
    tokio::time::advance(Duration::from_secs(59)).await;
    assert_eq!(health.not_alive(), None);
    tokio::time::advance(Duration::from_secs(2)).await;
    assert!(health.not_alive().unwrap().contains("61 s"));
    health.beat();
    assert_eq!(health.not_alive(), None);
}

#[tokio::test]
async fn an_address_that_is_taken_is_a_clear_error() {
    let first = bind(FLAG, "127.0.0.1:0").await.unwrap();
    let taken = first.address().to_string();
    let error = bind(FLAG, &taken).await.unwrap_err();
    assert!(matches!(error, ServeError::Listen { .. }));
    assert!(error.to_string().contains(FLAG) && error.to_string().contains(&taken));

    let everywhere = format!(":{}", first.address().port());
    let error = bind(FLAG, &everywhere).await.unwrap_err();
    assert!(matches!(error, ServeError::Listen { .. }), "{error}");
}

#[tokio::test]
async fn addresses_are_taken_as_go_programs_take_them() {
    let everywhere = bind(FLAG, ":0").await.unwrap().address();
    assert!(everywhere.ip().is_unspecified() && everywhere.port() != 0);
    assert!(
        bind(FLAG, "localhost:0")
            .await
            .unwrap()
            .address()
            .ip()
            .is_loopback()
    );
    for wrong in ["8081", "localhost", ":", ":http", "127.0.0.1:65536"] {
        let error = bind(FLAG, wrong).await.unwrap_err();
        assert!(
            matches!(error, ServeError::Address { .. }),
            "{wrong}: {error}"
        );
    }
}

#[tokio::test]
async fn clients_that_say_nothing_do_not_keep_the_process_from_ending() {
    let served = Served::start(Pages::Probes(Arc::new(Health::missing([])))).await;
    let silent = TcpStream::connect(served.address).await.unwrap();
    assert_eq!(served.ask("GET /healthz").await.0, 200);
    let begun = Instant::now();
    served.stop.cancel();
    served.task.await.unwrap();
    // Not even as long as it has to say what it wants.
    assert!(begun.elapsed() < HEADERS);
    drop(silent);
}

#[tokio::test]
async fn no_more_clients_are_served_at_a_time_than_there_are_places() {
    let served = Served::start(Pages::Probes(Arc::new(Health::missing([])))).await;
    let mut silent = Vec::new();
    for _ in 0..CLIENTS {
        silent.push(TcpStream::connect(served.address).await.unwrap());
    }
    let waiting = served.ask("GET /healthz");
    tokio::pin!(waiting);
    // Everybody before has a place, and only once one of them leaves there is one for us.
    let early = tokio::time::timeout(Duration::from_millis(200), &mut waiting).await;
    assert!(early.is_err());
    silent.pop();
    assert_eq!(waiting.await.0, 200);
}
