//! Names and namespaces that owners write for both sides in one template. What is the owner's on the service
//! cluster is open there, whatever the same template makes of consumers' words in workspaces.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::super::world::World;
use super::matrix::{Matrix, Origin, Pair};
use super::{await_held, entry, held, put};

on_both_grounds!(
    what_owners_write_of_originals_on_the_service_cluster_leads_to_whole_lives,
    what_owners_write_of_originals_in_workspaces_leads_to_whole_lives,
);

on_our_ground!(
    what_owners_write_in_handlebars_of_originals_in_workspaces_leads_to_whole_lives,
    what_owners_write_in_handlebars_of_originals_on_the_service_cluster_leads_to_whole_lives,
);

on_the_playground!(
    what_owners_write_of_originals_on_the_service_cluster_leads_to_whole_lives,
    what_owners_write_of_originals_in_workspaces_leads_to_whole_lives,
    what_owners_write_in_handlebars_of_originals_in_workspaces_leads_to_whole_lives,
    what_owners_write_in_handlebars_of_originals_on_the_service_cluster_leads_to_whole_lives,
    a_namespace_that_has_words_of_consumers_in_it_is_open_where_the_owner_lists_it,
);

/// Namespaces by templates: `F` is one of the owner's, `H` that of the workspace's copies.
const NAMESPACES: [(&str, &str); 15] = [
    (
        "F",
        "{{ if eq .Side \"kcp\" }}{{ .Object.metadata.namespace }}{{ else }}F{{ end }}",
    ),
    (
        "F",
        "{{ if ne \"kcp\" .Side }}F{{ else }}{{ .Object.metadata.namespace }}{{ end }}",
    ),
    (
        "F",
        "{{- if and (eq .Side \"kcp\") .Object.metadata.namespace -}} {{ .Object.metadata.namespace }} {{- else -}} F {{- end -}}",
    ),
    (
        "F",
        "{{ if eq .Side \"service\" }}F{{ else if not (eq .Side \"service\") }}{{ .Object.metadata.namespace }}{{ end }}",
    ),
    (
        "F",
        "{{ $side := .Side }}{{ if eq $side \"service\" }}F{{ else }}{{ .Object.metadata.namespace }}{{ end }}",
    ),
    (
        "F",
        "{{ $ns := \"F\" }}{{ if eq .Side \"kcp\" }}{{ $ns = .Object.metadata.namespace }}{{ end }}{{ $ns }}",
    ),
    (
        "F",
        "{{ ternary .Object.metadata.namespace \"F\" (eq .Side \"kcp\") }}",
    ),
    (
        "F",
        "{{ default \"F\" (and (eq .Side \"kcp\") .Object.metadata.namespace) }}",
    ),
    (
        "F",
        "{{ with eq .Side \"kcp\" }}{{ $.Object.metadata.namespace }}{{ else }}F{{ end }}",
    ),
    (
        "F",
        "{{ define \"ns\" }}{{ if eq .Side \"kcp\" }}{{ .Object.metadata.namespace }}{{ else }}F{{ end }}{{ end }}{{ template \"ns\" . }}",
    ),
    ("H", "{{ .Object.metadata.namespace }}"),
    (
        "H-F",
        "{{ if eq .Side \"kcp\" }}default{{ else }}{{ .Object.metadata.namespace }}-F{{ end }}",
    ),
    (
        "H",
        "{{ if eq .Side \"kcp\" }}default{{ else }}{{ .ClusterName }}{{ end }}",
    ),
    (
        "F-H",
        "{{ if eq .Side \"kcp\" }}default{{ else }}{{ printf \"%s-%s\" \"F\" .ClusterName }}{{ end }}",
    ),
    (
        "F-5",
        "{{ if eq .Side \"kcp\" }}default{{ else }}{{ .ClusterName | sha256sum | trunc 0 | printf \"F-5%s\" }}{{ end }}",
    ),
];

