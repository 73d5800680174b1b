//! `kubefedctl`, on clusters that it alone sets up.

use std::os::unix::fs::symlink;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use testbed::binaries::repository;
use testbed::cluster::Controllers;
use testbed::process::Reason;
use testbed::{Access, Launch, SOON};

use super::guide;
use super::world::{MEMBER_NAMES, SYSTEM, World, config_maps, core, federated};

/// The binary by the name of the original, with a kubeconfig of three contexts.
pub(super) struct Ctl {
    scratch: tempfile::TempDir,
    program: PathBuf,
}

/// What a command printed, and its exit code.
pub(super) struct Said {
    stdout: String,
    stderr: String,
    reason: Reason,
}

impl Ctl {
    pub(super) fn new(world: &World) -> Result<Self> {
        let mut ways = vec![("host", world.host.admin()?)];
        for (name, member) in MEMBER_NAMES.iter().zip(&world.members) {
            ways.push((*name, member.admin()?));
        }
        Self::among(&ways)
    }

    /// With a context for each of these clusters.
    pub(super) fn among(ways: &[(&str, &Access)]) -> Result<Self> {
        let scratch = tempfile::tempdir()?;
        let program = scratch.path().join("kubefedctl");
        symlink(env!("CARGO_BIN_EXE_hawser"), &program)?;
        let mut file = json!({"apiVersion": "v1", "kind": "Config", "current-context": "host"});
        for part in ["clusters", "users", "contexts"] {
            file[part] = ways
                .iter()
                .map(|way| named(way, part))
                .collect::<Result<Vec<Value>>>()?
                .into();
        }
        std::fs::write(scratch.path().join("kubeconfig"), file.to_string())?;
        Ok(Self { scratch, program })
    }

    async fn says(&self, line: &str) -> Result<Said> {
        let output = Launch::new("kubefedctl", &self.program)
            .args(line.split_whitespace())
            .env("KUBECONFIG", self.scratch.path().join("kubeconfig"))
            .run(self.scratch.path(), SOON)
            .await?;
        Ok(Said {
            stdout: output.stdout,
            stderr: output.stderr,
            reason: output.exit.reason,
        })
    }

    /// What a command that succeeds prints.
    pub(super) async fn ok(&self, line: &str) -> Result<Said> {
        let said = self.says(line).await?;
        ensure!(said.reason == Reason::Code(0), "{line}: {}", said.stderr);
        Ok(said)
    }

    /// The last line of a command that fails.
    async fn fails(&self, line: &str) -> Result<String> {
        let said = self.says(line).await?;
        ensure!(
            said.reason == Reason::Code(255),
            "{line}: {:?}",
            said.reason
        );
        ensure!(said.stdout.is_empty(), "{line}: {}", said.stdout);
        let last = said.stderr.lines().last();
        Ok(last.unwrap_or_default().to_owned())
    }
}

/// A part of somebody's kubeconfig under the name of a context.
fn named((name, access): &(&str, &Access), part: &str) -> Result<Value> {
    let whole = serde_json::to_value(access.kubeconfig())?;
    let mut entry = whole[part][0].clone();
    entry["name"] = (*name).into();
    if part == "contexts" {
        entry["context"] = json!({"cluster": name, "user": name});
    }
    Ok(entry)
}

async fn count(world: &World, path: &str) -> Result<usize> {
    let list = world.host().await?.get(path).await?.context("a list")?;
    Ok(list["items"].as_array().map_or(0, Vec::len))
}

#[tokio::test]
async fn the_user_guide_holds_from_join_to_unjoin() -> Result<()> {
    let mut world = World::bare(Controllers::All, 2, Controllers::All).await?;
    let ctl = Ctl::new(&world)?;
    join_and_enable(&world, &ctl).await?;
    world.start().await?;
    federate(&world, &ctl).await?;
    guide::walk(&world, &ctl).await?;
    federate_a_custom_type(&world, &ctl).await?;
    orphan_and_disable(&world, &ctl).await?;
    unjoin(&world, &ctl).await?;
    follow_the_page(&world, &ctl).await?;
    join_for_a_while(&world, &ctl).await
}

