//! `millstream graph create FILE`: creates a graph and, with `--wait`, waits for its end.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use millstream_core::graph::read;
use reqwest::Method;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::check::wrong;
use super::follow::follow;
use super::{path, told};
use crate::cli::GraphCreateArgs;
use crate::client::Client;
use crate::failure::{ExitCode, Failure};
use crate::output::{Output, plain};
use crate::written;

pub(super) async fn run(args: &GraphCreateArgs, client: &Client, output: Output) -> Result<()> {
    let (text, format) = written::definition(&args.file)?;
    let graph = read(&text, format).map_err(|problems| wrong(&args.file, &problems))?;
    let body = body(&to_raw_value(&graph)?, args.id.as_deref())?;
    let graph = client.json(client.request(Method::POST, "/v1/graphs").json(&body)).await?;
    if !args.wait {
        return output.show(&graph, created);
    }
    let id = plain(&graph["graph_id"]);
    if output == Output::Text {
        output.show(&graph, created)?;
    }
    follow(client, &path::graph(&id, "/watch"), None, |_| Ok(())).await?;
    let graph = client.get(&path::graph(&id, "")).await?;
    output.show(&graph, told::ended)?;
    // The exit code of a script that waited tells the outcome.
    match graph["status"].as_str() {
        Some("PASSED") => Ok(()),
        Some(_) | None => bail!(Failure::new(ExitCode::Refused, told::ended(&graph))),
    }
}

fn created(graph: &Value) -> String {
    format!("{} is {}", plain(&graph["graph_id"]), plain(&graph["status"]))
}

/// Adds the id to the graph. Numbers are passed through unparsed.
fn body(graph: &RawValue, id: Option<&str>) -> Result<BTreeMap<String, Box<RawValue>>> {
    let mut body: BTreeMap<String, Box<RawValue>> = serde_json::from_str(graph.get())?;
    if let Some(id) = id {
        body.insert("graph_id".to_owned(), to_raw_value(id)?);
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use millstream_core::definition::Format;

    use super::*;

    #[test]
    fn an_id_stands_beside_the_graph_and_numbers_stay_as_they_are() {
        let graph = read(r#"{"name":"x","input":{"n":1.50},"nodes":[{"id":"a"}]}"#, Format::Json).unwrap();
        let written = |id| serde_json::to_string(&body(&to_raw_value(&graph).unwrap(), id).unwrap()).unwrap();
        assert_eq!(
            written(Some("g-1")),
            r#"{"graph_id":"g-1","input":{"n":1.50},"name":"x","nodes":[{"id":"a"}]}"#
        );
        assert_eq!(written(None), r#"{"input":{"n":1.50},"name":"x","nodes":[{"id":"a"}]}"#);
    }
}
