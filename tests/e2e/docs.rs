//! What the docs show is true: manifests in them are checked, links lead somewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use http::Request;
use kcp_playground::Playground;
use serde_json::Value;
use testbed::binaries::{self, repository};
use testbed::{Launch, SOON, ServiceCluster};

use crate::workspaces::{self, create};

/// The pages for users.
fn pages() -> Result<Vec<PathBuf>> {
    let root = repository();
    let mut found = vec![root.join("README.md"), root.join("ARCHITECTURE.md")];
    for dir in [
        "docs",
        "examples/crontabs",
        "examples/databases",
        "examples/credentials",
        "examples/robots",
        "examples/federation",
        "examples/placement",
    ] {
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

/// Whether a process exports the metrics that a page of the docs names and no other, beside those of every process.
/// The ones that tell of `rare` things only may be missing.
pub(crate) fn check_metrics(exported: &str, page: &str, rare: &[&str]) -> Result<()> {
    let text = std::fs::read_to_string(repository().join("docs").join(page))?;
    let rows = text
        .lines()
        .skip_while(|line| !line.starts_with("| metric |"))
        .take_while(|line| line.starts_with('|'));
    let documented: BTreeSet<&str> = rows
        .filter_map(|row| row.split('|').nth(1))
        .flat_map(quoted)
        .filter(|name| !name.starts_with("process_"))
        .collect();
    ensure!(documented.len() > 10, "{documented:?}");
    let types = exported.lines().filter_map(|l| l.strip_prefix("# TYPE "));
    let exported: BTreeSet<&str> = types
        .filter_map(|line| line.split(' ').next())
        .filter(|name| !name.starts_with("process_") && *name != "target_info")
        .collect();
    let unknown: Vec<_> = exported.difference(&documented).collect();
    ensure!(unknown.is_empty(), "{page} does not have {unknown:?}");
    let mut missing: Vec<_> = documented.difference(&exported).collect();
    missing.retain(|name| !rare.contains(name));
    ensure!(
        missing.is_empty(),
        "{page} has {missing:?}, which are not exported"
    );
    Ok(())
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
    ensure!(checked > 0, "no manifest was found");
    Ok(())
}

/// kubectl before 1.33 takes input that begins with a brace for JSON.
#[test]
fn every_kubectl_reads_the_manifests_that_are_shown() -> Result<()> {
    let examples = std::fs::read_dir(repository().join("examples"))?
        .map(|directory| Ok(std::fs::read_dir(directory?.path())?.collect::<Result<Vec<_>, _>>()?))
        .collect::<Result<Vec<_>>>()?;
    let manifests = examples.iter().flatten().map(std::fs::DirEntry::path);
    let files = manifests.filter(|path| path.extension().is_some_and(|it| it == "yaml"));
    let mut begun = 0;
    for path in pages()?.into_iter().chain(files) {
        let text = std::fs::read_to_string(&path)?;
        let mut begins = path.extension().is_some_and(|it| it == "yaml");
        for line in text.lines().map(str::trim) {
            if begins && !line.starts_with('#') {
                ensure!(!line.starts_with('{'), "{}: {line}", path.display());
                begun += 1;
                begins = false;
            }
            let is_input = line.ends_with("<<EOF") || line.ends_with("<<END");
            begins |= line == "---" || line == "```yaml" || is_input;
        }
    }
    ensure!(begun > 25, "only {begun} documents were found");
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

/// The words of a text that are flags.
fn flags(text: &str) -> BTreeSet<&str> {
    text.split(|c: char| !(c.is_ascii_lowercase() || c == '-'))
        .filter(|word| word.starts_with("--") && !word.ends_with('-'))
        .collect()
}

#[test]
fn the_page_on_the_agent_has_its_flags_and_no_others() -> Result<()> {
    let help = |command: &[&str]| -> Result<String> {
        let output = Command::new(env!("CARGO_BIN_EXE_hawser"))
            .args(command)
            .arg("--help")
            .output()?;
        Ok(String::from_utf8(output.stdout)?)
    };
    let agent = help(&["agent"])?;
    let others = [help(&["orphans", "remove"])?, help(&["rbac"])?];
    let mut known = flags(&agent);
    known.remove("--help");
    let text = std::fs::read_to_string(repository().join("docs/agent.md"))?;
    let (_, table) = text.split_once("## Flags\n").context("no flags")?;
    let table: String = table
        .lines()
        .skip_while(|line| !line.starts_with('|'))
        .take_while(|line| line.starts_with('|'))
        .filter_map(|line| line.split('|').nth(1))
        .collect();
    assert_eq!(flags(&table), known);
    known.extend(others.iter().flat_map(|other| flags(other)));
    // Elsewhere, too, only what there is.
    for page in ["docs/agent.md", "docs/migration.md", "docs/publishing.md"] {
        let text = std::fs::read_to_string(repository().join(page))?;
        for flag in flags(&text) {
            let of_other_programs = [
                "--namespace",
                "--server-side",
                "--force-conflicts",
                "--output",
                "--values",
                "--set",
                "--overwrite",
                "--for",
            ];
            ensure!(
                known.contains(flag) || of_other_programs.contains(&flag),
                "{page}: {flag}"
            );
        }
    }
    Ok(())
}

/// What stands between backquotes in a cell of a table.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

#[test]
fn the_page_on_the_agent_has_its_metrics_and_their_labels() -> Result<()> {
    let source =
        std::fs::read_to_string(repository().join("crates/hawser-runtime/src/process/metrics.rs"))?;
    let (_, known) = source.split_once("\nmetrics! {\n").context("no metrics")?;
    let (known, _) = known.split_once("\n}\n").context("no end")?;
    let mut known: BTreeMap<&str, Vec<&str>> = known
        .lines()
        .filter(|line| line.contains(" = "))
        .map(|line| {
            let mut quoted = line.split('"').skip(1).step_by(2);
            (quoted.next().unwrap_or_default(), quoted.collect())
        })
        .collect();
    // Those beside this list: name, help, labels.
    let mut source = String::new();
    for file in [
        "src/publish/agent/numbers.rs",
        "crates/hawser-runtime/src/controller/telemetry.rs",
    ] {
        source += &std::fs::read_to_string(repository().join(file))?;
    }
    let made = ["gauge(\n", "Name::new(\n"];
    let made = made.iter().flat_map(|call| source.split(call).skip(1));
    let of_agent = made.map(|call| {
        let call = call.split(')').next().unwrap_or_default();
        let mut quoted = call.split('"').skip(1).step_by(2);
        let name = quoted.next().unwrap_or_default();
        (name, quoted.skip(1).collect())
    });
    known.extend(of_agent);
    let path = "crates/hawser-runtime/src/process/metrics/system.rs";
    let system = std::fs::read_to_string(repository().join(path))?;
    let of_system = system
        .split('"')
        .filter(|word| word.starts_with("process_"));
    known.extend(of_system.map(|name| (name, Vec::new())));
    let text = std::fs::read_to_string(repository().join("docs/agent.md"))?;
    let (_, table) = text.split_once("\n## Metrics\n").context("no metrics")?;
    let shown: BTreeMap<&str, Vec<&str>> = table
        .lines()
        .filter_map(|line| {
            let mut cells = line.split('|').skip(1);
            let names = quoted(cells.next()?);
            // Behind a label may stand its values.
            let labels = quoted(cells.next()?.split('(').next()?);
            Some(names.into_iter().map(move |name| (name, labels.clone())))
        })
        .flatten()
        .collect();
    assert_eq!(shown, known);
    Ok(())
}

#[test]
fn the_page_on_publishing_has_the_reasons_of_the_condition() -> Result<()> {
    let source = std::fs::read_to_string(repository().join("src/publish/ready.rs"))?;
    let text = std::fs::read_to_string(repository().join("docs/publishing.md"))?;
    let reasons = |text: &str, before: &str| -> BTreeSet<String> {
        let lines = text.lines().filter_map(|line| line.strip_prefix(before));
        let cells = lines.filter_map(|line| line.split('|').next());
        let words = cells.flat_map(quoted).map(str::to_owned);
        words
            .filter(|word| word.starts_with(char::is_uppercase))
            .collect()
    };
    let known = reasons(&source, "//! |");
    let (_, table) = text
        .split_once("\n| reason | meaning |\n")
        .context("no reasons")?;
    let (table, _) = table.split_once("\n\n").context("no end")?;
    assert_eq!(reasons(table, "|"), known);
    ensure!(known.len() > 10, "{known:?}");
    Ok(())
}

/// Runs the blocks of a shell as a reader would: what serves goes on beside the rest.
async fn follow(blocks: &[&str], place: &Path) -> Result<String> {
    let mut serving = Vec::new();
    let mut said = String::new();
    let kubectl = binaries::find("kubectl")?;
    let hawser = Path::new(env!("CARGO_BIN_EXE_hawser"));
    let programs: Vec<_> = [&kubectl, hawser]
        .iter()
        .filter_map(|program| program.parent())
        .collect();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(
        programs
            .into_iter()
            .map(Path::to_owned)
            .chain(std::env::split_paths(&path)),
    )?;
    for (number, block) in blocks.iter().enumerate() {
        let launch = |script: &str| {
            Launch::new("bash", "/bin/bash")
                .args(["-euo", "pipefail", "-c", script])
                .env("PATH", path.clone())
                .env("HOME", place)
                .dir(place)
        };
        if block.starts_with("hawser ") {
            let log = place.join(format!("{number}.log"));
            let process = launch(&format!("exec {block}")).log(log).spawn()?;
            if block.starts_with("hawser playground") {
                process.await_log(SOON, "ready: ").await?;
            }
            serving.push(process);
            continue;
        }
        let output = launch(block).run(place, SOON).await?;
        said.push_str(&output.stdout);
        let logs: Vec<_> = serving.iter().map(|process| process.log_tail(15)).collect();
        ensure!(
            output.exit.success(),
            "{block}\n{}{}\n{}",
            output.stdout,
            output.stderr,
            logs.join("\n")
        );
    }
    for process in serving.iter().rev() {
        let exit = process.stop(SOON).await?;
        ensure!(exit.success(), "{}: {exit:?}", process.name());
    }
    Ok(said)
}

#[tokio::test]
async fn one_machine_is_enough_for_the_commands_that_are_shown() -> Result<()> {
    let text = std::fs::read_to_string(repository().join("docs/getting-started.md"))?;
    let blocks = blocks(&text, "sh");
    ensure!(blocks.len() > 5, "only {} blocks", blocks.len());
    let place = tempfile::tempdir()?;
    for directory in ["crds", "examples"] {
        symlink(repository().join(directory), place.path().join(directory))?;
    }
    let said = follow(&blocks, place.path()).await?;
    let wanted = "url: postgres://orders.databases.example.org:5432";
    ensure!(said.contains(wanted), "{said}");
    Ok(())
}

fn documents(block: &str) -> Result<Vec<Value>> {
    block
        .split("\n---\n")
        .map(|document| serde_saphyr::from_str(document).with_context(|| document.to_owned()))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_installation_can_be_made_by_the_manifests_that_are_shown() -> Result<()> {
    let text = std::fs::read_to_string(repository().join("docs/getting-started.md"))?;
    let mut shown: Vec<_> = blocks(&text, "yaml")
        .into_iter()
        .map(documents)
        .collect::<Result<Vec<_>>>()?;
    let manifests = text.split("examples/databases/").skip(1);
    let manifests = manifests.filter_map(|rest| Some(rest.split_once(".yaml")?.0));
    for name in manifests.collect::<BTreeSet<_>>() {
        let file = repository().join(format!("examples/databases/{name}.yaml"));
        let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        shown.push(documents(&text)?);
    }
    let of_kind = |kind: &str| {
        let mut all = shown.iter().flatten();
        let found = all.find(|object| object["kind"] == kind);
        found.with_context(|| format!("no {kind} is shown"))
    };

    // In kcp.
    let playground = Playground::start().await?;
    let services = workspaces::make(&playground, "services").await?;
    create(&services, of_kind("APIExport")?).await?;
    let slices = "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices/databases.example.org";
    let get = Request::get(slices).body(Vec::new())?;
    let slice: Value = services.request(get).await?;
    assert_eq!(
        slice["spec"]["export"]["name"],
        of_kind("APIExportEndpointSlice")?["metadata"]["name"]
    );
    for kind in ["ClusterRole", "ClusterRoleBinding"] {
        create(&services, of_kind(kind)?).await?;
    }
    let consumer = workspaces::make(&playground, "consumer").await?;
    create(&consumer, of_kind("APIBinding")?).await?;
    playground.stop().await;

    // On the service cluster.
    let values = shown
        .iter()
        .flatten()
        .find(|block| block["kcpKubeconfig"].is_string())
        .context("no values are shown")?;
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("values.yaml");
    std::fs::write(&file, values.to_string())?;
    let (file, chart) = (
        file.display().to_string(),
        repository().join("charts/hawser"),
    );
    let (chart, admin) = (
        chart.display().to_string(),
        ServiceCluster::shared().await?.admin(),
    );
    let rendered = admin
        .helm(&["template", "hawser", &chart, "--values", &file])
        .await?;
    for wanted in [
        "--apiexportendpointslice-ref=databases.example.org",
        "resources: [\"postgresclusters/status\"]",
        "image: \"registry.example.org/hawser:",
    ] {
        ensure!(rendered.contains(wanted), "{wanted}: {rendered}");
    }
    Ok(())
}

/// Functions that are marked as tests, or are listed in a macro that makes tests of them.
fn tests_of(directory: &Path, found: &mut BTreeSet<String>) -> Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            tests_of(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path)?;
            let lines: Vec<&str> = text.lines().map(str::trim).collect();
            let marked = lines.iter().enumerate().filter_map(|(at, line)| {
                let before = lines[at.saturating_sub(4)..at].iter();
                let is_test = before
                    .rev()
                    .take_while(|one| one.starts_with(['#', '/', ')']) || one.contains("test"));
                let name = line.trim_start_matches("async ").strip_prefix("fn ")?;
                is_test
                    .into_iter()
                    .any(|one| one.starts_with("#[test") || one.starts_with("#[tokio::test"))
                    .then(|| name.split(['(', '<']).next().unwrap_or_default())
            });
            found.extend(marked.map(str::to_owned));
            let grounds = [
                "on_both_grounds!(",
                "on_our_ground!(",
                "on_the_playground!(",
            ];
            for list in grounds.iter().flat_map(|ground| text.split(ground).skip(1)) {
                let names = list.split(')').next().unwrap_or_default().split(',');
                found.extend(names.map(|name| name.trim().to_owned()));
            }
        }
    }
    Ok(())
}

/// Rows of the table of times by how they begin, and the lines of code that they tell of.
const TIMES: &[(&str, &[&str])] = &[
    (
        "connecting to a server",
        &["CONNECT_TIMEOUT: Duration = Duration::from_secs(10)"],
    ),
    (
        "a request |",
        &["REQUEST_TIMEOUT: Duration = Duration::from_secs(30)"],
    ),
    (
        "stopping",
        &[
            "DRAIN: Duration = Duration::from_secs(5)",
            "DRAIN: Duration = Duration::from_secs(3)",
            "RELEASE: Duration = Duration::from_millis(1500)",
        ],
    ),
    (
        "a kind that cannot be watched",
        &["UNWATCHED_AFTER: Duration = Duration::from_secs(10)"],
    ),
    (
        "a forbidden request",
        &["RIGHTS_AGAIN: Duration = Duration::from_secs(30)"],
    ),
    (
        "a refused object",
        &["REFUSED: Option<Duration> = Some(Duration::from_mins(1))"],
    ),
    (
        "a failed object",
        &[
            "FIRST: Duration = Duration::from_millis(50)",
            "LONGEST: Duration = Duration::from_mins(5)",
        ],
    ),
    (
        "orphans are counted",
        &[
            "INTERVAL: Duration = Duration::from_mins(10)",
            "AFTERWARDS: Duration = Duration::from_secs(5)",
        ],
    ),
    (
        "kubeconfigs and credentials",
        &["INTERVAL: Duration = Duration::from_secs(10)"],
    ),
];

/// Words of the section on leader election, and the lines of code that they tell of.
const LEASE: &[(&str, &str)] = &[
    ("after 15 seconds", "duration: Duration::from_secs(15)"),
    ("for ten seconds", "renew_deadline: Duration::from_secs(10)"),
    ("every two seconds", "retry: Duration::from_secs(2)"),
];

/// The text of all sources below a directory.
fn sources(directory: &Path, text: &mut String) -> Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            sources(&path, text)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&std::fs::read_to_string(&path)?);
        }
    }
    Ok(())
}