async fn join_and_enable(world: &World, ctl: &Ctl) -> Result<()> {
    let (host, member) = (world.host().await?, world.member(0).await?);
    let account = format!("/api/v1/namespaces/{SYSTEM}/serviceaccounts/cluster1-host");
    let secrets = format!("/api/v1/namespaces/{SYSTEM}/secrets");

    ctl.ok("join cluster1 --dry-run --v=2 --log-dir /tmp")
        .await?;
    ensure!(member.get(&account).await?.is_none(), "a dry run wrote");
    for name in ["cluster1", "cluster2"] {
        let line = format!("join {name} --host-cluster-context=host --cluster-context {name}");
        let said = ctl.ok(&line).await?;
        assert_eq!(said.stdout, "");
        assert!(
            said.stderr.contains("--cluster-endpoint"),
            "{}",
            said.stderr
        );
    }
    let cluster = host.until_there(&core("kubefedclusters/cluster1")).await;
    assert_eq!(cluster["spec"]["apiEndpoint"], world.members[0].url());
    let secret = cluster["spec"]["secretRef"]["name"]
        .as_str()
        .context("a Secret")?;
    assert!(secret.starts_with("cluster1-"), "{secret}");
    assert_eq!(
        ctl.fails("join cluster1").await?,
        "Error: service account: cluster1-host already exists in joining cluster: cluster1"
    );
    let before = count(world, &secrets).await?;
    ctl.ok("join cluster1 --error-on-existing=false").await?;
    assert_eq!(
        count(world, &secrets).await?,
        before,
        "the Secret is used again"
    );

    assert_eq!(ctl.fails("join").await?, "Error: NAME is required");
    assert_eq!(
        ctl.fails("join cluster1 --kubefed-namespace=nowhere")
            .await?,
        "Error: A KubeFedConfig named \"kubefed\" was not found in namespace \"nowhere\". Is a KubeFed control plane running in this namespace?"
    );
    assert_eq!(
        ctl.fails("join x --cluster-context=nowhere").await?,
        "Error: context \"nowhere\" does not exist"
    );

    let said = ctl.ok("enable namespaces").await?;
    assert_eq!(
        said.stdout,
        "customresourcedefinition.apiextensions.k8s.io/federatednamespaces.types.kubefed.io created\n\
         federatedtypeconfig.core.kubefed.io/namespaces created in namespace kube-federation-system\n"
    );
    assert_eq!(said.stderr, "Api resource found.\n");
    ctl.ok("enable cm").await?;
    let again = ctl.ok("enable ConfigMap --dry-run").await?.stdout;
    assert!(
        again.contains("federatedconfigmaps.types.kubefed.io updated"),
        "{again}"
    );
    ctl.ok("enable ConfigMap").await?;

    let printed = ctl
        .ok("enable deployments.apps --output=yaml")
        .await?
        .stdout;
    let documents: Vec<Value> = serde_saphyr::from_multiple(&printed)?;
    let (config, definition) = (&documents[0], &documents[1]);
    assert_eq!(config["metadata"]["name"], "deployments.apps");
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
    let spec = definition.pointer(spec).context("a schema")?;
    assert_eq!(spec["retainReplicas"]["type"], "boolean");
    assert!(spec["template"].is_object());
    let path = core("federatedtypeconfigs/deployments.apps");
    ensure!(host.get(&path).await?.is_none(), "printing wrote");
    assert_eq!(
        ctl.fails("enable nothing").await?,
        "Error: Unable to find api resource named \"nothing\"."
    );
    Ok(())
}

