//! `millstream queue import QUEUE FILE`: streams a file to the server and shows the progress that the server
//! reports.

use std::io::IsTerminal;
use std::path::Path;

use anyhow::{Context, Result, bail};
use futures::StreamExt;
use indicatif::{ProgressBar, ProgressStyle};
use reqwest::{Body, Method};
use serde_json::Value;
use tokio::fs::File;
use tokio::io::AsyncReadExt;

use super::manage::queue_path;
use crate::client::ApiClient;
use crate::failure::{CommandFailure, ExitCode};
use crate::output::{CliOutput, plain_text};

const PIECE: usize = 64 * 1024;

pub(super) async fn run(queue: &str, file: &Path, client: &ApiClient, output: CliOutput) -> Result<()> {
    let source = if file == Path::new("-") { Path::new("/dev/stdin") } else { file };
    let opened = File::open(source).await.with_context(|| format!("cannot read {}", file.display()))?;
    let request = client
        .request(Method::POST, &queue_path(queue, "/items"))
        .header("content-type", "application/x-ndjson")
        .header("accept", "application/x-ndjson")
        .body(file_body(opened));
    let mut chunks = client.send(request).await?.bytes_stream();
    let bar = import_progress();
    let (mut buffer, mut last) = (Vec::new(), None);
    while let Some(chunk) = chunks.next().await {
        buffer.extend_from_slice(&chunk.context(CUT_OFF)?);
        while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = buffer.drain(..=end).collect();
            let Ok(word) = serde_json::from_slice::<Value>(&line) else { continue };
            bar.set_message(count_summary(&word));
            if let Some(read) = word["read"].as_u64() {
                bar.set_position(read);
            }
            last = Some(word);
        }
    }
    bar.finish_and_clear();
    match last.filter(|word| word["done"] == Value::Bool(true)) {
        Some(done) => show_result(queue, &done, output),
        None => bail!(CommandFailure::new(ExitCode::Unreachable, CUT_OFF)),
    }
}

const CUT_OFF: &str = "the connection was lost before the import had ended; run it again: what was imported is not imported twice";

/// Streams the file: it may be larger than memory.
fn file_body(file: File) -> Body {
    let stream = futures::stream::try_unfold(file, |mut file| async move {
        let mut piece = Vec::with_capacity(PIECE);
        let read = (&mut file).take(PIECE as u64).read_to_end(&mut piece).await?;
        Ok::<_, std::io::Error>((read > 0).then_some((piece, file)))
    });
    Body::wrap_stream(stream)
}

fn import_progress() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {human_pos} read, {msg} ({per_sec})") {
        bar.set_style(style);
    }
    bar
}

fn count_summary(word: &Value) -> String {
    let (created, repeated) = (plain_text(&word["created"]), plain_text(&word["repeated"]));
    format!("{created} new, {repeated} known already, {} refused", refused_count(word))
}

/// The field is a number during the import; at the end it may be a list of refusals, of which the first are
/// shown.
fn refused_count(word: &Value) -> u64 {
    let told = word["refused"].as_array().map(|all| all.len() as u64);
    word["refused_count"].as_u64().or_else(|| word["refused"].as_u64()).or(told).unwrap_or(0)
}

fn refused_lines(done: &Value) -> &[Value] {
    ["refused", "refusals"].iter().find_map(|name| done[*name].as_array()).map_or(&[], Vec::as_slice)
}

fn show_result(queue: &str, done: &Value, output: CliOutput) -> Result<()> {
    output.show(done, |done| format!("{queue}: {}", count_summary(done)))?;
    let count = refused_count(done);
    if count == 0 {
        return Ok(());
    }
    let told: Vec<String> = refused_lines(done).iter().take(20).map(refusal_line).collect();
    let more = count.saturating_sub(told.len() as u64);
    let more = if more > 0 { format!("\n  … and {more} more") } else { String::new() };
    let noun = if count == 1 { "line was" } else { "lines were" };
    bail!(CommandFailure::new(
        ExitCode::Invalid,
        format!("{count} {noun} refused; mend them and import the file again\n{}{more}", told.join("\n"))
    ))
}

fn refusal_line(refusal: &Value) -> String {
    let place = ["line", "index"].iter().find(|name| !refusal[**name].is_null());
    let place = place.map(|name| format!("{name} {}", plain_text(&refusal[*name]))).unwrap_or_default();
    let item = refusal["item_id"].as_str().map(|id| format!(" ({id})")).unwrap_or_default();
    let problems = refusal["problems"].as_array().map(Vec::as_slice).unwrap_or_default();
    let problem = |problem: &Value| match problem["path"].as_str().unwrap_or_default() {
        "" => plain_text(&problem["message"]),
        path => format!("{path}: {}", plain_text(&problem["message"])),
    };
    format!("  {place}{item}: {}", problems.iter().map(problem).collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn import_result_names_refused_lines() {
        let done = json!({ "read": 3, "created": 1, "repeated": 1, "done": true, "refused": [
            { "line": 2, "item_id": "s-2", "problems": [{ "path": "payload", "message": "is required" }] },
        ] });
        assert_eq!(count_summary(&done), "1 new, 1 known already, 1 refused");
        let error = show_result("review", &done, CliOutput::Text).unwrap_err().to_string();
        assert!(error.contains("1 line was refused"), "{error}");
        assert!(error.contains("line 2 (s-2): payload: is required"), "{error}");
    }

    #[test]
    fn what_goes_well_is_counted() {
        let done = json!({ "read": 2, "created": 2, "repeated": 0, "done": true, "refused": 0 });
        assert!(show_result("review", &done, CliOutput::Text).is_ok());
    }
}
