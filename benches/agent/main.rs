//! An agent beside the floor: `hack/bench [AGENT]` says how to run it, docs/benchmarks.md what it found.
//!
//! Each run has control planes of its own. Agent and floor take turns, A-B-B-A in each round; the
//! load, the playground and the watchers that take the times are in this process.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::cast_precision_loss,
    reason = "what a benchmark finds is for its terminal, and its counts are small"
)]

mod floor;
mod growth;
mod measures;
mod plane;
mod report;
mod sightings;
mod world;

use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context as _, Result, bail, ensure};
use jiff::Timestamp;

use measures::Sizes;
use report::{Column, Report};
use world::{Contender, Service, World};

struct Options {
    /// Hawser, and whatever else is measured.
    agents: Vec<PathBuf>,
    service: Service,
    rounds: usize,
    parts: Vec<Part>,
    floor: bool,
    sizes: Sizes,
    /// Where the result replaces the last one.
    page: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Speed,
    Size,
    Growth,
    Replicas,
}

const PARTS: [(&str, Part); 4] = [
    ("speed", Part::Speed),
    ("size", Part::Size),
    ("growth", Part::Growth),
    ("replicas", Part::Replicas),
];
/// Lines of a page between which the result stands.
const MARKERS: [&str; 2] = ["<!-- hack/bench begins -->", "<!-- hack/bench ends -->"];

fn options(args: &[String]) -> Result<Options> {
    let mut options = Options {
        agents: vec![PathBuf::from(env!("CARGO_BIN_EXE_hawser"))],
        service: Service::Real,
        rounds: 1,
        parts: PARTS.map(|(_, part)| part).to_vec(),
        floor: true,
        sizes: Sizes {
            objects: 1000,
            many: 10_000,
            teams: 100,
        },
        page: None,
    };
    for arg in args {
        match arg.split_once('=').unwrap_or((arg, "")) {
            // Cargo says that it benchmarks.
            ("--bench", _) => {}
            ("--service", "real") => options.service = Service::Real,
            ("--service", "playground") => options.service = Service::Playground,
            ("--rounds", count) => options.rounds = count.parse().context("--rounds")?,
            ("--only", only) => {
                let names: Vec<&str> = only.split(',').collect();
                let wanted = PARTS.into_iter().filter(|(name, _)| names.contains(name));
                options.parts = wanted.map(|(_, part)| part).collect();
                ensure!(
                    options.parts.len() == names.len(),
                    "--only={only}: there are speed, size, growth and replicas, each once"
                );
            }
            ("--no-floor", _) => options.floor = false,
            ("--objects", count) => options.sizes.objects = count.parse().context("--objects")?,
            ("--many", count) => options.sizes.many = count.parse().context("--many")?,
            ("--write", page) => options.page = Some(PathBuf::from(page)),
            (path, "") if !path.starts_with("--") => {
                let agent = fs::canonicalize(path).with_context(|| format!("the agent {path}"))?;
                options.agents.push(agent);
            }
            _ => bail!("{arg} is not known; hack/bench --help lists what is"),
        }
    }
    Ok(options)
}

fn load() -> String {
    fs::read_to_string("/proc/loadavg").unwrap_or_default()
}

fn machine() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let processors = info.lines().filter(|line| line.starts_with("processor"));
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    format!(
        "{} × {}",
        processors.count(),
        model.unwrap_or("?").trim_start_matches(['\t', ' ', ':'])
    )
}

/// One run of a contender; growth and replicas are measured in its first one only.
async fn run(
    contender: &Contender,
    options: &Options,
    is_first: bool,
    report: &mut Report,
) -> Result<()> {
    let (sizes, service) = (options.sizes, options.service);
    let setup = Contender::Agent(options.agents[0].clone());
    for part in &options.parts {
        match part {
            Part::Speed => {
                let world = World::make(service, &setup, sizes.teams + 1).await?;
                measures::speed(&world, contender, sizes, report).await?;
                world.end().await;
            }
            Part::Size => {
                let world = World::make(service, &setup, sizes.teams).await?;
                measures::size(&world, contender, sizes, report).await?;
                world.end().await;
            }
            Part::Growth if is_first => {
                let objects = [100, 10, 1].map(|part| sizes.many / part);
                let objects = [&objects[..], &[sizes.many * 10]].concat();
                let world = World::make(service, &setup, sizes.teams).await?;
                growth::objects(&world, contender, &objects, report).await?;
                world.end().await;
                let teams = [
                    sizes.teams / 100,
                    sizes.teams / 10,
                    sizes.teams,
                    sizes.teams * 10,
                ];
                growth::workspaces(service, contender, &setup, &teams, sizes.objects, report)
                    .await?;
            }
            Part::Replicas if is_first && matches!(contender, Contender::Agent(_)) => {
                let world = World::make(service, &setup, sizes.teams).await?;
                growth::replicas(&world, contender, sizes, report).await?;
                world.end().await;
            }
            Part::Growth | Part::Replicas => {}
        }
    }
    Ok(())
}

/// The arguments that decide about the result.
fn said(args: &[String]) -> String {
    let decides = |arg: &&str| *arg != "--bench" && !arg.starts_with("--write");
    let said: Vec<&str> = args.iter().map(String::as_str).filter(decides).collect();
    said.join(" ")
}

/// Replaces what stands between the markers of a page.
fn write(page: &Path, result: &str) -> Result<()> {
    let text = fs::read_to_string(page).with_context(|| format!("reading {}", page.display()))?;
    let [begin, end] = MARKERS;
    let found = text
        .split_once(begin)
        .and_then(|(before, rest)| Some((before, rest.split_once(end)?.1)));
    let (before, after) =
        found.with_context(|| format!("{} lacks the lines {begin} and {end}", page.display()))?;
    fs::write(page, format!("{before}{begin}\n{result}{end}{after}"))?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let args: Vec<String> = env::args().skip(1).collect();
    if let Some((floor::WORD, rest)) = args.split_first().map(|(word, rest)| (word.as_str(), rest))
    {
        return floor::run(rest).await;
    }
    let options = options(&args)?;
    let mut contenders: Vec<Contender> = options
        .agents
        .iter()
        .cloned()
        .map(Contender::Agent)
        .collect();
    if options.floor {
        contenders.push(Contender::Floor);
    }
    let mut columns: Vec<Column> = contenders
        .iter()
        .map(|contender| Column {
            name: contender.name(),
            reports: Vec::new(),
        })
        .collect();
    let order: Vec<usize> = (0..contenders.len())
        .chain((0..contenders.len()).rev())
        .collect();
    for at in order.repeat(options.rounds) {
        let (contender, column) = (&contenders[at], &mut columns[at]);
        println!("{}, load {}", column.name, load().trim());
        let mut report = Report::default();
        run(contender, &options, column.reports.is_empty(), &mut report).await?;
        column.reports.push(report);
    }
    let result = format!(
        "\n{}, {}, service cluster: {}, `hack/bench {}`\n\n{}{}\n",
        Timestamp::now().strftime("%Y-%m-%d"),
        machine(),
        options.service.name(),
        said(&args),
        report::table(&columns),
        report::plots(&columns),
    );
    println!("{result}");
    if let Some(page) = &options.page {
        write(page, &result)?;
    }
    Ok(())
}
