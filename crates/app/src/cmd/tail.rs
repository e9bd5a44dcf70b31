//! `millstream tail ID`: follows an execution; reconnects at its last position.

use std::time::Duration;

use anyhow::Result;
use futures::StreamExt;
use reqwest::Method;
use serde_json::Value;

use crate::cli::TailArgs;
use crate::client::{ApiClient, path_segment};
use crate::failure::{CommandFailure, ExitCode};
use crate::output::{CliOutput, plain_text, print_line};

/// Reconnection attempts before giving up.
const RECONNECTS: u32 = 30;

pub(crate) async fn run(args: &TailArgs, client: &ApiClient, output: CliOutput) -> Result<()> {
    let path = format!("/v1/executions/{}/tail", path_segment(&args.execution));
    let mut last = args.after;
    let mut lost = 0;
    loop {
        match follow_stream(client, &path, &mut last, output).await {
            Ok(TailStreamEnd::Execution) => return Ok(()),
            Ok(TailStreamEnd::Connection) => lost = 1,
            Err(error) if lost == 0 || !is_unreachable(&error) || lost >= RECONNECTS => return Err(error),
            Err(_) => lost += 1,
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Why a stream ended.
enum TailStreamEnd {
    Execution,
    Connection,
}

async fn follow_stream(
    client: &ApiClient,
    path: &str,
    last: &mut Option<i64>,
    output: CliOutput,
) -> Result<TailStreamEnd> {
    let mut request = client.request(Method::GET, path).header("accept", "text/event-stream");
    if let Some(seq) = last {
        request = request.header("last-event-id", seq.to_string());
    }
    let mut chunks = client.send(request).await?.bytes_stream();
    let mut buffer = Vec::new();
    while let Some(chunk) = chunks.next().await {
        let Ok(chunk) = chunk else { return Ok(TailStreamEnd::Connection) };
        buffer.extend_from_slice(&chunk);
        while let Some(end) = buffer.windows(2).position(|pair| pair == b"\n\n") {
            let message: Vec<u8> = buffer.drain(..end + 2).collect();
            let message = String::from_utf8_lossy(&message);
            if sse_field(&message, "event") == Some("end") {
                return Ok(TailStreamEnd::Execution);
            }
            let Some(data) = sse_field(&message, "data") else { continue };
            let transition: Value = serde_json::from_str(data)?;
            *last = transition["seq"].as_i64().or(*last);
            show_transition(&transition, data, output)?;
        }
    }
    Ok(TailStreamEnd::Connection)
}

fn sse_field<'a>(message: &'a str, name: &str) -> Option<&'a str> {
    message.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::trim))
}

fn show_transition(transition: &Value, data: &str, output: CliOutput) -> Result<()> {
    match output {
        CliOutput::Json => print_line(data),
        CliOutput::Text => {
            let get = |name: &str| plain_text(&transition[name]);
            let from = transition["from_state"].as_str().unwrap_or("·");
            print_line(&format!(
                "{:>4}  {}  {}  {from} → {}",
                get("seq"),
                get("at"),
                get("name"),
                get("to_state")
            ))
        }
    }
}

fn is_unreachable(error: &anyhow::Error) -> bool {
    error.downcast_ref::<CommandFailure>().is_some_and(|failure| failure.code == ExitCode::Unreachable)
}
