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
mod measures;
mod plane;
mod report;
mod sightings;
mod world;

use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context as _, Result, bail};

use measures::Sizes;
use report::Report;
use world::{Contender, Service, World};

struct Options {
    agent: PathBuf,
    service: Service,
    rounds: usize,
    speed: bool,
    size: bool,
    floor: bool,
    sizes: Sizes,
}

fn options(args: &[String]) -> Result<Options> {
    let mut options = Options {
        agent: PathBuf::from(env!("CARGO_BIN_EXE_hawser")),
        service: Service::Real,
        rounds: 1,
        speed: true,
        size: true,
        floor: true,
        sizes: Sizes {
            objects: 1000,
            many: 10_000,
            teams: 100,
        },
    };
    for arg in args {
        match arg.split_once('=').unwrap_or((arg, "")) {
            // Cargo says that it benchmarks.
            ("--bench", _) => {}
            ("--service", "real") => options.service = Service::Real,
            ("--service", "playground") => options.service = Service::Playground,
            ("--rounds", count) => options.rounds = count.parse().context("--rounds")?,
            ("--only", "speed") => options.size = false,
            ("--only", "size") => options.speed = false,
            ("--no-floor", _) => options.floor = false,
            ("--objects", count) => options.sizes.objects = count.parse().context("--objects")?,
            ("--many", count) => options.sizes.many = count.parse().context("--many")?,
            (path, "") if !path.starts_with("--") => {
                options.agent =
                    fs::canonicalize(path).with_context(|| format!("the agent {path}"))?;
            }
            _ => bail!("{arg} is not known; hack/bench --help lists what is"),
        }
    }
    Ok(options)
}

fn load() -> String {
    fs::read_to_string("/proc/loadavg").unwrap_or_default()
}

fn machine(agent: &Path) -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let processors = info.lines().filter(|line| line.starts_with("processor"));
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    format!(
        "agent {}; {} × {}",
        agent.file_name().unwrap_or_default().to_string_lossy(),
        processors.count(),
        model.unwrap_or("?").trim_start_matches(['\t', ' ', ':'])
    )
}

async fn run(contender: &Contender, options: &Options, report: &mut Report) -> Result<()> {
    let sizes = options.sizes;
    let setup = Contender::Agent(options.agent.clone());
    if options.speed {
        let world = World::make(options.service, &setup, sizes.teams + 1).await?;
        measures::speed(&world, contender, sizes, report).await?;
        world.end().await;
    }
    if options.size {
        let world = World::make(options.service, &setup, sizes.teams).await?;
        measures::size(&world, contender, sizes, report).await?;
        world.end().await;
    }
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
    println!("{}", machine(&options.agent));
    let (mut agents, mut floors) = (Vec::new(), Vec::new());
    let agent = Contender::Agent(options.agent.clone());
    let mut order = Vec::new();
    for _ in 0..options.rounds {
        order.extend([&agent, &Contender::Floor, &Contender::Floor, &agent]);
    }
    order.retain(|contender| options.floor || **contender != Contender::Floor);
    for contender in order {
        println!("{contender:?}, load {}", load().trim());
        let mut report = Report::default();
        run(contender, &options, &mut report).await?;
        match contender {
            Contender::Agent(_) => agents.push(report),
            Contender::Floor => floors.push(report),
        }
    }
    println!("\n{}", report::table(&agents, &floors));
    Ok(())
}
