//! What most tests begin with: gadgets are published, one workspace has bound them, an agent runs.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use testbed::{Process, eventually};

use super::plane::Kind;
use super::world::{Of, Team, World};
use super::{SOON, gadgets, service};

pub(super) struct Stage<'w> {
    pub(super) world: &'w World,
    /// The kind on both sides.
    pub(super) kind: Kind,
    /// The PublishedResource.
    pub(super) published: String,
    pub(super) team: Team,
    pub(super) agent: Process,
}

impl World {
    /// Gadgets, installed on the service cluster.
    pub(super) async fn gadgets(&self) -> Result<Kind> {
        self.install(&gadgets(&self.group)).await
    }

    /// Installs a definition; its kind in the stored version.
    pub(super) async fn install(&self, crd: &Value) -> Result<Kind> {
        service::install(&self.service, crd).await?;
        self.note_definition(crd)?;
        let spec = &crd["spec"];
        let stored = spec["versions"].as_array().into_iter().flatten();
        let stored = stored
            .into_iter()
            .find(|version| version["storage"] == true);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Ok(Kind {
            group: text(&spec["group"]),
            version: stored
                .map(|version| text(&version["name"]))
                .unwrap_or_default(),
            plural: text(&spec["names"]["plural"]),
            name: text(&spec["names"]["kind"]),
        })
    }

    /// Gadgets published with more in the spec, bound by one workspace, and an agent at work.
    pub(super) async fn stage(&self, more: Value) -> Result<Stage<'_>> {
        self.stage_with(&gadgets(&self.group), more).await
    }

    /// Waits until the export claims what related objects need; what is claimed later is not accepted by
    /// a workspace that has bound it.
    pub(super) async fn await_claimed(&self, spec: &Value) {
        if spec["related"].as_array().is_none_or(Vec::is_empty) {
            return;
        }
        eventually(SOON, "the export has the claims", async || -> Result<()> {
            let export = self.export().await?;
            let claims = export["spec"]["permissionClaims"].as_array();
            let mut claims = claims.into_iter().flatten();
            ensure!(
                claims.any(|claim| claim["resource"] == "namespaces"),
                "it claims {}",
                export["spec"]["permissionClaims"]
            );
            Ok(())
        })
        .await;
    }

    pub(super) async fn stage_with(&self, crd: &Value, more: Value) -> Result<Stage<'_>> {
        let kind = self.install(crd).await?;
        let published = self.publish(&kind, more.clone()).await?;
        let agent = self.start_agent()?;
        self.await_published(&published).await;
        self.await_claimed(&more).await;
        let team = self.team("team").await?;
        Ok(Stage {
            world: self,
            kind,
            published,
            team,
            agent,
        })
    }
}

impl Stage<'_> {
    /// Makes a gadget in `default`; it, and its copy.
    pub(super) async fn made(&self, name: &str, spec: Value) -> (Value, Value) {
        let made = self.team.make(&self.kind, name, spec).await;
        (made, self.copy(name).await)
    }

    /// The same where every byte of it counts.
    pub(super) async fn made_bare(&self, name: &str, spec: Value) -> (Value, Value) {
        let made = self.team.make_bare(&self.kind, name, spec).await;
        (made, self.copy(name).await)
    }

    pub(super) async fn copy(&self, name: &str) -> Value {
        self.world.await_copy(&self.kind, self.team.of(name)).await
    }

    pub(super) async fn await_in_copy(&self, name: &str, pointer: &str, wanted: Value) -> Value {
        let of = self.team.of(name);
        self.world
            .await_in_copy(&self.kind, of, pointer, wanted)
            .await
    }

    pub(super) fn of<'o>(&'o self, name: &'o str) -> Of<'o> {
        self.team.of(name)
    }

    /// Where a copy is on the service cluster.
    pub(super) fn place(&self, copy: &Value) -> String {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let meta = &copy["metadata"];
        self.kind
            .at(&text(&meta["namespace"]), &text(&meta["name"]))
    }

    /// Changes a copy, as its provider does.
    pub(super) async fn patch_copy(&self, copy: &Value, patch: Value) -> Result<Value> {
        Ok(self.world.service.merge(&self.place(copy), patch).await?)
    }

    /// Waits until all that happened before has been taken care of: a new object is copied after it.
    pub(super) async fn marker(&self, name: &str) {
        self.made(name, json!({"marker": name})).await;
    }
}
