//! `millstream signal CORRELATION NAME`: an event for the execution that has the correlation.

use anyhow::Result;
use reqwest::Method;
use serde_json::json;

use crate::cli::SignalArgs;
use crate::client::ApiClient;
use crate::output::{CliOutput, plain_text};
use crate::user_input;

pub(crate) async fn run(args: &SignalArgs, client: &ApiClient, output: CliOutput) -> Result<()> {
    let mut body = json!({ "correlation": args.correlation, "name": args.event });
    if let Some(payload) = &args.payload {
        body["payload"] = user_input::parse_json_argument(payload)?;
    }
    if let Some(definition) = &args.definition {
        body["definition"] = json!(definition);
    }
    if let Some(wait_for) = &args.wait_for {
        body["wait_for"] = json!(wait_for);
    }
    let mut request = client.request(Method::POST, "/v1/signals").json(&body);
    if let Some(key) = &args.key {
        request = request.header("idempotency-key", key);
    }
    let signal = client.send_for_json(request).await?;
    output.show(&signal, |signal| {
        let (id, status) = (plain_text(&signal["signal_id"]), plain_text(&signal["status"]));
        match signal["execution_id"].as_str() {
            Some(execution) => format!("{id} {status} to {execution}"),
            None => format!("{id} {status}"),
        }
    })
}