/// Names by templates, with what they come to in workspaces and on the service cluster.
const NAMES: [(&str, &str, &str); 5] = [
    (
        "{{ .Object.spec.id }}-{{ if eq .Side \"kcp\" }}mine{{ else }}yours{{ end }}",
        "lamp-mine",
        "lamp-yours",
    ),
    (
        "{{ if eq .Side \"kcp\" }}{{ .Object.metadata.name }}-x{{ else }}of-{{ .ClusterName }}{{ end }}",
        "lamp-x",
        "of-H",
    ),
    (
        "{{ $id := .Object.spec.id | upper }}{{ printf \"creds-%s\" ($id | lower) | trunc 9 }}",
        "creds-lam",
        "creds-lam",
    ),
    (
        "{{ default \"none\" .Object.spec.missing }}-{{ .Object.spec.id | sha256sum | trunc 0 }}n",
        "none-n",
        "none-n",
    ),
    (
        "{{ define \"id\" }}{{ . }}-d{{ end }}{{ template \"id\" .Object.spec.id }}",
        "lamp-d",
        "lamp-d",
    ),
];

const HANDLEBARS: [(&str, &str); 5] = [
    (
        "F",
        "{{#if (eq Side \"kcp\")}}{{Object.metadata.namespace}}{{else}}F{{/if}}",
    ),
    (
        "F",
        "{{#unless (eq \"kcp\" Side)}}F{{else}}{{Object.metadata.namespace}}{{/unless}}",
    ),
    (
        "F",
        "{{#if (eq Side \"service\")}}F{{else if (eq Side \"kcp\")}}{{Object.metadata.namespace}}{{/if}}",
    ),
    (
        "F-H",
        "{{#if (eq Side \"kcp\")}}default{{else}}F-{{lower ClusterName}}{{/if}}",
    ),
    (
        "H-F",
        "{{#if (eq Side \"kcp\")}}default{{else}}{{Object.metadata.namespace}}-F{{/if}}",
    ),
];

async fn what_owners_write_of_originals_on_the_service_cluster_leads_to_whole_lives(
    world: &World,
) -> Result<()> {
    lives(world, Origin::Service, &NAMESPACES, &NAMES, "Go").await
}

async fn what_owners_write_of_originals_in_workspaces_leads_to_whole_lives(
    world: &World,
) -> Result<()> {
    lives(world, Origin::Kcp, &NAMESPACES, &NAMES, "Go").await
}

async fn what_owners_write_in_handlebars_of_originals_in_workspaces_leads_to_whole_lives(
    world: &World,
) -> Result<()> {
    lives(world, Origin::Kcp, &HANDLEBARS, &[], "Handlebars").await
}

async fn what_owners_write_in_handlebars_of_originals_on_the_service_cluster_leads_to_whole_lives(
    world: &World,
) -> Result<()> {
    lives(world, Origin::Service, &HANDLEBARS, &[], "Handlebars").await
}

