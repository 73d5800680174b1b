//! The Dockerfile: what it builds, from which files, and how the image runs it.
//!
//! `hack/image` runs its build command and starts the binary, without optimisation as a part of `hack/test`.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use testbed::binaries::repository;

/// The instructions of the Dockerfile, continued lines joined.
fn instructions() -> Result<Vec<(String, String)>> {
    let text = std::fs::read_to_string(repository().join("Dockerfile"))?;
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty())
        .collect();
    let joined = lines.join("\n").replace("\\\n", " ");
    let instructions = joined.lines().map(|line| {
        let (name, rest) = line.split_once(' ').context(line.to_owned())?;
        let words: Vec<&str> = rest.split_whitespace().collect();
        Ok((name.to_owned(), words.join(" ")))
    });
    instructions.collect()
}

fn build_command() -> Result<Vec<String>> {
    let found = instructions()?
        .into_iter()
        .find(|(name, rest)| name == "RUN" && rest.starts_with("cargo rustc "));
    let (_, command) = found.context("no build command")?;
    let (command, _) = command.split_once(" -- ").context("no flags of rustc")?;
    Ok(command.split(' ').map(str::to_owned).collect())
}

#[test]
fn the_image_is_one_unprivileged_binary_from_pinned_bases() -> Result<()> {
    let instructions = instructions()?;
    let of = |wanted: &str| -> Vec<&str> {
        let named = instructions.iter().filter(|(name, _)| name == wanted);
        named.map(|(_, rest)| rest.as_str()).collect()
    };
    for base in of("FROM") {
        let image = base.split(' ').next().unwrap_or_default();
        let tag = image.rsplit_once(':').map(|(_, tag)| tag);
        let pinned = tag.is_some_and(|tag| tag.split('.').count() >= 3);
        ensure!(image == "scratch" || pinned, "not pinned: {base}");
    }
    ensure!(of("FROM").last() == Some(&"scratch"), "{:?}", of("FROM"));
    ensure!(of("ADD").is_empty(), "ADD fetches and unpacks; use COPY");

    let toolchain = std::fs::read_to_string(repository().join("Cargo.toml"))?;
    let (_, rest) = toolchain
        .split_once("rust-version = \"")
        .context("no rust-version")?;
    let rust = rest.split('"').next().unwrap_or_default();
    ensure!(of("FROM")[0].contains(&format!("rust:{rust}.")), "{rust}");

    let (last, user) = (instructions.last(), of("USER"));
    let user = user.last().context("no user")?;
    let ids: Vec<u32> = user.split(':').map(str::parse).collect::<Result<_, _>>()?;
    ensure!(ids.len() == 2 && !ids.contains(&0), "{user}");
    let values = std::fs::read_to_string(repository().join("charts/hawser/values.yaml"))?;
    ensure!(
        values.contains(&format!("runAsUser: {}\n", ids[0])),
        "{user}"
    );

    let (name, entry) = last.context("no entry point")?;
    assert_eq!(name, "ENTRYPOINT");
    let entry: Vec<String> = serde_json::from_str(entry).context("not the exec form")?;
    let binary = entry[0].trim_start_matches('/');
    let copies = of("COPY");
    let copied = copies
        .iter()
        .any(|copy| copy.contains("--from=build") && copy.ends_with(binary));
    ensure!(copied, "{binary} is not in {copies:?}");
    Ok(())
}

#[test]
fn the_image_runs_the_commands_of_the_image_that_it_replaces() -> Result<()> {
    let instructions = instructions()?;
    let linking = instructions.iter().find_map(|(name, rest)| {
        (name == "RUN").then(|| rest.strip_prefix("mkdir /hyperfed && "))?
    });
    let linking = linking.context("no links")?;
    let copied = |(name, rest): &(String, String)| {
        name == "COPY" && rest == "--from=build /hyperfed /hyperfed"
    };
    ensure!(instructions.iter().any(copied), "the links are not copied");
    // The command, in a directory in place of the image's root.
    let root = tempfile::tempdir()?;
    let directory = root.path().join("hyperfed");
    std::fs::create_dir(&directory)?;
    let binary = env!("CARGO_BIN_EXE_hawser");
    let linking = linking
        .replace("/usr/local/bin/hawser", binary)
        .replace("/hyperfed/", &format!("{}/", directory.display()));
    let shell = Command::new("/bin/sh").args(["-ec", &linking]).status()?;
    ensure!(shell.success(), "{linking}");
    for (command, wanted) in [
        (vec!["controller-manager", "--help"], "--kubefed-namespace"),
        (
            vec!["hyperfed", "controller-manager", "--help"],
            "--kubefed-namespace",
        ),
        (vec!["kubefedctl", "join", "--help"], "--host-cluster-name"),
        (vec!["webhook", "--help"], "--cert-dir"),
        (
            vec!["hyperfed", "webhook", "--v=8", "--help"],
            "--secure-port",
        ),
    ] {
        let output = Command::new(directory.join(command[0]))
            .args(&command[1..])
            .output()?;
        let said = String::from_utf8(output.stdout)?;
        ensure!(said.contains(wanted), "{command:?}: {said}");
    }
    Ok(())
}

