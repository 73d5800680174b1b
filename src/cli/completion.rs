//! `hawser completion`: completion in a shell.

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::{Shell, generate};

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

pub(super) fn run(args: &CompletionArgs, command: &Command) -> ExitCode {
    let mut script = Vec::new();
    write_script(args.shell, command, &mut script);
    // A reader that is gone needs no answer.
    let _ = io::stdout().write_all(&script);
    ExitCode::SUCCESS
}

fn write_script(shell: Shell, command: &Command, script: &mut Vec<u8>) {
    let mut command = shown(command).version(env!("CARGO_PKG_VERSION"));
    generate(shell, &mut command, "hawser", script);
}

/// The command without what its help hides: the generator offers all flags.
fn shown(command: &Command) -> Command {
    let args = command.get_arguments().filter(|arg| !arg.is_hide_set());
    let commands = command.get_subcommands().filter(|one| !one.is_hide_set());
    // A command has a static name. This process writes one script and ends.
    let name: &'static str = command.get_name().to_owned().leak();
    let about = command.get_about().cloned().unwrap_or_default();
    Command::new(name)
        .about(about)
        .args(args.cloned())
        .subcommands(commands.map(shown))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::{CommandFactory as _, ValueEnum as _};

    use super::super::Cli;
    use super::*;

    /// The flags of a command and of its subcommands, hidden or not.
    fn flags(command: &Command, are_hidden: bool, all: &mut BTreeSet<String>) {
        let args = command.get_arguments();
        let args = args.filter(|arg| arg.is_hide_set() == are_hidden);
        all.extend(args.filter_map(|arg| arg.get_long().map(str::to_owned)));
        let commands = command.get_subcommands();
        commands.for_each(|one| flags(one, are_hidden, all));
    }

    #[test]
    fn no_script_offers_a_hidden_flag() {
        let (mut hidden, mut visible) = (BTreeSet::new(), BTreeSet::new());
        flags(&Cli::command(), true, &mut hidden);
        flags(&Cli::command(), false, &mut visible);
        for shell in Shell::value_variants() {
            let mut script = Vec::new();
            write_script(*shell, &Cli::command(), &mut script);
            let script = String::from_utf8(script).unwrap();
            // In fish, a flag is written without dashes, after -l.
            let script = script.replace("-l ", "--");
            let words: BTreeSet<_> = script
                .split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))
                .filter_map(|word| word.strip_prefix("--"))
                .collect();
            assert!(words.contains("published-resource-selector"), "{shell}");
            assert!(hidden.contains("ignored-flag"));
            for flag in hidden.difference(&visible) {
                assert!(!words.contains(&**flag), "{shell}: {flag}");
            }
        }
    }
}
