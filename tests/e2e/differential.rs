//! The playground and the real kube-apiserver are asked the same and have to answer the same. What the real one
//! answered is kept in `tests/data/differential`, and everyday runs compare with that.
//!
//! # How it goes
//!
//! A *topic* is a script of requests in a file of its own below `topics/`. Each has a namespace (`$ns`, it is
//! there when the script begins) and an API group (`$group`) that no other topic uses, so that all of them run
//! side by side against one playground and one real cluster with its controllers. In a topic, one request
//! follows the other; each is sent to both servers, and both answers have to be equal: code, headers that matter
//! (content type, warnings, retry-after …), and the body without what differs from server to server
//! (see `normal.rs`), with the texts of refusals.
//!
//! # A topic of your own
//!
//! 1. Write `topics/NAME.rs` with `pub(super) fn topic() -> Topic { Topic::new("NAME", script![ … ]) }`.
//! 2. Add it to the two lists in `topics.rs`, at the end.
//! 3. `HAWSER_TOPICS=NAME cargo test --test e2e differential` runs it alone (or several: `A,B`).
//! 4. `./hack/test record` asks the real server, compares, and writes down what it answered.
//!    `HAWSER_REAL_SERVER=compare` asks it and writes nothing.
//! 5. `HAWSER_WRITE_GENERATED=1 cargo test --test e2e tolerated` writes the table in crates/kcp-playground/DIFFERENCES.md.
//!
//! What a script may hold; all of it is in `step.rs`:
//!
//! ```text
//! get(PATH) post(PATH, BODY) put(…) delete(PATH) delete_with(PATH, OPTIONS) patch(PATH, MERGE, BODY)
//! ask(METHOD, PATH, MEDIA_TYPE, BYTES)          anything else
//!     .keep("a")                                later: $rv(a) $uid(a) $continue(a) $at(a,/json/pointer)
//!     .accept(TYPES) .header(NAME, VALUE) .without(NAME) .nobody() .http2()
//!     .with_header("vary")                      compares one header more
//!     .settle(|body| …)                         takes out of both answers what is chance
//!     .free_text()                              the text of a refusal need not be the same
//!     .tolerate(REASON) .may_differ(REASON)     a difference that is meant / that is chance …
//!         .only_in(&["/body/spec", "/code"])    … and only there
//! done(ASK)                                     sent to both, has to succeed, is not compared
//! until(PATH, Condition::Code(404))             waits on both for what comes later: At(POINTER, VALUE), Nothing(POINTER)
//! until_asked(ASK, CONDITION)                   the same with any request, such as a dry run
//! install(definition("boats", "Boat", json!({"spec": …})))   a CRD of $group, served when it goes on
//! watch("w", PATH_WITH_QUERY)                   opens a watch; a refusal is compared as an answer is
//! events("w", Until::Count(3))                  reads on and compares the events; also Synced, Seen(TYPE, NAME), End
//!     .in_any_order() .with_bookmarks()
//! ```
//!
//! A body is JSON; one that is a `Value::String` is sent as the text it is (no JSON, YAML, duplicate keys …).
//! Steps that belong together can be a `fn … -> Script`; scripts nest. Lists of what is not in `$ns` need a
//! selector: other topics are at work. A tolerance that is not needed any more fails the test.

#![expect(
    clippy::needless_pass_by_value,
    reason = "scripts read better with values than with borrows of them"
)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write as _};

use anyhow::{Result, bail, ensure};
use futures::future::join_all;
use kcp_playground::Playground;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::Value;
use testbed::cluster::Controllers;
use testbed::generated;
use testbed::{Options, ServiceCluster};

mod normal;
mod packed;
mod recorded;
mod run;
mod server;
mod step;
mod topics;

use run::Report;
use server::Reach;
use step::Topic;

/// The topics, or those that were asked for.
fn chosen() -> Result<Vec<Topic>> {
    let mut all = topics::all();
    if let Ok(names) = std::env::var("HAWSER_TOPICS") {
        let names: Vec<&str> = names.split(',').collect();
        all.retain(|topic| names.contains(&topic.name));
        ensure!(all.len() == names.len(), "not all of {names:?} are topics");
    }
    Ok(all)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_playground_answers_as_kube_apiserver() -> Result<()> {
    let topics = chosen()?;
    let playground = Playground::start().await?;
    let kubeconfig = playground.service_kubeconfig();
    let token = kubeconfig
        .pointer("/users/0/user/token")
        .and_then(Value::as_str)
        .map(str::to_owned);
    let kubeconfig: Kubeconfig = serde_json::from_value(kubeconfig)?;
    let ours = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let asked = std::env::var("HAWSER_REAL_SERVER").unwrap_or_default();
    let records = match asked.as_str() {
        "" | "compare" => false,
        "record" => true,
        other => bail!("HAWSER_REAL_SERVER={other}: it can be compare or record"),
    };
    // What is not recorded is asked for.
    let cluster = if asked.is_empty() && recorded::are_there() {
        None
    } else {
        let controllers = Controllers::All;
        let options = Options {
            controllers,
            ..Options::default()
        };
        Some(ServiceCluster::start_with(options).await?)
    };
    let ours = Reach::new(ours, token)?;
    let real = cluster.as_ref().map(|cluster| cluster.admin().config());
    let real = real.transpose()?.map(|real| Reach::new(real, None));
    let real = real.transpose()?;
    let running = topics.into_iter().map(async |topic| {
        let name = topic.name;
        let run = Box::pin(run::run(topic, ours.clone(), real.clone(), records));
        (name, run.await)
    });
    let reports: BTreeMap<_, Report> = join_all(running).await.into_iter().collect();
    playground.stop().await;

    let (mut compared, mut told, mut tolerated) = (0, 0, 0);
    let mut differences = String::new();
    for (name, report) in &reports {
        compared += report.compared;
        told += report.told;
        tolerated += report.tolerated;
        if !report.differences.is_empty() {
            let _ = write!(differences, "topic {name}:\n{}", report.differences);
        }
    }
    // A line that is not captured is there whether the test fails or not.
    let _ = writeln!(
        io::stderr(),
        "differential: {compared} answers in {} topics compared, {told} of them with their texts, {tolerated} differences tolerated",
        reports.len()
    );
    ensure!(differences.is_empty(), "\n{differences}");
    Ok(())
}

/// The name of a topic for readers of the docs. Its own name is in the namespaces and groups of recorded answers.
fn in_docs(topic: &str) -> &str {
    match topic {
        "boats" => "custom resources",
        "definitions" => "CRDs",
        "kinds" => "other built-in kinds",
        "packed" => "protobuf",
        "types" => "OpenAPI and field validation",
        "wire" => "HTTP",
        other => other,
    }
}

#[test]
fn every_tolerated_difference_is_in_the_docs() -> Result<()> {
    let mut table = "| topic | differences |\n|---|---|\n".to_owned();
    for topic in topics::all() {
        let reasons: Vec<_> = run::reasons(&topic).into_iter().collect();
        if !reasons.is_empty() {
            let _ = writeln!(
                table,
                "| {} | {} |",
                in_docs(topic.name),
                reasons.join("; ")
            );
        }
    }
    generated::check_section("crates/kcp-playground/DIFFERENCES.md", "tolerated", &table)
}

#[test]
fn no_two_topics_share_a_name() {
    let names: Vec<_> = topics::all().iter().map(|topic| topic.name).collect();
    let distinct: std::collections::BTreeSet<_> = names.iter().collect();
    assert_eq!(distinct.len(), names.len(), "{names:?}");
}
