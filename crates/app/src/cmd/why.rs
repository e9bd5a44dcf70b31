//! `millstream why KEY`: explains why an action is not performed. An argument without a slash is a run.

use anyhow::Result;
use serde_json::Value;

use super::why_run;
use crate::cli::WhyArgs;
use crate::client::{ApiClient, path_segment};
use crate::output::{CliOutput, format_fields, format_table};

pub(crate) async fn run(args: &WhyArgs, client: &ApiClient, output: CliOutput) -> Result<()> {
    // Keys of actions contain a slash; ids of runs do not.
    if !args.key.contains('/') {
        return why_run::run(&args.key, client, output).await;
    }
    let answer = client.get(&format!("/v1/tasks/{}/why", path_segment(&args.key))).await?;
    output.show(&answer, explanation_text)
}

fn explanation_text(answer: &Value) -> String {
    let head = format_fields(answer, &["key", "status", "attempts", "reason"]);
    let Some(connected @ [_, ..]) = answer["connected"].as_array().map(Vec::as_slice) else { return head };
    let external =
        connected.iter().any(|worker| worker["types"].as_array().is_some_and(|all| !all.is_empty()));
    let mut columns = vec![("worker", "worker")];
    if external {
        columns.extend([("types", "types"), ("labels", "labels")]);
    } else {
        columns.push(("functions", "functions"));
    }
    columns.extend([("seen", "seen_at"), ("cannot, because it", "missing")]);
    format!("{head}\n\n{}", format_table(connected, &columns))
}
