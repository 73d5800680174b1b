//! Every example is what it says: checked, rendered, accepted by a real kube-apiserver on both of its
//! sides, and bound in a workspace.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use kcp_playground::Playground;
use serde_json::{Value, json};
use testbed::binaries::repository;
use testbed::{Access, ServiceCluster};

use crate::workspaces::{self, create};

const PARTS: [&str; 3] = ["published-resource.yaml", "crd.yaml", "object.yaml"];

/// The directories below `examples/` that publish something.
fn examples() -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(repository().join("examples"))? {
        let path = entry?.path();
        if path.join("published-resource.yaml").exists() {
            found.push(path);
        }
    }
    found.sort();
    ensure!(found.len() >= 2, "{found:?}");
    Ok(found)
}

fn hawser(example: &Path, args: &[&str]) -> Result<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_hawser"))
        .args(args)
        .current_dir(example)
        .output()?;
    let (said, complaint) = (
        String::from_utf8(output.stdout)?,
        String::from_utf8(output.stderr)?,
    );
    ensure!(
        output.status.success(),
        "{}: {args:?}: {said}{complaint}",
        example.display()
    );
    Ok(said)
}

fn rendered(example: &Path, files: &[&str]) -> Result<Value> {
    let args = [&["render", "-o", "json"], files].concat();
    Ok(serde_json::from_str(&hawser(example, &args)?)?)
}

fn read(example: &Path, file: &str) -> Result<Value> {
    let path = example.join(file);
    let text =
        std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    serde_saphyr::from_str(&text).with_context(|| path.display().to_string())
}

#[test]
fn every_example_is_without_a_fault_and_comes_in_step_in_one_pass() -> Result<()> {
    for example in examples()? {
        hawser(&example, &["check", PARTS[0], PARTS[1]])?;
        let shown = rendered(&example, &PARTS)?;
        ensure!(
            shown["outcome"]["code"] == "InStep",
            "{}: {shown}",
            example.display()
        );
        let readme = std::fs::read_to_string(example.join("README.md"))?;
        for part in PARTS {
            ensure!(readme.contains(part), "{}: {part}", example.display());
        }
    }
    Ok(())
}

/// Has the server look at an object as strictly as it can, without keeping it.
async fn look_at(who: &Access, object: &Value) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("object.json");
    std::fs::write(&file, object.to_string())?;
    let file = file.display().to_string();
    let strictly = ["create", "--dry-run=server", "--validate=strict"];
    who.kubectl(&[&strictly[..], &["--filename", &file]].concat())
        .await?;
    Ok(())
}

/// The schema that workspaces see, as a definition that an ordinary cluster takes.
fn as_definition(schema: &Value) -> Value {
    let spec = &schema["spec"];
    let mut versions = spec["versions"].clone();
    for version in versions.as_array_mut().into_iter().flatten() {
        version["schema"] = json!({ "openAPIV3Schema": version["schema"] });
    }
    let (plural, group) = (&spec["names"]["plural"], &spec["group"]);
    let name = [plural, group].map(|part| part.as_str().unwrap_or_default());
    json!({
        "metadata": { "name": name.join(".") },
        "spec": {
            "group": group, "scope": spec["scope"], "names": spec["names"], "versions": versions,
        },
    })
}

#[tokio::test]
async fn what_an_example_publishes_and_copies_is_valid_on_either_side() -> Result<()> {
    // A cluster of its own: the groups of the examples are not unique.
    let cluster = ServiceCluster::start().await?;
    let admin = cluster.admin();
    let own = repository().join("crds");
    cluster
        .install_crd(&serde_json::from_value(read(
            &own,
            "syncagent.kcp.io_publishedresources.yaml",
        )?)?)
        .await?;
    for example in examples()? {
        let shown = rendered(&example, &PARTS)?;
        look_at(admin, &read(&example, PARTS[0])?).await?;
        for definition in [read(&example, PARTS[1])?, as_definition(&shown["schema"])] {
            cluster
                .install_crd(&serde_json::from_value(definition)?)
                .await?;
        }
        look_at(admin, &read(&example, PARTS[2])?).await?;
        let mut copy = shown["copy"].clone();
        let metadata = copy["metadata"].as_object_mut().context("no copy")?;
        metadata.retain(|field, _| {
            ["name", "namespace", "labels", "annotations"].contains(&field.as_str())
        });
        let namespace = metadata["namespace"].as_str().map(str::to_owned);
        if let Some(namespace) = namespace {
            // Examples may lead to the same one.
            let create = ["create", "namespace", &namespace];
            if admin
                .kubectl(&["get", "namespace", &namespace])
                .await
                .is_err()
            {
                admin.kubectl(&create).await?;
            }
        }
        look_at(admin, &copy).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_that_binds_an_example_takes_its_object() -> Result<()> {
    let playground = Playground::start().await?;
    let provider = workspaces::make(&playground, "provider").await?;
    let consumer = workspaces::make(&playground, "consumer").await?;
    for example in examples()? {
        let name = example.file_name().and_then(OsStr::to_str);
        let name = name.context("no name")?;
        let schema = &rendered(&example, &PARTS)?["schema"];
        create(&provider, schema).await?;
        let export = json!({
            "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIExport", "metadata": { "name": name },
            "spec": { "latestResourceSchemas": [schema["metadata"]["name"]] },
        });
        create(&provider, &export).await?;
        let binding = json!({
            "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIBinding", "metadata": { "name": name },
            "spec": { "reference": { "export": { "path": "root:provider", "name": name } } },
        });
        create(&consumer, &binding).await?;
        let object = read(&example, PARTS[2])?;
        let made = create(&consumer, &object).await?;
        // Nothing was pruned; there may be defaults beside it.
        let fields = object["spec"].as_object().context("no spec")?;
        for (field, value) in fields {
            assert_eq!(&made["spec"][field], value, "{name}: {field}");
        }
    }
    playground.stop().await;
    Ok(())
}

#[test]
fn the_consumer_of_a_database_sees_its_public_side_only() -> Result<()> {
    let example = repository().join("examples/databases");
    let files = [PARTS[0], PARTS[1], PARTS[2], "copy.yaml"];
    let shown = rendered(&example, &files)?;
    let status = shown["steps"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|step| step["request"] == "update status")
        .context("no status is written")?;
    assert_eq!(
        status["body"]["status"],
        json!({
            "phase": "Ready",
            "port": 5432,
            "url": "postgres://orders-rw.databases.example.org:5432",
        })
    );
    assert_eq!(
        shown["content"]["spec"],
        json!({ "version": "17", "storageGiB": 10, "costCenter": "default" })
    );
    Ok(())
}