async fn federate(world: &World, ctl: &Ctl) -> Result<()> {
    let host = world.host().await?;
    let namespace = json!({"metadata": {"name": "made", "labels": {"a": "b"}}});
    host.create("/api/v1/namespaces", &namespace).await?;
    let map = json!({"metadata": {"name": "m", "annotations": {"x": "y"}}, "data": {"k": "v"}});
    host.create(&config_maps("made"), &map).await?;
    let secrets = "/api/v1/namespaces/made/secrets";
    let secret = json!({"metadata": {"name": "s"}, "data": {"k": "djE="}});
    host.create(secrets, &secret).await?;

    assert_eq!(
        ctl.fails("federate secret s -n made").await?,
        "Error: federatedtypeconfigs.core.kubefed.io \"secrets\" not found. Consider using '--enable-type' to optionally enable type while federating the resource"
    );
    let printed = ctl.ok("federate secret s -n made -o yaml").await?.stdout;
    let printed: Value = serde_saphyr::from_str(&printed)?;
    assert_eq!(
        printed["spec"]["template"],
        json!({"data": {"k": "djE="}, "type": "Opaque"})
    );
    ctl.ok("federate ns made --contents --enable-type --dry-run")
        .await?;
    ensure!(
        host.get(&core("federatedtypeconfigs/secrets"))
            .await?
            .is_none(),
        "a dry run enabled a type"
    );
    let said = ctl
        .ok("federate namespaces made --contents --enable-type --skip-api-resources serviceaccounts,apps")
        .await?;
    assert!(
        said.stdout
            .contains("federatedtypeconfig.core.kubefed.io/secrets created in namespace"),
        "{}",
        said.stdout
    );
    for line in [
        "Successfully created FederatedNamespace \"made/made\" from Namespace",
        "Successfully created FederatedConfigMap \"made/m\" from ConfigMap",
        "Successfully created FederatedSecret \"made/s\" from Secret",
        "Annotations defined for ConfigMap \"made/m\" will not appear in the template of the federated resource: map[x:y]",
    ] {
        assert!(said.stderr.contains(line), "{}", said.stderr);
    }
    for number in 0..2 {
        let member = world.member(number).await?;
        let copy = member
            .until_there(&format!("{}/m", config_maps("made")))
            .await;
        assert_eq!(copy["data"], json!({"k": "v"}));
        member.until_there(&format!("{secrets}/s")).await;
    }
    assert_eq!(
        ctl.fails("federate cm m -n made").await?,
        "Error: Error creating federated resource \"made/m\": federatedconfigmaps.types.kubefed.io \"m\" already exists"
    );
    assert_eq!(
        ctl.fails("federate cm other -n made").await?,
        "Error: Error retrieving target ConfigMap \"made/other\": configmaps \"other\" not found"
    );
    Ok(())
}

/// A definition is federated like any object; then members serve its type, which is federated in a group of its own.
async fn federate_a_custom_type(world: &World, ctl: &Ctl) -> Result<()> {
    let host = world.host().await?;
    let bars = json!({
        "metadata": {"name": "bars.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"kind": "Bar", "plural": "bars"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {
                    "type": "object", "properties": {"size": {"type": "integer"}},
                }}}},
            }],
        },
    });
    host.define(&bars).await?;
    ctl.ok("enable customresourcedefinitions").await?;
    ctl.ok("federate crd bars.example.com").await?;
    for number in 0..2 {
        let member = world.member(number).await?;
        member
            .until_there("/apis/example.com/v1/namespaces/made/bars")
            .await;
    }
    let said = ctl
        .ok("enable bars --federated-group kubefed.example.com")
        .await?;
    assert!(
        said.stdout
            .contains("federatedbars.kubefed.example.com created"),
        "{}",
        said.stdout
    );
    let all = "/apis/example.com/v1/namespaces/made/bars";
    let bar = json!({
        "apiVersion": "example.com/v1", "kind": "Bar", "metadata": {"name": "b"}, "spec": {"size": 3},
    });
    host.create(all, &bar).await?;
    ctl.ok("federate bar b --namespace made").await?;
    for number in 0..2 {
        let copy = world
            .member(number)
            .await?
            .until_there(&format!("{all}/b"))
            .await;
        assert_eq!(copy["spec"], bar["spec"]);
    }
    let federated = "/apis/kubefed.example.com/v1beta1/namespaces/made/federatedbars/b";
    host.until_reason(federated, None).await;
    Ok(())
}

