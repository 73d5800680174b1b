use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::*;
use crate::cluster::ground::{Ground, fault};
use kcp_playground::server::{Action, When};

#[tokio::test]
async fn every_status_is_a_reply_and_says_what_the_server_said() {
    let ground = Ground::start().await;
    let reply = ground
        .service
        .call(Call::get("/api/v1/namespaces/none"))
        .await;
    let refusal = reply.unwrap().ok().unwrap_err();
    assert_eq!((refusal.code, refusal.reason.as_str()), (404, "NotFound"));
    assert_eq!(refusal.name, "none");
    assert_eq!(
        refusal.to_string(),
        "status 404: namespaces \"none\" not found"
    );
    let reply = ground.service.call(Call::get("/nowhere")).await.unwrap();
    assert_eq!((reply.status, reply.refusal().name.as_str()), (404, ""));
}

#[tokio::test]
async fn paths_with_stars_and_colons_reach_the_server_as_they_are() {
    let ground = Ground::start().await;
    let root = ground
        .kcp
        .at(&ground.kcp.url().replace("/clusters/root", ""))
        .unwrap();
    let everywhere = root.below("/clusters/*/");
    assert!(everywhere.url().ends_with("/clusters/*"));
    let mark = ground.playground.requests().mark();
    for place in [everywhere, root.below("clusters/root:org")] {
        place.call(Call::get("/api/v1/namespaces")).await.unwrap();
    }
    let seen = ground.playground.requests().since(mark);
    let clusters: Vec<_> = seen.iter().map(|request| &*request.cluster).collect();
    assert_eq!(clusters, ["*", "root:org"]);
}

#[tokio::test]
async fn a_server_that_nobody_serves_is_out_of_reach_and_the_error_says_where() {
    let ground = Ground::start().await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    drop(listener);
    let error = ground
        .service
        .at(&url)
        .unwrap()
        .call(Call::get("/version"))
        .await;
    let Err(CallError::Unreachable(said)) = error else {
        panic!("{error:?}")
    };
    assert!(said.contains("refused"), "{said}");
}

#[tokio::test]
async fn a_request_for_patience_holds_the_whole_lane_and_nothing_is_sent_meanwhile() {
    let ground = Ground::start().await;
    let unavailable = Action::Status {
        code: 429,
        when: When::Before,
    };
    ground
        .playground
        .faults()
        .add(fault("get", "namespaces", unavailable).once());
    let get = || ground.service.call(Call::get("/api/v1/namespaces/default"));
    let first = get().await.unwrap();
    assert_eq!(first.status, 429);
    let mark = ground.playground.requests().mark();
    assert!(matches!(get().await, Err(CallError::Held(_))));
    assert_eq!(ground.playground.requests().since(mark).len(), 0);
    let lease = Call::get("/api/v1/namespaces/default").class(CallClass::Lease);
    assert_eq!(ground.service.call(lease).await.unwrap().status, 200);
    let other = ground.kcp.call(Call::get("/api/v1/namespaces")).await;
    assert_eq!(other.unwrap().status, 200);
}

#[tokio::test]
async fn a_refusal_of_one_tenant_holds_up_nobody_else() {
    let ground = Ground::start().await;
    let refused = Action::Status {
        code: 429,
        when: When::Before,
    };
    let faults = ground.playground.faults();
    faults.add(fault("get", "namespaces", refused).once());
    let [a, b] = ["a", "b"].map(|tenant| ground.service.of(&tenant.into()));
    let get = || Call::get("/api/v1/namespaces/default");
    assert_eq!(a.call(get()).await.unwrap().status, 429);
    assert!(matches!(a.call(get()).await, Err(CallError::Held(_))));
    assert_eq!(b.call(get()).await.unwrap().status, 200);
    assert_eq!(ground.service.call(get()).await.unwrap().status, 200);
}

/// An answer that asks for patience.
fn patience(status: u16, body: &'static str, seconds: u64) -> Reply {
    Reply {
        status,
        body: Bytes::from_static(body.as_bytes()),
        retry_after: Some(Duration::from_secs(seconds)),
        date: None,
    }
}

