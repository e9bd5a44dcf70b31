//! `millstream start DEFINITION`: creates an execution, optionally with events in the same commit.

use anyhow::Result;
use serde_json::{Value, json};

use crate::cli::StartArgs;
use crate::client::ApiClient;
use crate::output::{CliOutput, plain_text};
use crate::user_input;

pub(crate) async fn run(args: &StartArgs, client: &ApiClient, output: CliOutput) -> Result<()> {
    let mut body = json!({ "definition": args.definition });
    if let Some(version) = args.version {
        body["version"] = json!(version);
    }
    if let Some(id) = &args.id {
        body["execution_id"] = json!(id);
    }
    if let Some(input) = &args.input {
        body["input"] = user_input::parse_json_argument(input)?;
    }
    if !args.events.is_empty() {
        body["events"] = args.events.iter().map(|text| parse_event(text)).collect::<Result<Vec<_>>>()?.into();
    }
    let execution = client.post("/v1/executions", &body).await?;
    output.show(&execution, |execution| {
        format!("{} is in state {}", plain_text(&execution["execution_id"]), plain_text(&execution["state"]))
    })
}

/// `NAME` or `NAME=JSON`.
fn parse_event(text: &str) -> Result<Value> {
    match text.split_once('=') {
        Some((name, payload)) => {
            Ok(json!({ "name": name, "payload": user_input::parse_json_argument(payload)? }))
        }
        None => Ok(json!({ "name": text })),
    }
}