async fn orphan_and_disable(world: &World, ctl: &Ctl) -> Result<()> {
    let host = world.host().await?;
    let (object, secret) = (
        "FederatedSecret s -n made",
        federated("made", "federatedsecrets/s"),
    );
    let status = format!("orphaning-deletion status {object}");
    assert_eq!(ctl.ok(&status).await?.stdout, "Disabled\n");
    assert_eq!(
        ctl.ok(&format!("orphaning-deletion enable {object}"))
            .await?
            .stdout,
        ""
    );
    assert_eq!(ctl.ok(&status).await?.stdout, "Enabled\n");
    let other = ctl
        .ok("orphaning-deletion status cm m -n made")
        .await?
        .stdout;
    assert_eq!(
        other,
        "Warning: configmaps/v1 might not be a federated resource\nDisabled\n"
    );

    assert_eq!(
        ctl.fails("disable secrets --delete-crd").await?,
        "Error: Cannot delete CRD \"federatedsecrets.types.kubefed.io\" while resource instances exist. Please try kubefedctl disable again after removing the resource instances or without the '--delete-crd' option"
    );
    host.delete(&secret).await?;
    host.until_gone(&secret).await;
    let copy = "/api/v1/namespaces/made/secrets/s";
    world.member(0).await?.until_there(copy).await;
    ctl.ok("disable secrets --delete-crd --dry-run").await?;
    let said = ctl.ok("disable secrets --delete-crd").await?;
    assert_eq!(
        said.stdout,
        "Disabled propagation for FederatedTypeConfig \"kube-federation-system/secrets\"\n\
         Verifying propagation controller is stopped for FederatedTypeConfig \"kube-federation-system/secrets\"\n\
         Propagation controller for FederatedTypeConfig \"kube-federation-system/secrets\" is stopped\n\
         customresourcedefinition \"federatedsecrets.types.kubefed.io\" deleted\n\
         federatedtypeconfig \"kube-federation-system/secrets\" deleted\n"
    );
    host.until_gone(&core("federatedtypeconfigs/secrets")).await;
    assert_eq!(
        ctl.ok("disable secrets").await?.stdout,
        "FederatedTypeConfig \"kube-federation-system/secrets\" does not exist\n"
    );
    Ok(())
}

async fn unjoin(world: &World, ctl: &Ctl) -> Result<()> {
    let (host, member) = (world.host().await?, world.member(1).await?);
    let path = core("kubefedclusters/cluster2");
    let cluster = host.until_there(&path).await;
    ctl.ok("unjoin cluster2 --dry-run").await?;
    host.until_there(&path).await;
    let said = ctl.ok("unjoin cluster2").await?;
    assert_eq!((&*said.stdout, &*said.stderr), ("", ""));
    ensure!(
        host.get(&path).await?.is_none(),
        "the member is still there"
    );
    let secret = cluster["spec"]["secretRef"]["name"]
        .as_str()
        .context("a Secret")?;
    let secret = format!("/api/v1/namespaces/{SYSTEM}/secrets/{secret}");
    ensure!(
        host.get(&secret).await?.is_none(),
        "the Secret is still there"
    );
    member
        .until_gone(&format!("/api/v1/namespaces/{SYSTEM}"))
        .await;
    let role =
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/kubefed-controller-manager:cluster2-host";
    ensure!(member.get(role).await?.is_none(), "the role is still there");
    member
        .until_there(&format!("{}/m", config_maps("made")))
        .await;
    assert_eq!(
        ctl.fails("unjoin cluster2").await?,
        "Error: Failed to get kubefed cluster \"kube-federation-system/cluster2\": kubefedclusters.core.kubefed.io \"cluster2\" not found"
    );
    ctl.ok("unjoin cluster2 --force").await?;
    Ok(())
}

/// The commands that the page on the federation shows.
pub(super) fn shown() -> Result<Vec<String>> {
    let page = std::fs::read_to_string(repository().join("docs/federation.md"))?;
    let shown = page
        .lines()
        .filter_map(|line| line.strip_prefix("    hawser kubefedctl "));
    let shown: Vec<String> = shown.map(str::to_owned).collect();
    ensure!(shown.len() == 7, "{shown:?}");
    Ok(shown)
}

