//! The test command ends what it started, believes nobody who ran nothing, and finds its repository.
//!
//! It runs in a small repository of its own, with tools that are played by [`TOOL`].

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;
use testbed::process::Reason;
use testbed::{Launch, SOON, Signal, binaries, eventually};

/// All tools in one: it is called by the names of them. What `cargo test` does, `PLAY` says. What it
/// starts ends with the test process, whatever becomes of the test command.
const TOOL: &str = r#"#!/usr/bin/env bash
hang() {
    tail --pid="$TEST_PID" -f /dev/null &
    echo "$$ $!" >"$REPOSITORY/hanging.new"
    mv "$REPOSITORY/hanging.new" "$REPOSITORY/hanging"
    wait
}
case "$(basename "$0") $*" in
    "rustc --version") echo "rustc 99.0.0" ;;
    "go env GOVERSION") echo go99.0 ;;
    "go build "*)
        echo built >>"$REPOSITORY/builds"
        while [[ $1 != -o ]]; do shift; done
        for program in etcd kube-apiserver kube-controller-manager kubectl helm supervise; do
            install -D -m 755 /dev/null "$2$program"
        done
        [[ $PLAY != hang ]] || hang
        ;;
    "cargo test "*)
        echo "${*: -1}" >>"$REPOSITORY/tested"
        case $PLAY in
            pass) echo "test result: ok. 3 passed; 0 failed; 0 ignored" ;;
            nothing) echo "test result: ok. 0 passed; 0 failed; 0 ignored" ;;
            killed) kill -KILL $$ ;;
            fail)
                printf '%s\n' "failures:" "" "---- it_sails stdout ----" "it sank" "   7: a::frame" "             at frame.rs"
                seq -f "wave %g" 500
                printf '%s\n' "---- it_floats stdout ----" "it leaks" "failures:" "    it_sails" "    it_floats"
                echo "test result: FAILED. 1 passed; 2 failed; 0 ignored"
                exit 1
                ;;
            hang) hang ;;
            deaf)
                trap '' TERM
                hang
                ;;
        esac
        ;;
esac
"#;

/// A repository with nothing in it but the scripts.
struct Repository {
    dir: TempDir,
}

struct Ended {
    reason: Reason,
    said: String,
}

