//! `millstream check FILE`: all problems of a definition, without a server.

use anyhow::{Result, bail};
use millstream_core::definition;
use millstream_core::machine::Machine;
use serde_json::json;

use crate::cli::CheckArgs;
use crate::failure::{ExitCode, Failure};
use crate::output::Output;
use crate::written;

pub(crate) fn run(args: &CheckArgs, output: Output) -> Result<()> {
    let (text, format) = written::definition(&args.file)?;
    let outcome = definition::parse(&text, format).and_then(Machine::compile);
    match outcome {
        Ok(machine) => {
            let definition = machine.definition();
            let value =
                json!({ "name": definition.name(), "checksum": definition.checksum(), "problems": [] });
            output.show(&value, |_| format!("{} is valid", definition.name()))
        }
        Err(problems) => {
            let value = json!({ "problems": problems.0 });
            if output == Output::Json {
                output.show(&value, |_| String::new())?;
            }
            let count = problems.0.len();
            let lines: Vec<_> = problems.0.iter().map(|problem| format!("  {problem}")).collect();
            let noun = if count == 1 { "problem" } else { "problems" };
            bail!(Failure::new(
                ExitCode::Invalid,
                format!("{}: {count} {noun}\n{}", args.file.display(), lines.join("\n"))
            ));
        }
    }
}