/// Originals that are made late, change, go and come back, and an object that goes with all of them there.
async fn lives(
    world: &World,
    origin: Origin,
    namespaces: &[(&str, &str)],
    names: &[(&str, &str, &str)],
    engine: &str,
) -> Result<()> {
    let own = world.agent.clone();
    let side = match origin {
        Origin::Kcp => "kcp",
        Origin::Service => "service",
    };
    let by = |text: &str| json!({"template": {"template": text.replace('F', &own)}});
    let mut entries = Vec::new();
    for (number, (_, text)) in namespaces.iter().enumerate() {
        let mut object = json!({"reference": {"path": format!("spec.names.n{number}")}});
        object["namespace"] = by(text);
        entries.push(entry(&format!("n{number}"), side, object));
    }
    for (number, (text, ..)) in names.iter().enumerate() {
        entries.push(entry(&format!("m{number}"), side, by(text)));
    }
    let mut more = json!({"related": entries});
    // The originals' definition does not know the field of another language.
    if engine != "Go" {
        more["templateEngine"] = engine.into();
    }
    let stage = world.related(more).await?;
    let home = stage.home().to_owned();
    let there = |text: &str| text.replace('F', &own).replace('H', &home);
    let mut pairs = Vec::new();
    let mut spec = json!({"id": "lamp", "names": {}});
    let pair = |kcp: &str, service: (String, String)| Pair {
        kcp: ("default".to_owned(), kcp.to_owned()),
        service,
        labels: json!({}),
        cleanup: false,
    };
    for (number, (namespace, _)) in namespaces.iter().enumerate() {
        let name = format!("by-namespace-{number}");
        spec["names"][format!("n{number}")] = name.as_str().into();
        pairs.push(pair(&name, (there(namespace), name.clone())));
    }
    for (_, kcp, service) in names {
        pairs.push(pair(kcp, (home.clone(), there(service))));
    }
    stage.made("lamp", spec).await;
    let mut needed: Vec<_> = pairs.iter().map(|pair| pair.service.0.clone()).collect();
    needed.sort();
    needed.dedup();
    for namespace in needed {
        // That of the workspace is there.
        if namespace != home {
            world.service.namespace(&namespace, json!({})).await?;
        }
    }
    let matrix = Matrix { stage, origin, own };
    matrix.put(&pairs, "1").await?;
    matrix
        .await_copies("they are copied", &pairs, Some("1"))
        .await;
    matrix.await_holds("originals are held", &pairs, true).await;
    matrix.await_named("lamp", pairs.len()).await;
    matrix.change(&pairs, "2").await?;
    matrix
        .await_copies("changes arrive", &pairs, Some("2"))
        .await;
    matrix.delete(&pairs).await?;
    matrix.await_gone("copies go with originals", &pairs).await;
    matrix.put(&pairs, "3").await?;
    matrix
        .await_copies("they come back", &pairs, Some("3"))
        .await;
    let stage = &matrix.stage;
    stage.team.delete(&stage.kind, "lamp").await?;
    stage.team.await_gone(&stage.kind, "lamp").await;
    matrix.assert_left(&pairs, "3").await;
    Ok(())
}

async fn a_namespace_that_has_words_of_consumers_in_it_is_open_where_the_owner_lists_it(
    world: &World,
) -> Result<()> {
    let own = world.agent.clone();
    let text = format!(
        "{{{{ if eq .Side \"kcp\" }}}}default{{{{ else }}}}{own}-{{{{ .Object.spec.id | sha256sum | trunc 8 }}}}{{{{ end }}}}"
    );
    let entries = |listed: &[&str]| -> Value {
        let both = [("down", "service"), ("up", "kcp")].map(|(name, side)| {
            let mut object = json!({"reference": {"path": format!("spec.{name}")}});
            object["namespace"] = json!({"template": {"template": text}});
            let mut entry = entry(name, side, object);
            entry["allowedNamespaces"] = json!(listed);
            entry
        });
        json!({ "related": both })
    };
    let stage = world.related(entries(&[])).await?;
    let (team, service) = (&stage.team.plane, &world.service);
    // The first digits of the hash of `lamp`.
    let namespace = format!("{own}-{}", &sha256("lamp")[..8]);
    service.namespace(&namespace, json!({})).await?;
    put(service, &namespace, "down", "d").await?;
    put(team, "default", "up", "u").await?;
    let spec = json!({"id": "lamp", "down": "down", "up": "up"});
    stage.made("lamp", spec).await;
    let told = "does not allow that namespace";
    stage.await_refused("lamp", told, "NamespaceClosed").await;
    ensure!(held(team, "default", "down").await?.is_none());
    ensure!(held(service, &namespace, "up").await?.is_none());
    stage.republish(entries(&[&namespace])).await?;
    await_held(team, "default", "down", Some("d")).await;
    await_held(service, &namespace, "up", Some("u")).await;
    stage.republish(entries(&[])).await?;
    await_held(team, "default", "down", None).await;
    await_held(service, &namespace, "up", None).await;
    Ok(())
}

fn sha256(text: &str) -> String {
    use sha2::Digest as _;
    super::super::hex(&sha2::Sha256::digest(text))
}