#[test]
fn a_response_has_the_time_of_its_server() {
    let at = |date: &'static str| {
        let date = Some(http::HeaderValue::from_static(date));
        let reply = Reply {
            date,
            ..patience(200, "{}", 0)
        };
        reply.time().map(|time| time.to_string())
    };
    let time = "2026-01-02T12:00:07Z".to_owned();
    assert_eq!(at("Fri, 02 Jan 2026 12:00:07 GMT"), Some(time));
    assert_eq!(at("yesterday"), None);
}

/// What the filter of a kube-apiserver says when it has too much to do.
const TOO_MANY: &str = "Too many requests, please try again later.\n";
/// What a webhook of a workspace may make it say.
const DENIED: &str = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","code":429}"#;

#[tokio::test(start_paused = true)]
async fn a_pause_ends_and_calls_are_sent_again() {
    let lane = lane::Lane::new("https://here", &one());
    let refused = |seconds| lane.answered(&None, CallClass::Work, &patience(503, "", seconds));
    refused(5);
    refused(2);
    assert!(
        matches!(lane.turn(&None, CallClass::Work).await, Err(CallError::Held(left)) if left.as_secs() >= 4)
    );
    tokio::time::advance(Duration::from_secs(5)).await;
    assert!(lane.turn(&None, CallClass::Work).await.is_ok());
    refused(100_000);
    tokio::time::advance(Duration::from_secs(30)).await;
    assert!(lane.turn(&None, CallClass::Work).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_has_too_much_to_do_holds_everybody_and_a_webhook_its_own_workspace() {
    let lane = lane::Lane::new("https://here", &one());
    let [a, b] = ["a", "b"].map(|tenant| Some(tenant.into()));
    lane.answered(&a, CallClass::Work, &patience(429, DENIED, 5));
    assert!(lane.turn(&a, CallClass::Work).await.is_err());
    assert!(lane.turn(&b, CallClass::Work).await.is_ok());
    lane.answered(&b, CallClass::Work, &patience(429, TOO_MANY, 5));
    for tenant in [&a, &b, &None] {
        let turn = lane.turn(tenant, CallClass::Work).await;
        assert!(matches!(turn, Err(CallError::Held(_))));
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_neither_waits_for_a_write_nor_delays_one() {
    let lane = lane::Lane::new("https://here", &one());
    let tenant = Some("a".into());
    let event = lane.turn(&tenant, CallClass::Event).await.unwrap();
    let turn = lane.turn(&tenant, CallClass::Work).await.unwrap();
    assert!(lane.turn(&tenant, CallClass::Event).await.is_ok());
    assert!(lane.turn(&None, CallClass::Lease).await.is_ok());
    drop((event, turn));
    lane.answered(&tenant, CallClass::Event, &patience(429, DENIED, 5));
    assert!(lane.turn(&tenant, CallClass::Work).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_gets_no_turn_is_given_up_in_time() {
    let lane = lane::Lane::new("https://here", &one());
    let turn = lane.turn(&None, CallClass::Work).await.unwrap();
    let late = lane.turn(&None, CallClass::Work).await;
    assert!(matches!(late, Err(CallError::NoTurn)));
    drop(turn);
    assert!(lane.turn(&None, CallClass::Work).await.is_ok());
}

/// Five tenants have all calls: two each, and the last of them what is left.
#[tokio::test]
async fn a_call_that_hangs_is_given_up_for_a_tenant_that_waits() {
    let ground = Ground::start().await;
    let limits = Limits {
        in_flight: 8,
        ..Limits::default()
    };
    let service = Connection::new(ground.service_config().await, limits).unwrap();
    let never = Action::Latency(Duration::from_mins(5));
    let faults = ground.playground.faults();
    faults.add(fault("get", "namespaces", never));
    let mut hanging = JoinSet::new();
    for tenant in ["a", "a", "b", "b", "c", "c", "d", "e"] {
        let service = service.of(&tenant.into());
        let call = Call::get("/api/v1/namespaces/default");
        hanging.spawn(async move { service.call(call).await });
    }
    while faults.struck() != [8] {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let other = service.of(&"other".into());
    let reply = other.call(Call::get("/api/v1/namespaces/default/configmaps"));
    assert_eq!(reply.await.unwrap().status, 200);
    let given_up = hanging.join_next().await.unwrap().unwrap();
    let timeout = |after: Duration| after < REQUEST_TIMEOUT;
    assert!(matches!(given_up, Err(CallError::Timeout(after)) if timeout(after)));
}

/// A server that accepts connections and requests, sends the beginning of a response, and says nothing more.
async fn silent(begins: &'static [u8]) -> (Connection, mpsc::UnboundedReceiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (accepted, requests) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((mut socket, _)) = listener.accept().await {
            assert!(socket.read(&mut [0; 4096]).await.unwrap() > 0);
            socket.write_all(begins).await.unwrap();
            open.push(socket);
            if accepted.send(()).is_err() {
                break;
            }
        }
    });
    let config = kube::Config::new(url.parse().unwrap());
    let silent = Connection::new(config, Limits::default()).unwrap();
    (silent, requests)
}

/// Reads, writes, the lease, events, dry runs, lists and watches; whatever asks a server does it by one of these.
#[tokio::test]
async fn every_request_to_a_server_that_does_not_answer_ends_in_time() {
    let begun =
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 999\r\n\r\n{";
    let refused =
        b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain\r\ncontent-length: 999\r\n\r\nno";
    for begins in [&b""[..], begun, refused] {
        let (server, mut requests) = silent(begins).await;
        let is_late = |error: &CallError| matches!(error, CallError::Timeout(_));
        let mut under_way = JoinSet::new();
        let document = json!({});
        for call in [
            Call::get("/read"),
            Call::post("/write", &document),
            Call::put("/write", &document),
            Call::merge_patch("/write", &document),
            Call::delete("/write", &document),
            Call::put("/lease", &document).class(CallClass::Lease),
            Call::post("/event", &document).class(CallClass::Event),
            Call::post("/trial", &document).class(CallClass::DryRun),
        ] {
            let server = server.clone();
            under_way.spawn(async move { server.call(call).await.is_err_and(|e| is_late(&e)) });
        }
        let list = server.clone();
        under_way.spawn(async move {
            match list.page(Call::get("/list"), REQUEST_TIMEOUT).await {
                Ok(mut page) => page.item().await.is_err_and(|error| is_late(&error)),
                Err(error) => matches!(error, RequestError::Call(error) if is_late(&error)),
            }
        });
        // Whether a watch that began falls silent is for its reader to notice.
        if begins != begun {
            let watch = server.clone();
            under_way.spawn(async move {
                match watch.stream(Call::get("/watch")).await {
                    Ok(refused) => refused.refusal().await.message == "no",
                    Err(error) => is_late(&error),
                }
            });
        }
        for _ in 0..under_way.len() {
            requests.recv().await.unwrap();
        }
        // From here on time passes as soon as everybody waits.
        tokio::time::pause();
        let begun = Instant::now();
        while let Some(ended) = under_way.join_next().await {
            assert!(ended.unwrap());
        }
        assert!(begun.elapsed() <= REQUEST_TIMEOUT + Duration::from_secs(1));
        tokio::time::resume();
    }
}

/// A server that gives this answer to one request, and then ends the connection.
async fn answers(text: String) -> Connection {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        assert!(socket.read(&mut [0; 4096]).await.unwrap() > 0);
        // Who has read enough ends the connection.
        let _ = socket.write_all(text.as_bytes()).await;
    });
    Connection::new(kube::Config::new(url.parse().unwrap()), Limits::default()).unwrap()
}

/// A webhook may say as much as it likes.
#[tokio::test]
async fn of_a_refusal_that_does_not_end_a_part_is_read_and_it_holds_up_its_tenant_alone() {
    let begin = r#"{"kind":"Status","apiVersion":"v1","code":429,"message":""#;
    let long = "no ".repeat(call::LARGEST_ANSWER / 3);
    let server = answers(format!(
        "HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/json\r\n\r\n{begin}{long}"
    ))
    .await;
    let [bad, good] = ["bad", "good"].map(|tenant| server.of(&tenant.into()));
    let reply = bad.call(Call::get("/")).await.unwrap();
    assert_eq!(reply.status, 429);
    assert!(
        reply.body.len() < 2 * call::LARGEST_REFUSAL,
        "{}",
        reply.body.len()
    );
    assert!(reply.refusal().message.len() <= 800);
    assert!(matches!(
        bad.call(Call::get("/")).await,
        Err(CallError::Held(_))
    ));
    assert!(!matches!(
        good.call(Call::get("/")).await,
        Err(CallError::Held(_))
    ));
}

#[test]
fn what_a_refusal_says_at_length_is_cut() {
    let status = json!({"kind": "Status", "code": 403, "message": "é".repeat(1 << 20),
        "details": {"causes": [{"message": "é".repeat(1 << 20)}]}});
    let refusal = Refusal::read(403, status.to_string().as_bytes());
    for text in [&refusal.message, &refusal.causes[0].message] {
        assert!(text.len() <= 16 << 10 && text.ends_with('é'));
    }
}

#[tokio::test]
async fn what_may_be_sent_is_asked_when_the_turn_has_come() {
    let ground = Ground::start().await;
    let open = Arc::new(AtomicBool::new(true));
    let asked = Arc::clone(&open);
    let may = move |_: Option<&str>| {
        let open = asked.load(Ordering::Relaxed);
        open.then_some(())
            .ok_or_else(|| "another one leads".to_owned())
    };
    let limits = Limits {
        in_flight: 1,
        guard: Some(Arc::new(may)),
        ..Limits::default()
    };
    let service = Connection::new(ground.service_config().await, limits).unwrap();
    let slow = Action::Latency(Duration::from_secs(1));
    let faults = ground.playground.faults();
    faults.add(fault("get", "namespaces", slow).once());
    let mark = ground.playground.requests().mark();
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "late"}});
    let create = || Call::post("/api/v1/namespaces", &body);
    let get = || Call::get("/api/v1/namespaces/default");
    let slow = service.call(get());
    let (write, lease) = (create(), create().class(CallClass::Lease));
    let (read, stopped, deselected) = (get(), get(), create());
    let guarded = service.guarded_by(Arc::new(|| Err("no longer selected".to_owned())));
    let closing = async {
        let begun = || faults.struck() == [1];
        while !begun() {
            tokio::task::yield_now().await;
        }
        let late = async {
            let no = || Err("no longer published".to_owned());
            tokio::join!(
                service.call(write),
                service.call(read),
                service.call_if(&no, stopped),
                guarded.call(deselected)
            )
        };
        let close = async { open.store(false, Ordering::Relaxed) };
        tokio::join!(late, close).0
    };
    let (first, (write, read, stopped, deselected)) = tokio::join!(slow, closing);
    assert_eq!(first.unwrap().status, 200);
    let withheld = |why: &str| Err(CallError::Withheld(why.to_owned()));
    assert_eq!(write, withheld("another one leads"));
    assert_eq!(read.unwrap().status, 200);
    assert_eq!(stopped, withheld("no longer published"));
    assert_eq!(deselected, withheld("no longer selected"));
    assert_eq!(ground.playground.requests().since(mark).len(), 2);
    assert_eq!(service.call(lease).await.unwrap().status, 201);
}