/// Follows the page on the federation.
async fn follow_the_page(world: &World, ctl: &Ctl) -> Result<()> {
    let (host, member) = (world.host().await?, world.member(0).await?);
    ctl.ok("unjoin cluster1").await?;
    let system = format!("/api/v1/namespaces/{SYSTEM}");
    member.until_gone(&system).await;
    let namespace = json!({"metadata": {"name": "my-namespace"}});
    host.create("/api/v1/namespaces", &namespace).await?;
    let labels = json!({"app": "web"});
    let containers = json!([{"name": "web", "image": "registry.example/web"}]);
    let deployment = json!({"metadata": {"name": "web"}, "spec": {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
    }});
    let all = "/apis/apps/v1/namespaces/my-namespace/deployments";
    host.create(all, &deployment).await?;
    for command in shown()? {
        ctl.ok(&command).await?;
        if command.starts_with("federate ") {
            member.until_there(&format!("{all}/web")).await;
        }
    }
    member.until_gone(&system).await;
    member.until_there(&format!("{all}/web")).await;
    Ok(())
}

/// With a token that ends, and without a trace in the end.
async fn join_for_a_while(world: &World, ctl: &Ctl) -> Result<()> {
    let (host, member) = (world.host().await?, world.member(0).await?);
    let short = ctl.says("join cluster1 --token-duration=5m").await?;
    ensure!(short.stderr.contains("at least 10m"), "{}", short.stderr);
    ctl.ok("join cluster1 --token-duration=1h").await?;
    let secret = format!("/api/v1/namespaces/{SYSTEM}/secrets/cluster1-host");
    ensure!(
        member.get(&secret).await?.is_none(),
        "a token without an end"
    );
    host.until(&core("kubefedclusters/cluster1"), |cluster| {
        cluster["status"]["conditions"][0]["reason"] == "ClusterReady"
    })
    .await;
    let copy = format!("{}/m", config_maps("made"));
    member.until_there(&copy).await;
    let own = json!({"metadata": {"name": "own"}});
    member.create(&config_maps("default"), &own).await?;
    ctl.ok("join cluster1 --token-duration=2h --error-on-existing=false")
        .await?;
    let said = ctl.ok("unjoin cluster1 --delete-copies").await?;
    assert_eq!((&*said.stdout, &*said.stderr), ("", ""));
    member.until_gone(&copy).await;
    for namespace in ["made", SYSTEM] {
        member
            .until_gone(&format!("/api/v1/namespaces/{namespace}"))
            .await;
    }
    let own = format!("{}/own", config_maps("default"));
    let own = member.get(&own).await?;
    ensure!(own.is_some(), "it deleted what it had not made");
    Ok(())
}

#[tokio::test]
async fn files_are_federated_without_a_server() -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let file = scratch.path().join("objects.yaml");
    let text =
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  namespace: ns\ndata:\n  k: v\n";
    std::fs::write(&file, text)?;
    let kubeconfig = scratch.path().join("kubeconfig");
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        "users": [{"name": "c", "user": {}}],
    });
    std::fs::write(&kubeconfig, config.to_string())?;
    let output = Launch::new("kubefedctl", env!("CARGO_BIN_EXE_hawser"))
        .args(["kubefedctl", "federate", "--logtostderr", "--filename"])
        .arg(&file)
        .arg("--kubeconfig")
        .arg(&kubeconfig)
        .run(scratch.path(), SOON)
        .await?;
    assert_eq!(output.stderr, "");
    assert_eq!(
        output.stdout,
        "---\napiVersion: types.kubefed.io/v1beta1\nkind: FederatedConfigMap\nmetadata:\n  name: a\n  namespace: ns\n\
         spec:\n  placement:\n    clusterSelector:\n      matchLabels: {}\n  template:\n    data:\n      k: v\n"
    );
    Ok(())
}
