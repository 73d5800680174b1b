//! The playground taken for what it stands for, by clients that know nothing of it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kcp_playground::Playground;
use kcp_playground::server::{Action, Fault, Matcher, When};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::finalizer::{self, finalizer};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Client, Config, ResourceExt as _};
use serde_json::{Value, json};
use testbed::cluster::Controllers;
use testbed::{Launch, Options, SOON, ServiceCluster, binaries, eventually, unique};

mod records;
#[path = "../../crates/kcp-playground/examples/with_kube.rs"]
mod with_kube;

const JUDGING: Duration = Duration::from_mins(8);

fn typed<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("the tests write valid objects")
}

async fn client(kubeconfig: &Value) -> Result<Client> {
    let kubeconfig: Kubeconfig = serde_json::from_value(kubeconfig.clone())?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

fn map(name: &str) -> ConfigMap {
    typed(json!({"metadata": {"name": name}, "data": {"a": "b"}}))
}

/// Runs the judges; every case is shown, and one that fails fails the test.
async fn judge(kubeconfig: &Path, more: &[&str], watch_list: &str) -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let judges = Launch::new("judges", binaries::judges()?)
        .arg("-kubeconfig")
        .arg(kubeconfig)
        .args(more)
        .env("KUBE_FEATURE_WatchListClient", watch_list);
    let said = judges.run(scratch.path(), JUDGING).await?;
    let cases = said.stdout.lines().count();
    ensure!(
        said.exit.success() && cases > 4,
        "with initial events by watch {watch_list}: {}{}",
        said.stdout,
        said.stderr
    );
    Ok(())
}

/// Go clients list by watching, or list and watch: both ways have to do.
async fn judge_twice(kubeconfig: &Path, more: &[&str]) -> Result<()> {
    for watch_list in ["true", "false"] {
        judge(kubeconfig, more, watch_list).await?;
    }
    Ok(())
}

fn written(directory: &Path, kubeconfig: &Value) -> Result<std::path::PathBuf> {
    let path = directory.join("kubeconfig");
    fs::write(&path, kubeconfig.to_string())?;
    Ok(path)
}

