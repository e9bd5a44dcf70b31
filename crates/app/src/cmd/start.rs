//! `millstream start DEFINITION`: creates an execution, optionally with events in the same commit.

use anyhow::Result;
use serde_json::{Value, json};

use crate::cli::StartArgs;
use crate::client::Client;
use crate::output::{Output, plain};
use crate::written;

pub(crate) async fn run(args: &StartArgs, client: &Client, output: Output) -> Result<()> {
    let mut body = json!({ "definition": args.definition });
    if let Some(version) = args.version {
        body["version"] = json!(version);
    }
    if let Some(id) = &args.id {
        body["execution_id"] = json!(id);
    }
    if let Some(input) = &args.input {
        body["input"] = written::json(input)?;
    }
    if !args.events.is_empty() {
        body["events"] = args.events.iter().map(|text| event(text)).collect::<Result<Vec<_>>>()?.into();
    }
    let execution = client.post("/v1/executions", &body).await?;
    output.show(&execution, |execution| {
        format!("{} is in state {}", plain(&execution["execution_id"]), plain(&execution["state"]))
    })
}

/// `NAME` or `NAME=JSON`.
fn event(text: &str) -> Result<Value> {
    match text.split_once('=') {
        Some((name, payload)) => Ok(json!({ "name": name, "payload": written::json(payload)? })),
        None => Ok(json!({ "name": text })),
    }
}
