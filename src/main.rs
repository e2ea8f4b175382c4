//! Entry point of the `barrage` program: parse, run, turn the outcome into an exit code.

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match barrage::cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // A closed pipe behind `--help | head` is no failure.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    match cli.run() {
        Ok(code) => code,
        Err(error) if barrage::cli::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            barrage::cli::report(&error);
            ExitCode::FAILURE
        }
    }
}