/// As of a process that stands still between both questions, or that waits for a connection.
#[tokio::test]
async fn a_write_asks_once_more_when_it_is_put_on_the_wire() {
    let ground = Ground::start().await;
    let asked = AtomicBool::new(false);
    let once = move |_: Option<&str>| {
        if asked.swap(true, Ordering::Relaxed) {
            Err("another one leads".to_owned())
        } else {
            Ok(())
        }
    };
    let limits = Limits {
        guard: Some(Arc::new(once)),
        ..Limits::default()
    };
    let service = Connection::new(ground.service_config().await, limits).unwrap();
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "late"}});
    let late = service.call(Call::post("/api/v1/namespaces", &body)).await;
    assert_eq!(
        late,
        Err(CallError::Withheld("another one leads".to_owned()))
    );
    let found = service.call(Call::get("/api/v1/namespaces/late")).await;
    assert_eq!(found.unwrap().status, 404);
}

#[tokio::test]
async fn renewed_credentials_count_for_everything_made_from_a_connection() {
    let ground = Ground::start().await;
    let derived = ground
        .kcp
        .below("/clusters/x")
        .at(&ground.kcp.url())
        .unwrap();
    let mut config = ground.kcp_config().await;
    config.auth_info.token = Some("wrong".to_owned().into());
    ground.kcp.renew(config).unwrap();
    let refused = derived.call(Call::get("/api/v1/namespaces")).await.unwrap();
    assert_eq!(refused.status, 401);
    ground.kcp.renew(ground.kcp_config().await).unwrap();
    let reply = derived.call(Call::get("/api/v1/namespaces")).await.unwrap();
    assert_eq!(reply.status, 200);
}

