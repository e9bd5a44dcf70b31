//! Queue management: list, get, put, pause and resume.

use std::path::Path;

use anyhow::{Result, bail};
use millstream_model::document::SourceFormat;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::client::{ApiClient, path_segment};
use crate::failure::{CommandFailure, ExitCode, hinted};
use crate::output::{CliOutput, format_table, plain_text};
use crate::user_input;

const HINT: &str = "`millstream queue list` shows which there are; `millstream queue put FILE` makes one";

pub(super) fn queue_path(queue: &str, rest: &str) -> String {
    format!("/v1/queues/{}{rest}", path_segment(queue))
}

pub(super) async fn list_queues(limit: usize, client: &ApiClient, output: CliOutput) -> Result<()> {
    let items = client.list_pages("/v1/queues", &[], limit).await?;
    output.show(&json!({ "items": items }), |_| queues_page(&items))
}

fn queues_page(queues: &[Value]) -> String {
    if queues.is_empty() {
        return "no queues; `millstream queue put FILE` makes one".to_owned();
    }
    let row = |queue: &Value| {
        let mut row = queue["config"].clone();
        row["queue"] = queue["queue"].clone();
        row["state"] = queue["state"].clone();
        row
    };
    format_table(
        &queues.iter().map(row).collect::<Vec<_>>(),
        &[
            ("queue", "queue"),
            ("state", "state"),
            ("overlap", "overlap"),
            ("skills", "skills"),
            ("people", "people"),
            ("timeout", "timeout_seconds"),
        ],
    )
}

/// Shows a queue as it was put.
pub(super) async fn show_queue(queue: &str, client: &ApiClient, output: CliOutput) -> Result<()> {
    let found = client.get(&queue_path(queue, "")).await.map_err(|error| hinted(error, HINT))?;
    output.show(&found, |found| serde_json::to_string_pretty(found).unwrap_or_else(|_| found.to_string()))
}

pub(super) async fn put_queue(
    file: &Path,
    name: Option<&str>,
    client: &ApiClient,
    output: CliOutput,
) -> Result<()> {
    let (text, format) = user_input::read_definition(file)?;
    let name = match name.map(str::to_owned).or_else(|| name_in_file(&text)) {
        Some(name) => name,
        None => bail!(CommandFailure::new(
            ExitCode::Invalid,
            format!("{} has no `name`; give the queue one with --name", file.display())
        )),
    };
    let media_type = match format {
        SourceFormat::Json => "application/json",
        SourceFormat::Yaml => "application/yaml",
    };
    let request =
        client.request(Method::PUT, &queue_path(&name, "")).header("content-type", media_type).body(text);
    let answer = client.send(request).await?;
    let what = if answer.status() == StatusCode::CREATED { "made" } else { "as it is written now" };
    let queue: Value = answer.json().await?;
    output.show(&queue, |_| format!("{name} is {what}"))
}

/// The name in a queue's file, in YAML or JSON; the server validates the rest.
fn name_in_file(text: &str) -> Option<String> {
    if let Ok(value) = serde_json::from_str::<Value>(text) {
        return value["name"].as_str().map(str::to_owned);
    }
    let rest = text.lines().find_map(|line| line.strip_prefix("name:"))?;
    let name = rest.split(" #").next().unwrap_or(rest).trim().trim_matches(['"', '\'']);
    (!name.is_empty()).then(|| name.to_owned())
}

pub(super) async fn pause_or_resume(
    queue: &str,
    word: &str,
    client: &ApiClient,
    output: CliOutput,
) -> Result<()> {
    let answer = client.post(&queue_path(queue, &format!("/{word}")), &json!({})).await;
    let answer = answer.map_err(|error| hinted(error, HINT))?;
    output.show(&answer, |answer| format!("{queue} is {}", plain_text(&answer["state"])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_name_is_read_from_file() {
        assert_eq!(name_in_file("overlap: 2\nname: review # the first\n").as_deref(), Some("review"));
        assert_eq!(name_in_file("name: 'review'\n").as_deref(), Some("review"));
        assert_eq!(name_in_file(r#"{"name": "review", "overlap": 2}"#).as_deref(), Some("review"));
        assert_eq!(name_in_file("overlap: 2\n"), None);
        assert_eq!(name_in_file("name:\n"), None);
        assert_eq!(name_in_file(r#"{"overlap": 2}"#), None);
    }

    #[test]
    fn queues_are_rows() {
        let queues = [
            json!({ "queue": "review", "state": "active", "created_at": "2026-01-01T00:00:00.000Z",
            "config": { "name": "review", "overlap": 2, "skills": ["german"], "people": null, "timeout_seconds": 3600 } }),
        ];
        insta::assert_snapshot!(queues_page(&queues), @"
        QUEUE   STATE   OVERLAP  SKILLS  PEOPLE  TIMEOUT
        review  active  2        german          3600
        ");
    }
}
