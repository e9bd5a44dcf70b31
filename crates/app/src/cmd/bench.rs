//! `millstream bench`: starts `millstream-bench` in place of this process. What it measures, and how, is in that
//! program alone.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, anyhow};
use clap::CommandFactory;

use crate::cli::{BenchStartArgs, Cli, GlobalArgs};
use crate::failure::{CommandFailure, ExitCode};
use crate::output::print_line;

const PROGRAM: &str = "millstream-bench";
/// How `millstream-bench` calls itself in its help.
const SHOWN_AS: &str = "millstream bench";

/// Returns only without the program, or when it cannot be started.
pub(crate) fn start(args: &BenchStartArgs, global: &GlobalArgs) -> Result<()> {
    let own = std::env::current_exe().context("cannot tell which program this is")?;
    let arguments = args.passed_arguments(global, &own);
    let beside = own.with_file_name(PROGRAM);
    // A name without a directory is looked up in `PATH`.
    for program in [beside.as_os_str(), OsStr::new(PROGRAM)] {
        let error = Command::new(program).arg0(SHOWN_AS).args(&arguments).exec();
        if error.kind() != ErrorKind::NotFound {
            return Err(error).with_context(|| format!("cannot start {}", Path::new(program).display()));
        }
    }
    let missing = format!(
        "`millstream bench` needs the program {PROGRAM}, which is missing: it is neither {} nor in PATH. \
         `cargo build --release -p {PROGRAM}` builds it; put it beside this program",
        beside.display()
    );
    if args.asks_for_help() {
        return print_line(&format!("{}\n{missing}", short_help()));
    }
    Err(anyhow!(CommandFailure::new(ExitCode::Refused, missing)))
}

fn short_help() -> String {
    let mut cli = Cli::command();
    cli.build();
    cli.find_subcommand_mut("bench").map(|bench| bench.render_help().to_string()).unwrap_or_default()
}