#[tokio::test]
async fn a_watch_comes_line_by_line_and_ends_with_the_server() {
    let ground = Ground::start().await;
    let path = "/api/v1/namespaces?watch=1&timeoutSeconds=1&resourceVersion=0";
    let mut watch = ground.service.stream(Call::get(path)).await.unwrap();
    assert_eq!(watch.status, 200);
    let mut names = Vec::new();
    while let Some(line) = watch.line().await.unwrap() {
        let event: Value = serde_json::from_slice(&line).unwrap();
        names.push(event["object"]["metadata"]["name"].clone());
    }
    assert!(names.contains(&json!("default")), "{names:?}");
}

#[tokio::test]
async fn a_refused_watch_says_why() {
    let ground = Ground::start().await;
    let watch = ground
        .service
        .stream(Call::get("/apis/none/v1/things?watch=1"))
        .await
        .unwrap();
    assert_eq!(watch.status, 404);
    assert_eq!(watch.refusal().await.code, 404);
}

#[derive(Default)]
struct Seen(Mutex<Vec<(String, Option<u16>)>>);

impl Observer for Seen {
    fn answered(&self, call: &Method, code: Option<u16>) {
        self.0.lock().push((call.to_string(), code));
    }
}

#[tokio::test]
async fn every_call_is_told_of_with_its_code() {
    let ground = Ground::start().await;
    let seen = Arc::new(Seen::default());
    let limits = Limits {
        observer: Some(seen.clone()),
        ..Limits::default()
    };
    let connection = Connection::new(ground.service_config().await, limits).unwrap();
    ground
        .playground
        .faults()
        .add(fault("get", "namespaces", Action::Reset(When::Before)).once());
    let path = "/api/v1/namespaces/default";
    assert!(connection.call(Call::get(path)).await.is_err());
    assert!(connection.call(Call::get(path)).await.is_ok());
    let told = seen.0.lock().clone();
    assert_eq!(
        told,
        [("GET".to_owned(), None), ("GET".to_owned(), Some(200))]
    );
}

