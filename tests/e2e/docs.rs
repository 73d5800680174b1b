//! What the docs show is true: manifests in them are checked, links lead somewhere.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use testbed::binaries::repository;

/// The pages for users.
fn pages() -> Result<Vec<PathBuf>> {
    let root = repository();
    let mut found = vec![root.join("README.md"), root.join("ARCHITECTURE.md")];
    for dir in ["docs", "examples/crontabs", "examples/databases"] {
        for entry in std::fs::read_dir(root.join(dir))? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    found.sort();
    ensure!(found.len() > 10, "{found:?}");
    Ok(found)
}

/// The fenced blocks of a language, with what precedes them left out.
fn blocks<'a>(text: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    text.split(&*fence)
        .skip(1)
        .filter_map(|rest| rest.split("\n```").next())
        .collect()
}

fn check(manifest: &str) -> Result<()> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_hawser"))
        .args(["check", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut input = child.stdin.take().context("no stdin")?;
    input.write_all(manifest.as_bytes())?;
    drop(input);
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{manifest}\n{said}");
    Ok(())
}

#[test]
fn every_published_resource_in_the_docs_is_without_a_fault() -> Result<()> {
    let mut checked = 0;
    for page in pages()? {
        let text = std::fs::read_to_string(&page)?;
        for block in blocks(&text, "yaml") {
            if block.contains("\nkind: PublishedResource\n") {
                check(block).with_context(|| page.display().to_string())?;
                checked += 1;
            }
        }
    }
    ensure!(checked >= 3, "only {checked} manifests were found");
    Ok(())
}

/// The anchors of a page's headings, as code hosts make them.
fn anchors(page: &Path) -> Result<BTreeSet<String>> {
    let text = std::fs::read_to_string(page)
        .with_context(|| format!("a link leads to {}", page.display()))?;
    let headings = text.lines().filter(|line| line.starts_with('#'));
    Ok(headings
        .map(|line| {
            let words = line.trim_start_matches('#').trim().to_lowercase();
            words
                .chars()
                .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
                .map(|c| if c == ' ' { '-' } else { c })
                .collect()
        })
        .collect())
}

#[test]
fn every_link_in_the_docs_leads_somewhere() -> Result<()> {
    let mut followed = 0;
    for page in pages()? {
        let text = std::fs::read_to_string(&page)?;
        for (_, rest) in text
            .match_indices("](")
            .map(|(at, _)| text.split_at(at + 2))
        {
            let link = rest.split(')').next().unwrap_or_default();
            if link.contains("://") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => page.clone(),
                file => page.parent().context("no directory")?.join(file),
            };
            ensure!(target.exists(), "{}: {link}", page.display());
            if !anchor.is_empty() {
                let known = anchors(&target)?;
                ensure!(
                    known.contains(anchor),
                    "{}: {link}: {known:?}",
                    page.display()
                );
            }
            followed += 1;
        }
    }
    ensure!(followed > 20, "only {followed} links were found");
    Ok(())
}
