//! The patches of `hack/chaos --broken`.

use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use testbed::binaries::repository;

/// The first words of their names, which say whose life shows the break.
const PARTS: [&str; 5] = ["agent", "federate", "hub", "member", "mirror"];

/// A patch that does not apply any more tests no checker.
#[test]
fn each_patch_that_breaks_a_promise_applies_and_names_the_promise() -> Result<()> {
    let directory = repository().join("tests/broken");
    let mut parts = PARTS.to_vec();
    for entry in fs::read_dir(&directory)? {
        let path = entry?.path();
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        let part = stem.and_then(|stem| Some(stem.split_once('-')?.0));
        let part = part.with_context(|| path.display().to_string())?;
        ensure!(PARTS.contains(&part), "{} is of no part", path.display());
        parts.retain(|one| *one != part);
        let text = fs::read_to_string(&path)?;
        let promise = text.lines().next().unwrap_or_default();
        ensure!(
            promise.ends_with('.'),
            "{} has no sentence above its diff",
            path.display()
        );
        let checked = Command::new("git")
            .args(["apply", "--check"])
            .arg(&path)
            .current_dir(repository())
            .output()?;
        let problem = String::from_utf8_lossy(&checked.stderr);
        ensure!(checked.status.success(), "{}: {problem}", path.display());
    }
    ensure!(parts.is_empty(), "no patch breaks a promise of {parts:?}");
    Ok(())
}
