//! `millstream send EXECUTION EVENT`: posts an event and, with `--wait`, waits for its outcome.

use anyhow::{Result, bail};
use reqwest::Method;
use serde_json::json;

use crate::cli::SendArgs;
use crate::client::{Client, segment};
use crate::failure::{ExitCode, Failure};
use crate::output::{Output, plain};
use crate::written;

pub(crate) async fn run(args: &SendArgs, client: &Client, output: Output) -> Result<()> {
    let mut body = json!({ "name": args.event });
    if let Some(payload) = &args.payload {
        body["payload"] = written::json(payload)?;
    }
    let path = format!("/v1/executions/{}/events", segment(&args.execution));
    let mut request = client.request(Method::POST, &path).json(&body);
    if let Some(key) = &args.key {
        request = request.header("idempotency-key", key);
    }
    if let Some(seconds) = args.wait {
        request = request.header("prefer", format!("wait={seconds}"));
    }
    let event = client.json(request).await?;
    output.show(&event, |event| {
        let (id, status) = (plain(&event["event_id"]), plain(&event["status"]));
        match (event["to_state"].as_str(), event["error"].as_str()) {
            (_, Some(error)) => format!("{id} {status}: {error}"),
            (Some(state), None) => format!("{id} {status}, now in state {state}"),
            (None, None) => format!("{id} {status}"),
        }
    })?;
    // The exit code of a script that waited tells the outcome.
    if args.wait.is_some() && matches!(event["status"].as_str(), Some("rejected" | "failed" | "dead")) {
        bail!(Failure::new(ExitCode::Refused, format!("the event is {}", plain(&event["status"]))));
    }
    Ok(())
}
