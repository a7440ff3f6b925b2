//! The program: reads the command line, prepares the process, and hands over.

use std::process::ExitCode;

use clap::Parser;
use mcpfleet::args::{Cli, Command};
use mcpfleet::{commands, run};

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = match cli.command {
        Command::Crds => commands::crds::write(&mut std::io::stdout()).map_err(Into::into),
        Command::Up(options) => run::in_runtime(cli.log_format, run::local::up(options)),
        Command::Connect(options) => run::in_runtime(cli.log_format, run::local::connect(options)),
        Command::Run(options) => run::in_runtime(cli.log_format, run::replica::run(options)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
