//! `millstream why KEY`: explains why an action is not performed. An argument without a slash is a run.

use anyhow::Result;
use millstream_sdk::Client;
use millstream_sdk::client::TaskWhy;

use super::why_run;
use crate::cli::WhyArgs;
use crate::output::{CliOutput, format_fields, format_table};

pub(crate) async fn run(args: &WhyArgs, client: &Client, output: CliOutput) -> Result<()> {
    // Keys of actions contain a slash; ids of runs do not.
    if !args.key.contains('/') {
        return why_run::run(&args.key, client, output).await;
    }
    output.show(&client.why(&args.key).await?, explanation_text)
}

fn explanation_text(answer: &TaskWhy) -> String {
    let head = format_fields(answer, &["key", "status", "attempts", "reason"]);
    if answer.connected.is_empty() {
        return head;
    }
    let external = answer.connected.iter().any(|worker| !worker.types.is_empty());
    let mut columns = vec![("worker", "worker")];
    if external {
        columns.extend([("types", "types"), ("labels", "labels")]);
    } else {
        columns.push(("functions", "functions"));
    }
    columns.extend([("seen", "seen_at"), ("cannot, because it", "missing")]);
    format!("{head}\n\n{}", format_table(&answer.connected, &columns))
}
