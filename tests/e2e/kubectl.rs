//! A session with the real kubectl, as people have it: the same commands against the playground's service
//! cluster, in a workspace of its kcp, and against the real kube-apiserver. All have to say the same.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use anyhow::{Context as _, Result, ensure};
use futures::future::try_join_all;
use kcp_playground::Playground;
use regex::Regex;
use serde_json::Value;
use testbed::cluster::Controllers;
use testbed::{Launch, Options, SOON, ServiceCluster, binaries};

mod session;

/// Somebody at a keyboard.
struct Keyboard {
    /// Its directory: home, and where manifests are.
    scratch: tempfile::TempDir,
    kubeconfig: PathBuf,
}

impl Keyboard {
    fn new(kubeconfig: &Value) -> Result<Self> {
        let scratch = tempfile::tempdir()?;
        let file = scratch.path().join("kubeconfig");
        fs::write(&file, kubeconfig.to_string())?;
        Self::of(scratch, file)
    }

    fn of(scratch: tempfile::TempDir, kubeconfig: PathBuf) -> Result<Self> {
        for (name, text) in session::MANIFESTS {
            fs::write(scratch.path().join(name), text)?;
        }
        Ok(Self {
            scratch,
            kubeconfig,
        })
    }

    /// What a line says, and how it ends.
    async fn enter(&self, line: &str) -> Result<String> {
        let kubectl = binaries::find("kubectl")?;
        let tools = kubectl.parent().context("no directory")?;
        let path = std::env::var("PATH").unwrap_or_default();
        let output = Launch::new("shell", "/bin/sh")
            .args(["-c", line])
            .env("PATH", format!("{}:{path}", tools.display()))
            .env("KUBECONFIG", self.kubeconfig.as_os_str())
            .env("HOME", self.scratch.path().as_os_str())
            .dir(self.scratch.path())
            .run(self.scratch.path(), SOON)
            .await?;
        Ok(format!(
            "{}{}{}\n",
            output.stdout, output.stderr, output.exit
        ))
    }
}

/// What kcp says of each object, as `describe` has it.
static OF_KCP: LazyLock<[(Regex, &str); 2]> = LazyLock::new(|| {
    let regex = |pattern| Regex::new(pattern).expect("well formed");
    let more = r"Annotations:  kcp\.io/cluster: \S+\n  (\S)";
    let alone = r"Annotations:  kcp\.io/cluster: \S+";
    [
        (regex(more), "Annotations:  $1"),
        (regex(alone), "Annotations:  <none>"),
    ]
});

/// What was said without what is another one each time.
fn settled(said: &str) -> String {
    static VARYING: LazyLock<[(Regex, &str); 6]> = LazyLock::new(|| {
        let regex = |pattern| Regex::new(pattern).expect("well formed");
        [
            (regex("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "UID"),
            (regex(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "TIME"),
            (regex(r#"resourceVersion: "\d+""#), "resourceVersion: N"),
            (regex(r"Resource Version: +\d+"), "Resource Version: N"),
            (regex(r"\b\d+[smhd](\d+[smhd])?\b( ago)?"), "AGE"),
            // Columns are as wide as what is in them.
            (regex(r"[ \t]{2,}"), "  "),
        ]
    });
    let lines = said.lines().filter(|line| {
        let line = line.trim();
        // They belong to a controller of the real cluster, to kcp, and to a client whose watch ended early.
        !line.contains("kube-root-ca.crt")
            && !line.starts_with("kcp.io/cluster:")
            && !line.contains("very short watch")
    });
    let mut text = String::new();
    for line in lines {
        let mut line = line.trim_end().to_owned();
        for (pattern, name) in &*VARYING {
            line = pattern.replace_all(&line, *name).into_owned();
        }
        text += &line;
        text.push('\n');
    }
    for (pattern, name) in &*OF_KCP {
        text = pattern.replace_all(&text, *name).into_owned();
    }
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_finds_the_playground_and_kube_apiserver_alike() -> Result<()> {
    let playground = Playground::start().await?;
    let real = ServiceCluster::start_with(Options {
        controllers: Controllers::All,
        ..Options::default()
    })
    .await?;
    let root = Keyboard::new(&playground.kcp_kubeconfig())?;
    root.enter("kubectl create -f workspace.yaml && kubectl wait --for=jsonpath='{.status.phase}'=Ready ws/fleet")
        .await?;
    let keyboards = [
        Keyboard::new(&playground.service_kubeconfig())?,
        Keyboard::new(&playground.workspace_kubeconfig("root:fleet"))?,
        Keyboard::of(
            tempfile::tempdir()?,
            real.admin().kubeconfig_file().to_owned(),
        )?,
    ];
    let mut differences = String::new();
    for line in session::lines() {
        let said = try_join_all(keyboards.iter().map(|keyboard| keyboard.enter(line))).await?;
        let said: Vec<String> = said.iter().map(|said| settled(said)).collect();
        for (place, ours) in ["service cluster", "workspace"].iter().zip(&said) {
            if *ours != said[2] {
                let _ = writeln!(
                    differences,
                    "$ {line}\n--- {place}\n{ours}--- real\n{}",
                    said[2]
                );
            }
        }
    }
    playground.stop().await;
    ensure!(differences.is_empty(), "\n{differences}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn kcps_own_kinds_are_shown_with_their_columns() -> Result<()> {
    in_root(session::KCP).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_of_another_workspace_is_used_as_any_other() -> Result<()> {
    in_root(session::BOUND).await
}

/// Enters lines in the root workspace; each has to say what is expected of it.
async fn in_root(lines: &[(&str, &str)]) -> Result<()> {
    let playground = Playground::start().await?;
    let root = Keyboard::new(&playground.kcp_kubeconfig())?;
    for (line, expected) in lines {
        let said = settled(&root.enter(line).await?);
        let said = said.replace(playground.kcp_url(), "URL");
        ensure!(
            Regex::new(expected)?.is_match(&said),
            "$ {line}\n{said}--- expected\n{expected}"
        );
    }
    playground.stop().await;
    Ok(())
}