#[tokio::test(flavor = "multi_thread")]
async fn go_clients_take_the_playground_for_a_cluster() -> Result<()> {
    let playground = Playground::start().await?;
    let directory = tempfile::tempdir()?;
    let kubeconfig = written(directory.path(), &playground.service_kubeconfig())?;
    judge_twice(&kubeconfig, &[]).await?;
    playground.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn go_clients_take_a_workspace_for_a_cluster() -> Result<()> {
    let playground = Playground::start().await?;
    let directory = tempfile::tempdir()?;
    let kubeconfig = written(directory.path(), &playground.kcp_kubeconfig())?;
    judge(&kubeconfig, &[], "true").await?;
    playground.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn go_clients_take_the_playground_for_a_kcp() -> Result<()> {
    let playground = Playground::start().await?;
    let directory = tempfile::tempdir()?;
    let kubeconfig = written(directory.path(), &playground.kcp_kubeconfig())?;
    judge_twice(&kubeconfig, &["-kcp"]).await?;
    playground.stop().await;
    Ok(())
}

#[tokio::test]
async fn go_clients_say_the_same_of_a_real_cluster() -> Result<()> {
    // Namespaces empty themselves only where controllers run.
    let cluster = ServiceCluster::start_with(Options {
        controllers: Controllers::All,
        ..Options::default()
    })
    .await?;
    judge_twice(cluster.admin().kubeconfig_file(), &[]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_example_in_go_makes_a_workspace_by_kubeconfig() -> Result<()> {
    let playground = Playground::start().await?;
    let scratch = tempfile::tempdir()?;
    let kubeconfig = written(scratch.path(), &playground.kcp_kubeconfig())?;
    let example = binaries::repository().join("crates/kcp-playground/examples/client-go/main.go");
    // With the modules of the judges, and their flags: then its client is compiled already.
    let said = Launch::new("example", "go")
        .args(["run", "-mod=readonly", "-trimpath"])
        .arg(example)
        .dir(binaries::repository().join("testbed/judges"))
        .env("GOTOOLCHAIN", "local")
        .env("GOWORK", "off")
        .env("GOFLAGS", "-buildvcs=false")
        .env("CGO_ENABLED", "0")
        .env("KUBECONFIG", kubeconfig)
        .run(scratch.path(), JUDGING)
        .await?;
    let ready = said.stdout.contains("Ready https://127.0.0.1:");
    ensure!(
        said.exit.success() && ready,
        "{}{}",
        said.stdout,
        said.stderr
    );
    playground.stop().await;
    Ok(())
}

#[test]
fn the_example_in_rust_makes_an_object() -> Result<()> {
    with_kube::main().map_err(|error| anyhow::anyhow!("{error}"))
}

/// What a server says to each of these objects: levels of lists or of maps in a field that takes all.
async fn depths(client: &Client) -> Result<Vec<(usize, bool, u16)>> {
    let group = format!("{}.example.com", unique("deep"));
    let definition: CustomResourceDefinition = typed(json!({
        "metadata": {"name": format!("things.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }},
            }],
        },
    }));
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = definition.name_any();
    api.create(&PostParams::default(), &definition).await?;
    await_condition(api, &name, conditions::is_crd_established()).await?;
    let place = format!("/apis/{group}/v1/namespaces/default/things");
    let send = async |method: &str, path: &str, body: String| -> Result<u16> {
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", "application/json")
            .body(body.into_bytes())?;
        match client.request_text(request).await {
            Ok(_) => Ok(200),
            Err(kube::Error::Api(status)) => Ok(status.code),
            Err(error) => Err(error.into()),
        }
    };
    eventually(SOON, "the kind is served", async || -> Result<()> {
        ensure!(send("GET", &place, String::new()).await? == 200);
        Ok(())
    })
    .await;
    let mut said = Vec::new();
    for (levels, of_lists) in [(200, true), (9_000, true), (12_000, true), (1_000, false)] {
        let (open, close) = if of_lists {
            ("[", "]")
        } else {
            (r#"{"a":"#, "}")
        };
        let name = format!("deep-{levels}-{of_lists}");
        let (open, close) = (open.repeat(levels), close.repeat(levels));
        let object = format!(
            r#"{{"apiVersion":"{group}/v1","kind":"Thing","metadata":{{"name":"{name}"}},"spec":{open}1{close}}}"#
        );
        said.push((levels, of_lists, send("POST", &place, object).await?));
    }
    // Who has taken them gives them back.
    said.push((0, true, send("GET", &place, String::new()).await?));
    Ok(said)
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_taken_as_deep_as_by_a_real_server() -> Result<()> {
    let playground = Playground::start().await?;
    let here = client(&playground.service_kubeconfig()).await?;
    let there = ServiceCluster::shared().await?.admin().client()?;
    assert_eq!(depths(&here).await?, depths(&there).await?);
    playground.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn kube_watches_in_both_ways_of_listing() -> Result<()> {
    let playground = Playground::start().await?;
    let client = client(&playground.service_kubeconfig()).await?;
    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    for config in [
        watcher::Config::default(),
        watcher::Config::default().streaming_lists(),
    ] {
        let (before, after) = (unique("before"), unique("after"));
        maps.create(&PostParams::default(), &map(&before)).await?;
        let mut events = watcher(maps.clone(), config).boxed();
        let mut seen = Vec::new();
        loop {
            let event = tokio::time::timeout(SOON, events.try_next()).await??;
            match event.context("the watch ended")? {
                Event::InitApply(found) => seen.push(found.name_any()),
                Event::InitDone => break,
                _ => {}
            }
        }
        ensure!(seen.contains(&before), "seen at first: {seen:?}");
        maps.create(&PostParams::default(), &map(&after)).await?;
        let event = tokio::time::timeout(SOON, events.try_next()).await??;
        let Some(Event::Apply(found)) = event else {
            anyhow::bail!("{event:?} instead of the new object");
        };
        ensure!(found.name_any() == after);
        maps.delete(&after, &DeleteParams::default()).await?;
        let event = tokio::time::timeout(SOON, events.try_next()).await??;
        ensure!(matches!(event, Some(Event::Delete(_))), "{event:?}");
    }
    playground.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn kube_finalizes_and_awaits_conditions() -> Result<()> {
    let playground = Playground::start().await?;
    let client = client(&playground.service_kubeconfig()).await?;
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let crd: CustomResourceDefinition = typed(json!({
        "metadata": {"name": "boats.example.org"},
        "spec": {
            "group": "example.org", "scope": "Namespaced", "names": {"kind": "Boat", "plural": "boats"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    }));
    definitions.create(&PostParams::default(), &crd).await?;
    let established = await_condition(
        definitions,
        "boats.example.org",
        conditions::is_crd_established(),
    );
    tokio::time::timeout(SOON, established).await??;

    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    maps.create(&PostParams::default(), &map("held")).await?;
    let step = async |wanted: &str| -> Result<()> {
        let object = std::sync::Arc::new(maps.get("held").await?);
        let wanted = wanted.to_owned();
        finalizer(&maps, "example.org/cleanup", object, async |event| {
            let got = match event {
                finalizer::Event::Apply(_) => "apply",
                finalizer::Event::Cleanup(_) => "cleanup",
            };
            if got == wanted {
                Ok(kube::runtime::controller::Action::await_change())
            } else {
                Err(std::io::Error::other(format!("{got} instead of {wanted}")))
            }
        })
        .await?;
        Ok(())
    };
    step("apply").await?;
    step("apply").await?;
    maps.delete("held", &DeleteParams::default()).await?;
    step("cleanup").await?;
    ensure!(maps.get_opt("held").await?.is_none());
    playground.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_wrong_on_demand_is_told_by_the_request_log() -> Result<()> {
    let playground = Playground::start().await?;
    let client = client(&playground.service_kubeconfig()).await?;
    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    let mark = playground.requests().mark();
    let patches = Matcher {
        verb: Some("patch".to_owned()),
        ..Matcher::default()
    };
    let conflict = Action::Status {
        code: 409,
        when: When::Before,
    };
    playground.faults().add(Fault::new(patches, conflict));
    maps.create(&PostParams::default(), &map("a")).await?;
    let patch = Patch::Merge(json!({"data": {"a": "c"}}));
    let refused = maps.patch("a", &PatchParams::default(), &patch).await;
    ensure!(refused.is_err(), "the fault did not strike");
    playground.faults().clear();
    maps.patch("a", &PatchParams::default(), &patch).await?;
    let requests = playground.requests();
    let codes: Vec<u16> = requests
        .since(mark)
        .iter()
        .filter(|request| request.verb == "patch")
        .map(|request| request.code)
        .collect();
    ensure!(codes == [409, 200], "{codes:?}");
    playground.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn playgrounds_stand_beside_each_other() -> Result<()> {
    let (one, other) = (Playground::start().await?, Playground::start().await?);
    let stranger = one.kubeconfig_at(other.kcp_url(), "nobody", "no-token");
    ensure!(client(&stranger).await?.apiserver_version().await.is_err());
    let spaces: Api<Namespace> = Api::all(client(&other.kcp_kubeconfig()).await?);
    ensure!(!spaces.list(&ListParams::default()).await?.items.is_empty());
    one.stop().await;
    ensure!(!spaces.list(&ListParams::default()).await?.items.is_empty());
    other.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_serves_until_it_is_told_to_end() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let tokens = directory.path().join("tokens.csv");
    fs::write(&tokens, "topsecret,agent,1111,\"agents\"\n")?;
    let said = directory.path().join("said");
    // One from before, which others may read.
    fs::create_dir(directory.path().join("kubeconfigs"))?;
    let before = directory.path().join("kubeconfigs/kcp.kubeconfig");
    fs::write(&before, "")?;
    fs::set_permissions(&before, fs::Permissions::from_mode(0o644))?;
    let process = Launch::new("playground", env!("CARGO_BIN_EXE_hawser"))
        .args(["playground", "--bare", "--dir"])
        .arg(directory.path().join("kubeconfigs"))
        .arg("--token-file")
        .arg(&tokens)
        .log(directory.path().join("errors"))
        .stdout(&said)
        .spawn()?;
    eventually(SOON, "the line that says ready", async || {
        let text = fs::read_to_string(&said)?;
        ensure!(
            text.starts_with("ready: kcp at https://127.0.0.1:"),
            "{text:?}"
        );
        ensure!(
            text.ends_with('\n') && text.lines().count() == 1,
            "{text:?}"
        );
        Ok(())
    })
    .await;
    for name in ["kcp.kubeconfig", "service.kubeconfig"] {
        let path = directory.path().join("kubeconfigs").join(name);
        let mode = fs::metadata(&path)?.permissions().mode();
        ensure!(
            mode.trailing_zeros() >= 6,
            "{name} is open to others: {mode:o}"
        );
        let mut kubeconfig: Value = serde_saphyr::from_str(&fs::read_to_string(&path)?)?;
        let spaces: Api<Namespace> = Api::all(client(&kubeconfig).await?);
        ensure!(!spaces.list(&ListParams::default()).await?.items.is_empty());
        kubeconfig["users"][0]["user"]["token"] = "topsecret".into();
        let spaces: Api<Namespace> = Api::all(client(&kubeconfig).await?);
        spaces.list(&ListParams::default()).await?;
    }
    let exit = process.stop(SOON).await?;
    ensure!(exit.success(), "it ended with {exit:?}");
    ensure!(fs::read_to_string(&said)?.lines().count() == 1);
    let errors = fs::read_to_string(directory.path().join("errors"))?;
    ensure!(errors.is_empty(), "{errors}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_warns_on_stderr_and_says_only_that_it_is_ready_on_stdout() -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let (said, errors) = (scratch.path().join("said"), scratch.path().join("errors"));
    let log = scratch.path().join("requests");
    let made = Launch::new("mkfifo", "mkfifo").arg(&log);
    let made = made.run(scratch.path(), SOON).await?;
    ensure!(made.exit.success(), "mkfifo: {}", made.stderr);
    // Something to warn of: what the request log goes to is there, until nobody reads it any more.
    let reader = tokio::net::unix::pipe::OpenOptions::new().open_receiver(&log)?;
    let process = Launch::new("playground", env!("CARGO_BIN_EXE_hawser"))
        .args(["playground", "--bare", "--dir"])
        .arg(scratch.path().join("kubeconfigs"))
        .arg("--request-log")
        .arg(&log)
        .log(&errors)
        .stdout(&said)
        .spawn()?;
    eventually(SOON, "the line that says ready", async || {
        let text = fs::read_to_string(&said)?;
        ensure!(text.ends_with('\n'), "{text:?}");
        Ok(())
    })
    .await;
    drop(reader);
    let kubeconfig = scratch.path().join("kubeconfigs/service.kubeconfig");
    let kubeconfig: Value = serde_saphyr::from_str(&fs::read_to_string(kubeconfig)?)?;
    let spaces: Api<Namespace> = Api::all(client(&kubeconfig).await?);
    spaces.list(&ListParams::default()).await?;
    let exit = process.stop(SOON).await?;
    ensure!(exit.success(), "it ended with {exit:?}");
    let (said, errors) = (fs::read_to_string(&said)?, fs::read_to_string(&errors)?);
    ensure!(
        said.starts_with("ready: kcp at https://127.0.0.1:") && said.lines().count() == 1,
        "{said:?}"
    );
    ensure!(
        errors.contains("WARN")
            && errors.contains("request log file")
            && errors.lines().count() == 1,
        "{errors:?}"
    );
    Ok(())
}

#[tokio::test]
async fn the_command_says_what_is_wrong_with_its_arguments() -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let bad = scratch.path().join("tokens.csv");
    fs::write(&bad, "only-a-token\n")?;
    let run = async |args: &[&str]| {
        Launch::new("hawser", env!("CARGO_BIN_EXE_hawser"))
            .args(args)
            .dir(scratch.path())
            .run(scratch.path(), SOON)
            .await
    };
    let failed = run(&["playground", "--bare", "--token-file", "tokens.csv"]).await?;
    ensure!(
        failed.stderr.contains("tokens.csv: token file, line 1"),
        "{}",
        failed.stderr
    );
    let failed = run(&["playground", "--bare", "--token-file", "missing.csv"]).await?;
    ensure!(
        failed.stderr.contains("reading missing.csv"),
        "{}",
        failed.stderr
    );
    let failed = run(&["playground", "--bare", "--fault", "code=what"]).await?;
    ensure!(failed.stderr.contains("--fault"), "{}", failed.stderr);
    let failed = run(&["playground", "--dir", "tokens.csv/below"]).await?;
    ensure!(
        failed.stderr.contains("writing") && failed.stderr.contains("tokens.csv/below"),
        "{}",
        failed.stderr
    );
    Ok(())
}
