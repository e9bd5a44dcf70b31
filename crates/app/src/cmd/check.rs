//! `millstream check FILE`: all problems of a definition, without a server.

use anyhow::{Result, bail};
use millstream_workflow::definition_parser;
use millstream_workflow::machine::Machine;
use serde_json::json;

use crate::cli::CheckArgs;
use crate::failure::{CommandFailure, ExitCode};
use crate::output::CliOutput;
use crate::user_input;

pub(crate) fn run(args: &CheckArgs, output: CliOutput) -> Result<()> {
    let (text, format) = user_input::read_definition(&args.file)?;
    let outcome = definition_parser::parse(&text, format).and_then(Machine::compile);
    match outcome {
        Ok(machine) => {
            let definition = machine.definition();
            let value =
                json!({ "name": definition.name(), "checksum": definition.checksum(), "problems": [] });
            output.show(&value, |_| format!("{} is valid", definition.name()))
        }
        Err(problems) => {
            let value = json!({ "problems": problems.0 });
            if output == CliOutput::Json {
                output.show(&value, |_| String::new())?;
            }
            let count = problems.0.len();
            let lines: Vec<_> = problems.0.iter().map(|problem| format!("  {problem}")).collect();
            let noun = if count == 1 { "problem" } else { "problems" };
            bail!(CommandFailure::new(
                ExitCode::Invalid,
                format!("{}: {count} {noun}\n{}", args.file.display(), lines.join("\n"))
            ));
        }
    }
}