fn executable(path: &Path, content: &str) -> Result<()> {
    fs::create_dir_all(path.parent().context("it is in a directory")?)?;
    fs::write(path, content)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

// === impl Repository ===

impl Repository {
    fn new() -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let root = dir.path();
        for script in ["hack/test", "hack/parts", "hack/control-planes/build"] {
            let content = fs::read_to_string(binaries::repository().join(script))?;
            // What does not end by itself is killed sooner here.
            let content = content.replace("grace_seconds=20", "grace_seconds=1");
            executable(&root.join(script), &content)?;
        }
        executable(&root.join("testbed/judges/build"), "#!/bin/sh\n")?;
        fs::write(root.join("Cargo.toml"), "rust-version = \"1.95\"\n")?;
        fs::write(root.join("hack/control-planes/go.mod"), "go 1.26\n")?;
        for tool in ["cargo", "rustc", "go", "gofmt", "cc"] {
            executable(&root.join("tools").join(tool), TOOL)?;
        }
        Ok(Self { dir })
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn launch(&self, program: impl Into<PathBuf>, args: &[&str], play: &str) -> Result<Launch> {
        let path = std::env::var("PATH")?;
        Ok(Launch::new("test-command", program)
            .args(args)
            .dir(self.dir.path())
            .env("PATH", format!("{}:{path}", self.path("tools").display()))
            .env("REPOSITORY", self.dir.path())
            .env("TEST_PID", std::process::id().to_string())
            .env("PLAY", play))
    }

    async fn run(&self, program: &str, args: &[&str], play: &str) -> Result<Ended> {
        let launch = self.launch(self.path(program), args, play)?;
        let output = launch.run(self.dir.path(), SOON).await?;
        Ok(Ended {
            reason: output.exit.reason,
            said: output.stdout + &output.stderr,
        })
    }

    /// Sends a signal once the part is at work, and looks at what is left when the command has ended.
    async fn stopped(&self, part: &str, play: &str, signal: Signal) -> Result<Reason> {
        let log = self.path("said");
        let command = self
            .launch(self.path("hack/test"), &[part], play)?
            .log(&log)
            .spawn()?;
        let hanging = eventually(SOON, "the part is at work", async || {
            fs::read_to_string(self.path("hanging"))
        })
        .await;
        ensure!(hanging.split_whitespace().all(runs), "{hanging}");
        command.signal(signal)?;
        let exit = command.wait(SOON).await?;
        ensure!(!hanging.split_whitespace().any(runs), "{hanging}");
        let said = fs::read_to_string(log)?;
        ensure!(said.contains("stopped by a signal"), "{said}");
        Ok(exit.reason)
    }
}

/// Whether a process is there and no zombie that only waits for somebody to take note of its end.
fn runs(pid: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

#[tokio::test]
async fn a_signal_ends_all_work_and_is_the_status() -> Result<()> {
    for (signal, status) in [
        (Signal::HangUp, 129),
        (Signal::Interrupt, 130),
        (Signal::Terminate, 143),
    ] {
        let repository = Repository::new()?;
        let reason = repository.stopped("unit", "hang", signal).await?;
        ensure!(reason == Reason::Code(status), "{signal}: {reason:?}");
    }
    Ok(())
}

#[tokio::test]
async fn work_that_is_deaf_to_signals_is_killed() -> Result<()> {
    let repository = Repository::new()?;
    let reason = repository
        .stopped("unit", "deaf", Signal::Terminate)
        .await?;
    ensure!(reason == Reason::Code(143), "{reason:?}");
    Ok(())
}

#[tokio::test]
async fn a_signal_ends_the_build_of_the_control_planes_and_half_of_it_does_not_stay() -> Result<()>
{
    let repository = Repository::new()?;
    let reason = repository.stopped("go", "hang", Signal::Terminate).await?;
    ensure!(reason == Reason::Code(143), "{reason:?}");
    let left: Vec<_> = fs::read_dir(repository.path("target/control-planes"))?.collect();
    ensure!(left.is_empty(), "{left:?}");
    Ok(())
}

#[tokio::test]
async fn tests_that_did_not_run_are_a_failure() -> Result<()> {
    let repository = Repository::new()?;
    for (play, wanted) in [
        ("nothing", "no test was run"),
        ("silence", "no test was run"),
        ("killed", "killed (out of memory?)"),
    ] {
        for part in ["unit", "generated", "doc", "e2e"] {
            let ended = repository.run("hack/test", &[part], play).await?;
            ensure!(
                ended.reason == Reason::Code(1),
                "{play} {part}: {}",
                ended.said
            );
            ensure!(ended.said.contains(wanted), "{play} {part}: {}", ended.said);
            ensure!(
                ended.said.ends_with("0 passed, 1 failed\n"),
                "{}",
                ended.said
            );
        }
    }
    Ok(())
}

#[tokio::test]
async fn what_failed_tests_said_is_shown_whatever_else_they_logged() -> Result<()> {
    let repository = Repository::new()?;
    let ended = repository.run("hack/test", &["unit"], "fail").await?;
    ensure!(ended.reason == Reason::Code(1), "{}", ended.said);
    for shown in ["it sank\n", "wave 500\n", "it leaks\n", "    it_sails\n"] {
        ensure!(
            ended.said.matches(shown).count() == 1,
            "{shown}{}",
            ended.said
        );
    }
    ensure!(!ended.said.contains("frame"), "{}", ended.said);
    ensure!(!ended.said.contains("wave 100\n"), "{}", ended.said);
    ensure!(
        ended.said.ends_with("1 passed, 2 failed\n"),
        "{}",
        ended.said
    );
    Ok(())
}

#[tokio::test]
async fn the_repository_is_found_through_a_symlink_and_whatever_cdpath_says() -> Result<()> {
    let (repository, elsewhere) = (Repository::new()?, tempfile::tempdir()?);
    fs::create_dir_all(elsewhere.path().join("bin"))?;
    fs::create_dir_all(elsewhere.path().join("hack"))?;
    let link = elsewhere.path().join("bin/test");
    symlink(repository.path("hack/test"), &link)?;
    for (program, args) in [
        (link, &["unit"][..]),
        (PathBuf::from("bash"), &["hack/test", "unit"]),
    ] {
        let output = repository
            .launch(program, args, "pass")?
            .env("CDPATH", elsewhere.path())
            .run(repository.dir.path(), SOON)
            .await?;
        ensure!(output.stdout.contains("3 passed, 0 failed"), "{output:?}");
    }
    ensure!(!elsewhere.path().join("target").exists());
    Ok(())
}

#[tokio::test]
async fn nothing_is_made_where_there_is_no_repository() -> Result<()> {
    let repository = Repository::new()?;
    fs::remove_file(repository.path("Cargo.toml"))?;
    for script in ["hack/test", "hack/control-planes/build"] {
        let ended = repository.run(script, &[], "pass").await?;
        ensure!(ended.reason == Reason::Code(1), "{script}: {}", ended.said);
        ensure!(
            ended.said.contains("is not the repository"),
            "{}",
            ended.said
        );
    }
    ensure!(!repository.path("target").exists());
    Ok(())
}

#[tokio::test]
async fn misuse_is_told_from_failure_and_runs_nothing() -> Result<()> {
    let repository = Repository::new()?;
    for (args, wanted) in [
        (&["nonsense"][..], "there is no part 'nonsense'"),
        (&[""], "there is no part ''"),
        (&["fuzz"], "for how many minutes"),
        (&["fuzz", "0"], "for how many minutes"),
        (&["fuzz", "1", "extra"], "for how many minutes"),
        (&["help", "extra"], "'help' stands alone"),
        (&["advisories", "unit"], "'advisories' stands alone"),
        (&["unit", "fuzz"], "'fuzz' stands alone"),
    ] {
        let ended = repository.run("hack/test", args, "pass").await?;
        ensure!(ended.reason == Reason::Code(2), "{args:?}: {}", ended.said);
        ensure!(ended.said.contains(wanted), "{args:?}: {}", ended.said);
    }
    ensure!(!repository.path("tested").exists());
    Ok(())
}

#[tokio::test]
async fn a_part_that_is_named_twice_runs_once() -> Result<()> {
    let repository = Repository::new()?;
    let ended = repository
        .run("hack/test", &["doc", "unit", "doc"], "pass")
        .await?;
    ensure!(
        ended.said.ends_with("6 passed, 0 failed\n"),
        "{}",
        ended.said
    );
    ensure!(
        fs::read_to_string(repository.path("tested"))?
            .lines()
            .count()
            == 2
    );
    Ok(())
}

#[tokio::test]
async fn a_tool_that_does_not_start_is_named() -> Result<()> {
    for (tool, wanted) in [
        ("rustc", "rustc is missing or does not start"),
        ("go", "go does not start"),
    ] {
        let repository = Repository::new()?;
        executable(
            &repository.path("tools").join(tool),
            "#!/bin/sh\necho it is broken\nexit 1\n",
        )?;
        let ended = repository.run("hack/test", &["unit"], "pass").await?;
        ensure!(ended.reason == Reason::Code(1), "{tool}: {}", ended.said);
        ensure!(ended.said.contains(wanted), "{}", ended.said);
        ensure!(
            ended.said.contains("it said: it is broken"),
            "{}",
            ended.said
        );
    }
    Ok(())
}

#[tokio::test]
async fn control_planes_are_built_again_only_when_one_of_them_is_missing() -> Result<()> {
    let repository = Repository::new()?;
    let helm = repository.path("target/control-planes/current/helm");
    for (built, damaged) in [(1, false), (1, false), (2, true)] {
        if damaged {
            fs::remove_file(&helm)?;
        }
        let ended = repository
            .run("hack/control-planes/build", &[], "pass")
            .await?;
        ensure!(
            ended.reason == Reason::Code(0) && helm.exists(),
            "{}",
            ended.said
        );
        let builds = fs::read_to_string(repository.path("builds"))?;
        ensure!(builds.lines().count() == built, "{builds}");
    }
    Ok(())
}
