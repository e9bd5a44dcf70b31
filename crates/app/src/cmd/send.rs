//! `millstream send EXECUTION EVENT`: posts an event and, with `--wait`, waits for its outcome.

use anyhow::{Result, bail};
use reqwest::Method;
use serde_json::json;

use crate::cli::SendArgs;
use crate::client::{ApiClient, path_segment};
use crate::failure::{CommandFailure, ExitCode};
use crate::output::{CliOutput, plain_text};
use crate::user_input;

pub(crate) async fn run(args: &SendArgs, client: &ApiClient, output: CliOutput) -> Result<()> {
    let mut body = json!({ "name": args.event });
    if let Some(payload) = &args.payload {
        body["payload"] = user_input::parse_json_argument(payload)?;
    }
    let path = format!("/v1/executions/{}/events", path_segment(&args.execution));
    let mut request = client.request(Method::POST, &path).json(&body);
    if let Some(key) = &args.key {
        request = request.header("idempotency-key", key);
    }
    if let Some(seconds) = args.wait {
        request = request.header("prefer", format!("wait={seconds}"));
    }
    let event = client.send_for_json(request).await?;
    output.show(&event, |event| {
        let (id, status) = (plain_text(&event["event_id"]), plain_text(&event["status"]));
        match (event["to_state"].as_str(), event["error"].as_str()) {
            (_, Some(error)) => format!("{id} {status}: {error}"),
            (Some(state), None) => format!("{id} {status}, now in state {state}"),
            (None, None) => format!("{id} {status}"),
        }
    })?;
    // The exit code of a script that waited tells the outcome.
    if args.wait.is_some() && matches!(event["status"].as_str(), Some("rejected" | "failed" | "dead")) {
        bail!(CommandFailure::new(
            ExitCode::Refused,
            format!("the event is {}", plain_text(&event["status"]))
        ));
    }
    Ok(())
}
