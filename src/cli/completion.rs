//! `hawser completion`: completion in a shell.

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::{Args, CommandFactory as _};
use clap_complete::{Shell, generate};

use super::Cli;

/// Print a script that completes commands and flags in a shell.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  # Complete in this session of bash
  source <(hawser completion bash)

  # Complete in every session of zsh, or of fish
  hawser completion zsh > \"${fpath[1]}/_hawser\"
  hawser completion fish > ~/.config/fish/completions/hawser.fish")]
pub(super) struct CompletionArgs {
    /// Shell
    shell: Shell,
}

pub(super) fn run(args: &CompletionArgs) -> ExitCode {
    let mut script = Vec::new();
    generate(args.shell, &mut Cli::command(), "hawser", &mut script);
    // A reader that is gone needs no answer.
    let _ = io::stdout().write_all(&script);
    ExitCode::SUCCESS
}