/// One call at a time.
fn one() -> Limits {
    Limits {
        in_flight: 1,
        ..Limits::default()
    }
}

/// A server that answers one request, and the head of the request.
async fn echoes(limits: Limits) -> (Connection, JoinSet<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let mut heads = JoinSet::new();
    heads.spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut head = vec![0; 4096];
        let length = socket.read(&mut head).await.unwrap();
        let reply = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
        socket.write_all(reply).await.unwrap();
        String::from_utf8_lossy(&head[..length]).into_owned()
    });
    let config = kube::Config::new(url.parse().unwrap());
    (Connection::new(config, limits).unwrap(), heads)
}

#[tokio::test]
async fn a_call_carries_the_trace_context_of_its_work_if_the_connection_does() {
    let given = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    for (traces, context, expected) in [
        (true, Some(given), true),
        (true, None, false),
        (false, Some(given), false),
    ] {
        let limits = Limits {
            traces,
            ..Limits::default()
        };
        let (server, mut heads) = echoes(limits).await;
        let context = context.and_then(trace::TraceContext::parse);
        let call = server.call(Call::get("/read"));
        trace::within(context, call).await.unwrap();
        let head = heads.join_next().await.unwrap().unwrap();
        assert_eq!(
            head.contains(&format!("traceparent: {given}\r\n")),
            expected,
            "{head}"
        );
        assert_eq!(head.contains("traceparent"), expected, "{head}");
    }
}

#[tokio::test]
async fn a_url_is_shown_without_the_user_and_the_password_in_it() {
    let config = kube::Config::new("https://me:hidden@127.0.0.1:1/a".parse().unwrap());
    assert_eq!(host(&config.cluster_url), "127.0.0.1:1");
    let connection = Connection::new(config, Limits::default()).unwrap();
    assert_eq!(connection.url(), "https://127.0.0.1:1/a");
    let same = "https://h/a@b";
    assert_eq!(without_user(same), same);
    for wrong in [
        "me:hidden@127.0.0.1:1",
        "https://me:hid den@h",
        "me:hidden@",
    ] {
        let error = connection.at(wrong).unwrap_err().to_string();
        assert!(!error.contains("hid"), "{error}");
    }
}