#[test]
fn the_page_on_the_agent_has_the_times_that_are_in_the_code() -> Result<()> {
    let root = repository();
    let mut code = String::new();
    for directory in ["src", "crates/hawser-runtime/src", "crates/hawser-sync/src"] {
        sources(&root.join(directory), &mut code)?;
    }
    let page = std::fs::read_to_string(root.join("docs/agent.md"))?;
    let (_, table) = page
        .split_once("\n| event | time |\n")
        .context("no table")?;
    let rows: Vec<&str> = table
        .lines()
        .skip(1)
        .map_while(|line| line.strip_prefix("| "))
        .collect();
    let mut wrong = Vec::new();
    for row in &rows {
        let told = TIMES.iter().find(|(begin, _)| row.starts_with(begin));
        let lines = told.map_or(&[][..], |(_, lines)| lines);
        if lines.is_empty() || !lines.iter().all(|line| code.contains(line)) {
            wrong.push(format!("{row}: {lines:?}"));
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    let (_, election) = page
        .split_once("\n## Leader election\n")
        .context("no section")?;
    let (election, _) = election.split_once("\n## ").context("no end")?;
    for (words, line) in LEASE {
        ensure!(election.contains(words) && code.contains(line), "{words}");
    }
    ensure!(
        rows.len() == TIMES.len(),
        "{} rows of {}",
        rows.len(),
        TIMES.len()
    );
    Ok(())
}

/// The paragraphs, lists and tables of a page below its first heading of the second order, without examples.
fn paragraphs(page: &str) -> Vec<&str> {
    let (_, body) = page.split_once("\n## ").unwrap_or_default();
    let blocks = body.split("\n\n").map(str::trim_end).skip(1);
    blocks
        .filter(|block| block.contains(' '))
        .filter(|block| !["#", "    ", "```"].iter().any(|it| block.starts_with(it)))
        .collect()
}

/// The items of lists of a page.
fn items(page: &str) -> Vec<&str> {
    let items = page.split("\n- ").skip(1);
    items.filter_map(|item| item.split("\n\n").next()).collect()
}

/// The sentences of a paragraph or an item, and of each item of a list; a table is one, which begins with its head.
fn sentences(block: &str) -> Vec<String> {
    if block.starts_with('|') {
        return vec![block.trim_start_matches("| ").to_owned()];
    }
    let items = block.trim_start_matches("- ").split("\n- ");
    items.flat_map(of_text).collect()
}

/// The sentences of a text.
fn of_text(text: &str) -> Vec<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let begins = |word: &&str| word.starts_with(|c: char| c.is_uppercase() || "`[".contains(c));
    let mut sentences = vec![String::new()];
    for (at, word) in words.iter().enumerate() {
        let ended = at > 0 && words[at - 1].trim_end_matches(')').ends_with('.') && begins(word);
        if ended {
            sentences.push(String::new());
        }
        if let Some(sentence) = sentences.last_mut() {
            if !sentence.is_empty() {
                sentence.push(' ');
            }
            sentence.push_str(word);
        }
    }
    sentences
}

#[test]
fn a_paragraph_is_read_sentence_by_sentence() {
    assert_eq!(
        sentences(
            "One of `a.b`, 3.5 times. `Two`\n  goes on ([page](c.md#d)). [Three](e.md): it ends."
        ),
        [
            "One of `a.b`, 3.5 times.",
            "`Two` goes on ([page](c.md#d)).",
            "[Three](e.md): it ends."
        ]
    );
    assert_eq!(
        sentences("- One: two. Three.\n- Four"),
        ["One: two.", "Three.", "Four"]
    );
    assert_eq!(sentences("| a | b |\n|---|---|\n| C. D | e |").len(), 1);
}

#[test]
fn every_sentence_of_a_promise_names_tests_that_hold_it() -> Result<()> {
    const NAMED: &str = "tests/data/guarantees.txt";
    let root = repository();
    let read = |file: &str| std::fs::read_to_string(root.join(file)).context(file.to_owned());
    let mut tests = BTreeSet::new();
    for directory in ["src", "crates", "tests/e2e"] {
        tests_of(&root.join(directory), &mut tests)?;
    }
    ensure!(tests.len() > 1_000, "{} tests", tests.len());
    let (guarantees, agent) = (read("docs/guarantees.md")?, read("docs/agent.md")?);
    let split =
        |blocks: Vec<&str>| -> Vec<String> { blocks.into_iter().flat_map(sentences).collect() };
    let mut promises = BTreeMap::from([
        ("docs/guarantees.md", split(items(&guarantees))),
        ("docs/agent.md", split(paragraphs(&agent))),
    ]);
    ensure!(promises.values().all(|all| all.len() > 50), "{promises:?}");
    let named = read(NAMED)?;
    let mut wrong = Vec::new();
    for part in named.split("\n## ").skip(1) {
        let (page, part) = part.split_once("\n\n").context("no page")?;
        let all = promises.get_mut(page).context(page.to_owned())?;
        // Beginnings of sentences, and whether tests were named for them.
        let mut held: (Vec<&str>, bool) = (Vec::new(), true);
        for line in part.lines().chain([""]) {
            if let Some(test) = line.strip_prefix("    ") {
                held.1 = true;
                if test != "(advice)" && !tests.contains(test) {
                    wrong.push(format!("there is no test {test}"));
                }
                continue;
            }
            if held.1 {
                held = (Vec::new(), line.is_empty());
            }
            if line.is_empty() {
                wrong.extend(
                    held.0
                        .iter()
                        .map(|words| format!("no test is named for: {words}")),
                );
                held = (Vec::new(), true);
                continue;
            }
            held.0.push(line);
            let before = all.len();
            all.retain(|sentence| !sentence.starts_with(line));
            if before != all.len() + 1 {
                wrong.push(format!(
                    "{} sentences of {page} begin with: {line}",
                    before - all.len()
                ));
            }
        }
    }
    let left = promises
        .iter()
        .flat_map(|(page, all)| all.iter().map(move |it| (page, it)));
    wrong.extend(
        left.map(|(page, sentence)| format!("{NAMED} has no tests for this of {page}: {sentence}")),
    );
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}
