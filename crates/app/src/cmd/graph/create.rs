//! `millstream graph create FILE`: creates a graph and, with `--wait`, waits for its end.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use millstream_workflow::graph::read_graph;
use reqwest::Method;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::check::problems_failure;
use super::follow::follow_graph;
use super::{path, summary};
use crate::cli::GraphCreateArgs;
use crate::client::ApiClient;
use crate::failure::{CommandFailure, ExitCode};
use crate::output::{CliOutput, plain_text};
use crate::user_input;

pub(super) async fn run(args: &GraphCreateArgs, client: &ApiClient, output: CliOutput) -> Result<()> {
    let (text, format) = user_input::read_definition(&args.file)?;
    let graph = read_graph(&text, format).map_err(|problems| problems_failure(&args.file, &problems))?;
    let body = request_body(&to_raw_value(&graph)?, args.id.as_deref())?;
    let graph = client.send_for_json(client.request(Method::POST, "/v1/graphs").json(&body)).await?;
    if !args.wait {
        return output.show(&graph, outcome_line);
    }
    let id = plain_text(&graph["graph_id"]);
    if output == CliOutput::Text {
        output.show(&graph, outcome_line)?;
    }
    follow_graph(client, &path::graph_path(&id, "/watch"), None, |_| Ok(())).await?;
    let graph = client.get(&path::graph_path(&id, "")).await?;
    output.show(&graph, summary::outcome_summary)?;
    // The exit code of a script that waited tells the outcome.
    match graph["status"].as_str() {
        Some("PASSED") => Ok(()),
        Some(_) | None => bail!(CommandFailure::new(ExitCode::Refused, summary::outcome_summary(&graph))),
    }
}

fn outcome_line(graph: &Value) -> String {
    format!("{} is {}", plain_text(&graph["graph_id"]), plain_text(&graph["status"]))
}

/// Adds the id to the graph. Numbers are passed through unparsed.
fn request_body(graph: &RawValue, id: Option<&str>) -> Result<BTreeMap<String, Box<RawValue>>> {
    let mut body: BTreeMap<String, Box<RawValue>> = serde_json::from_str(graph.get())?;
    if let Some(id) = id {
        body.insert("graph_id".to_owned(), to_raw_value(id)?);
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use millstream_model::document::SourceFormat;

    use super::*;

    #[test]
    fn graph_body_keeps_numbers_and_gets_id() {
        let graph = read_graph(r#"{"name":"x","input":{"n":1.50},"nodes":[{"id":"a"}]}"#, SourceFormat::Json)
            .unwrap();
        let written =
            |id| serde_json::to_string(&request_body(&to_raw_value(&graph).unwrap(), id).unwrap()).unwrap();
        assert_eq!(
            written(Some("g-1")),
            r#"{"graph_id":"g-1","input":{"n":1.50},"name":"x","nodes":[{"id":"a"}]}"#
        );
        assert_eq!(written(None), r#"{"input":{"n":1.50},"name":"x","nodes":[{"id":"a"}]}"#);
    }
}
