//! `millstream graph create FILE`: creates a graph and, with `--wait`, waits for its end.

use anyhow::{Result, bail};
use millstream_sdk::Client;
use millstream_sdk::client::{GraphStatus, GraphSummary};
use millstream_workflow::graph::read_graph;

use super::check::problems_failure;
use super::summary;
use crate::cli::GraphCreateArgs;
use crate::failure::{CommandFailure, ExitCode};
use crate::output::{CliOutput, json_fields};
use crate::user_input;

pub(super) async fn run(args: &GraphCreateArgs, client: &Client, output: CliOutput) -> Result<()> {
    let (text, format) = user_input::read_definition(&args.file)?;
    let graph = read_graph(&text, format).map_err(|problems| problems_failure(&args.file, &problems))?;
    let mut creating = client.create_graph(graph);
    if let Some(id) = &args.id {
        creating = creating.id(id);
    }
    let created = creating.await?;
    if !args.wait {
        return output.show(&created, outcome_line);
    }
    if output == CliOutput::Text {
        output.show(&created, outcome_line)?;
    }
    let mut events = client.watch_graph(&created.graph_id);
    while events.next().await.transpose()?.is_some() {}
    let ended = client.get_graph(&created.graph_id).await?;
    let outcome = summary::outcome_summary(&json_fields(&ended));
    output.show(&ended, |_| outcome.clone())?;
    // The exit code of a script that waited tells the outcome.
    if ended.status != GraphStatus::Passed {
        bail!(CommandFailure::new(ExitCode::Refused, outcome));
    }
    Ok(())
}

fn outcome_line(graph: &GraphSummary) -> String {
    format!("{} is {}", graph.graph_id, graph.status)
}
