//! `hawser top`: the overview of a running agent in a terminal.

use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use rustix::termios::tcgetwinsize;

use super::output::Output;
use hawser_runtime::overview::fetch::{FetchError, fetch};
use hawser_runtime::overview::site::PAGE_ADDRESS;
use hawser_runtime::overview::{Overview, terminal};

/// The size of the screen where there is none: a file or another program gets whole lines.
const USUAL: (usize, usize) = (1_000, 500);
/// Clear the screen; later frames are written over each other.
const BEGIN: &str = "\x1b[?1049h\x1b[?25l\x1b[2J";
const END: &str = "\x1b[?25h\x1b[?1049l";

/// Show what a running agent is doing: its kinds, and the objects that are out of sync.
///
/// Reads the agent's page. Forward its port if the agent runs in a Pod. Ctrl-C ends it.
#[derive(Debug, Args)]
#[allow(clippy::doc_markdown)] // These comments are the help.
#[command(after_help = "Examples:
  # Watch an agent in a Pod
  kubectl -n hawser port-forward deployment/hawser 8090 &
  hawser top

  # Print what is out of sync now, for a script
  hawser top -o json")]
pub(super) struct TopArgs {
    /// Address of the agent's page
    #[arg(long, value_name = "ADDRESS", default_value = PAGE_ADDRESS)]
    page: String,

    /// Print one screen and exit
    #[arg(long)]
    once: bool,

    /// Seconds between updates
    #[arg(long, value_name = "SECONDS", default_value_t = 2)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=3_600))]
    interval: u64,

    #[arg(short, long, value_enum, default_value_t = Output::Human)]
    output: Output,
}

#[derive(Debug, thiserror::Error)]
enum TopFailed {
    #[error(transparent)]
    Terminal(#[from] io::Error),
    #[error(
        "{0}. Forward the agent's port, for example: kubectl -n NAMESPACE port-forward deployment/NAME 8090"
    )]
    Page(#[from] FetchError),
}

pub(super) fn run(args: &TopArgs) -> ExitCode {
    let done = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(TopFailed::from)
        .and_then(|runtime| runtime.block_on(show(args)));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => super::output::fail(&failed),
    }
}

async fn show(args: &TopArgs) -> Result<(), TopFailed> {
    let first = read(args).await?;
    let mut out = io::stdout();
    if args.once || args.output != Output::Human || !out.is_terminal() {
        let text = args.output.show(
            || frame(&first).join("\n") + "\n",
            || serde_json::to_value(&first).unwrap_or_default(),
        );
        // A reader that is gone needs no answer.
        let _ = out.write_all(text.as_bytes());
        return Ok(());
    }
    write!(out, "{BEGIN}")?;
    let ended = tokio::select! {
        ended = follow(args, first) => ended,
        _ = tokio::signal::ctrl_c() => Ok(()),
    };
    write!(out, "{END}")?;
    out.flush()?;
    Ok(ended?)
}

async fn read(args: &TopArgs) -> Result<Overview, FetchError> {
    fetch(&args.page, "/overview.json").await
}

/// Draws until the terminal is gone.
async fn follow(args: &TopArgs, first: Overview) -> io::Result<()> {
    let mut lines = frame(&first);
    loop {
        let mut out = io::stdout().lock();
        write!(out, "\x1b[H{}\x1b[K\x1b[J", lines.join("\x1b[K\r\n"))?;
        out.flush()?;
        drop(out);
        tokio::time::sleep(Duration::from_secs(args.interval)).await;
        match read(args).await {
            Ok(overview) => lines = frame(&overview),
            // What was seen last stays, with the problem in front of it.
            Err(error) => {
                let (width, _) = size();
                let problem = terminal::fit(&error.to_string(), width);
                lines
                    .first_mut()
                    .into_iter()
                    .for_each(|line| line.clone_from(&problem));
            }
        }
    }
}

fn frame(overview: &Overview) -> Vec<String> {
    let (width, height) = size();
    terminal::lines(overview, width, height)
}

/// Columns and rows of the terminal.
fn size() -> (usize, usize) {
    match tcgetwinsize(io::stdout()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
        _ => USUAL,
    }
}
