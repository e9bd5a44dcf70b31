//! Queue management: list, get, put, pause and resume.

use std::path::Path;

use anyhow::{Result, bail};
use millstream_core::definition::Format;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::client::{Client, segment};
use crate::failure::{ExitCode, Failure, hinted};
use crate::output::{Output, plain, table};
use crate::written;

const HINT: &str = "`millstream queue list` shows which there are; `millstream queue put FILE` makes one";

pub(super) fn path(queue: &str, rest: &str) -> String {
    format!("/v1/queues/{}{rest}", segment(queue))
}

pub(super) async fn list(limit: usize, client: &Client, output: Output) -> Result<()> {
    let items = client.list("/v1/queues", &[], limit).await?;
    output.show(&json!({ "items": items }), |_| page(&items))
}

fn page(queues: &[Value]) -> String {
    if queues.is_empty() {
        return "no queues; `millstream queue put FILE` makes one".to_owned();
    }
    let row = |queue: &Value| {
        let mut row = queue["config"].clone();
        row["queue"] = queue["queue"].clone();
        row["state"] = queue["state"].clone();
        row
    };
    table(
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
pub(super) async fn get(queue: &str, client: &Client, output: Output) -> Result<()> {
    let found = client.get(&path(queue, "")).await.map_err(|error| hinted(error, HINT))?;
    output.show(&found, |found| serde_json::to_string_pretty(found).unwrap_or_else(|_| found.to_string()))
}

pub(super) async fn put(file: &Path, name: Option<&str>, client: &Client, output: Output) -> Result<()> {
    let (text, format) = written::definition(file)?;
    let name = match name.map(str::to_owned).or_else(|| named(&text)) {
        Some(name) => name,
        None => bail!(Failure::new(
            ExitCode::Invalid,
            format!("{} has no `name`; give the queue one with --name", file.display())
        )),
    };
    let media_type = match format {
        Format::Json => "application/json",
        Format::Yaml => "application/yaml",
    };
    let request = client.request(Method::PUT, &path(&name, "")).header("content-type", media_type).body(text);
    let answer = client.send(request).await?;
    let what = if answer.status() == StatusCode::CREATED { "made" } else { "as it is written now" };
    let queue: Value = answer.json().await?;
    output.show(&queue, |_| format!("{name} is {what}"))
}

/// The name in a queue's file, in YAML or JSON; the server validates the rest.
fn named(text: &str) -> Option<String> {
    if let Ok(value) = serde_json::from_str::<Value>(text) {
        return value["name"].as_str().map(str::to_owned);
    }
    let rest = text.lines().find_map(|line| line.strip_prefix("name:"))?;
    let name = rest.split(" #").next().unwrap_or(rest).trim().trim_matches(['"', '\'']);
    (!name.is_empty()).then(|| name.to_owned())
}

pub(super) async fn set(queue: &str, word: &str, client: &Client, output: Output) -> Result<()> {
    let answer = client.post(&path(queue, &format!("/{word}")), &json!({})).await;
    let answer = answer.map_err(|error| hinted(error, HINT))?;
    output.show(&answer, |answer| format!("{queue} is {}", plain(&answer["state"])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_queue_is_found_in_its_file() {
        assert_eq!(named("overlap: 2\nname: review # the first\n").as_deref(), Some("review"));
        assert_eq!(named("name: 'review'\n").as_deref(), Some("review"));
        assert_eq!(named(r#"{"name": "review", "overlap": 2}"#).as_deref(), Some("review"));
        assert_eq!(named("overlap: 2\n"), None);
        assert_eq!(named("name:\n"), None);
        assert_eq!(named(r#"{"overlap": 2}"#), None);
    }

    #[test]
    fn queues_are_rows() {
        let queues = [
            json!({ "queue": "review", "state": "active", "created_at": "2026-01-01T00:00:00.000Z",
            "config": { "name": "review", "overlap": 2, "skills": ["german"], "people": null, "timeout_seconds": 3600 } }),
        ];
        insta::assert_snapshot!(page(&queues), @"
        QUEUE   STATE   OVERLAP  SKILLS  PEOPLE  TIMEOUT
        review  active  2        german          3600
        ");
    }
}
