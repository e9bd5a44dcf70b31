//! `millstream completions SHELL`.

use anyhow::Result;
use clap::CommandFactory;

use crate::cli::{Cli, CompletionsArgs};
use crate::output::print_line;

pub(crate) fn run(args: &CompletionsArgs) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "millstream", &mut script);
    print_line(String::from_utf8_lossy(&script).trim_end())
}
