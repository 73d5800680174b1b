//! The `hawser` binary: parse, dispatch, exit code. Everything else is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    hawser::run(std::env::args_os())
}