/// The context of the build: the files that `.dockerignore` lets through.
fn context(place: &Path) -> Result<()> {
    let text = std::fs::read_to_string(repository().join(".dockerignore"))?;
    ensure!(
        text.lines().any(|line| line == "*"),
        "not a list of exceptions"
    );
    for file in text.lines().filter_map(|line| line.strip_prefix('!')) {
        let (from, to) = (repository().join(file), place.join(file));
        ensure!(
            from.exists(),
            ".dockerignore names {file}, which is not there"
        );
        std::fs::create_dir_all(to.parent().context("no directory")?)?;
        symlink(from, to)?;
    }
    Ok(())
}

/// The crates that a selection of package and features compiles.
fn crates_of(place: &Path, selection: &[&str]) -> Result<BTreeSet<String>> {
    let output = Command::new("cargo")
        .args([
            "tree",
            "--locked",
            "--offline",
            "--prefix=none",
            "--edges=normal",
        ])
        .args(selection)
        .current_dir(place)
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{said}");
    let tree = String::from_utf8(output.stdout)?;
    let names = tree.lines().filter_map(|line| line.split(' ').next());
    Ok(names.map(str::to_owned).collect())
}

/// The crates that the build command compiles, in a place with nothing but the context.
#[test]
fn the_build_command_of_the_image_finds_its_sources_and_leaves_the_playground_out() -> Result<()> {
    let place = tempfile::tempdir()?;
    context(place.path())?;
    let command = build_command()?;
    let mut features = command.iter().skip(2).filter(|word| {
        let of_build = ["--profile", "dist", "--bin", "--locked"];
        !of_build.contains(&word.as_str())
    });
    let mut args = Vec::new();
    let mut named = 0;
    while let Some(word) = features.next() {
        match word.as_str() {
            "--package" => {
                args.extend(["--package", features.next().context("no package")?.as_str()]);
            }
            "--no-default-features" => args.push(word),
            "--features" => args.extend([
                "--features",
                features.next().context("no features")?.as_str(),
            ]),
            // The name of the binary.
            "hawser" => named += 1,
            other => anyhow::bail!("{other} is not known to this test"),
        }
    }
    assert_eq!(named, 1, "{command:?}");
    // The SBOM is that of the same features.
    let sbom = std::fs::read_to_string(place.path().join("hack/sbom"))?;
    let selected = format!("default-features = false, features = [\"{}\"]", args[4]);
    ensure!(
        args[3] == "--features" && sbom.contains(&selected),
        "{args:?}"
    );
    let crates = crates_of(place.path(), &args)?;
    ensure!(
        crates.contains("hawser-sync") && crates.contains("ring"),
        "{crates:?}"
    );
    for left_out in [
        "kcp-playground",
        "testbed",
        "fuzz",
        "openssl-sys",
        "aws-lc-sys",
    ] {
        ensure!(!crates.contains(left_out), "{left_out} is in the image");
    }
    let least = crates_of(
        place.path(),
        &["--package", "hawser", "--no-default-features"],
    )?;
    for left_out in ["kcp-playground", "rcgen"] {
        ensure!(!least.contains(left_out), "{left_out} is in every build");
    }

    // What the sources include while they are compiled is in the context.
    let manifest: serde_json::Value = {
        let output = Command::new("cargo")
            .args([
                "metadata",
                "--no-deps",
                "--locked",
                "--offline",
                "--format-version=1",
            ])
            .current_dir(place.path())
            .output()?;
        ensure!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        serde_json::from_slice(&output.stdout)?
    };
    let packages = manifest["packages"].as_array().context("no packages")?;
    let targets = packages.iter().filter_map(|one| one["targets"].as_array());
    for source in targets.flatten().filter_map(|one| one["src_path"].as_str()) {
        ensure!(Path::new(source).exists(), "{source} is not in the context");
    }
    Ok(())
}
