//! Queue management: list, get, put, pause and resume.

use std::path::Path;

use anyhow::{Result, bail};
use millstream_sdk::client::{StoredSource, WorkQueue};
use millstream_sdk::{Client, ClientError};
use serde_json::Value;

use crate::client::{first_items, hinted, page_size};
use crate::failure::{CommandFailure, ExitCode};
use crate::output::{CliOutput, format_table, json_fields, pretty_fields};
use crate::user_input;

const HINT: &str = "`millstream queue list` shows which there are; `millstream queue put FILE` makes one";

pub(super) async fn list_queues(limit: usize, client: &Client, output: CliOutput) -> Result<()> {
    let queues = client.queues().page_size(page_size(limit)).stream();
    output.show_items(&first_items(queues, limit).await?, |queues| {
        queues_page(&queues.iter().map(json_fields).collect::<Vec<_>>())
    })
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
pub(super) async fn show_queue(queue: &str, client: &Client, output: CliOutput) -> Result<()> {
    let found = client.queue(queue).await.map_err(|error| hinted(error, HINT))?;
    output.show(&found, pretty_fields)
}

pub(super) async fn put_queue(
    file: &Path,
    name: Option<&str>,
    client: &Client,
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
    let stored = client.put_queue_source(&name, format, text).await?;
    let what = match stored {
        StoredSource::Created(_) => "made",
        StoredSource::Present(_) => "as it is written now",
    };
    output.show(&stored.into_document(), |_| format!("{name} is {what}"))
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

pub(super) async fn pause_queue(queue: &str, client: &Client, output: CliOutput) -> Result<()> {
    show_state(queue, client.pause_queue(queue).await, output)
}

pub(super) async fn resume_queue(queue: &str, client: &Client, output: CliOutput) -> Result<()> {
    show_state(queue, client.resume_queue(queue).await, output)
}

fn show_state(queue: &str, answer: Result<WorkQueue, ClientError>, output: CliOutput) -> Result<()> {
    let answer = answer.map_err(|error| hinted(error, HINT))?;
    output.show(&answer, |answer| format!("{queue} is {}", answer.state))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
