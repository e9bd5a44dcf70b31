//! Reads the final state: every run with its log, and every execution that created one.

use std::time::Duration;

use futures::StreamExt;
use millstream_core::claim::{Assign, Entry, Previous, Settings, Status};
use serde_json::Value;

use super::check::{ExecutionSeen, RunSeen, SeatSeen};
use super::wire::{Reply, Wire};

const AT_ONCE: usize = 8;
const TRIES: usize = 20;
const PAUSE: Duration = Duration::from_millis(100);

/// A complete answer, or the reason for its absence.
async fn get(wire: &Wire, path: &str) -> Result<Value, String> {
    let mut last = String::new();
    for _ in 0..TRIES {
        match wire.get(path, Duration::ZERO).await {
            Reply::Answered { status: 200, body } => return Ok(body),
            Reply::Answered { status, body } => last = format!("{status} {body}"),
            Reply::Nothing | Reply::Unsent => last = "no answer".to_owned(),
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(format!("{path}: {last}"))
}

/// The items of every page.
async fn pages(wire: &Wire, path: &str) -> Result<Vec<Value>, String> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let mut page = get(wire, &format!("{path}{cursor}")).await?;
        if let Value::Array(items) = page["items"].take() {
            all.extend(items);
        }
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return Ok(all),
        }
    }
}

pub(super) async fn runs(wire: &Wire) -> Result<Vec<RunSeen>, String> {
    let listed = pages(wire, "/v1/runs?limit=500").await?;
    let ids = listed.into_iter().filter_map(|item| item["run_id"].as_str().map(str::to_owned));
    let all = futures::stream::iter(ids).map(|id| run(wire, id)).buffered(AT_ONCE);
    all.collect::<Vec<_>>().await.into_iter().collect()
}

async fn run(wire: &Wire, id: String) -> Result<RunSeen, String> {
    let shown = get(wire, &format!("/v1/runs/{id}")).await?;
    let log = pages(wire, &format!("/v1/runs/{id}/log?limit=1000")).await?;
    let log: Option<Vec<Entry>> = log.into_iter().map(entry).collect();
    let run = log.and_then(|log| read(&id, &shown, log));
    run.ok_or_else(|| format!("the run {id} cannot be read: {shown}"))
}

/// Raw JSON inside it can only be parsed from text.
fn typed<T: serde::de::DeserializeOwned>(value: &Value) -> Option<T> {
    serde_json::from_str(&value.to_string()).ok()
}

fn entry(mut line: Value) -> Option<Entry> {
    line.as_object_mut()?.remove("position");
    typed(&line)
}

fn read(id: &str, shown: &Value, log: Vec<Entry>) -> Option<RunSeen> {
    let seats = shown["seats"].as_array()?.iter().map(seat).collect::<Option<Vec<_>>>()?;
    Some(RunSeen {
        id: id.to_owned(),
        status: Status::parse(shown["status"].as_str()?)?,
        assign: Assign::parse(shown["assign"].as_str()?)?,
        settings: typed::<Settings>(&shown["settings"])?,
        seats,
        execution: shown["waiting"]["execution_id"].as_str().map(str::to_owned),
        log,
    })
}

fn seat(shown: &Value) -> Option<SeatSeen> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let error = &shown["error"];
    Some(SeatSeen {
        status: Status::parse(shown["status"].as_str()?)?,
        device: text(&shown["device"]),
        token: shown["token"].as_i64(),
        error: text(&error["kind"]).zip(text(&error["message"])),
        previous: typed::<Vec<Previous>>(&shown["previous"])?,
    })
}

pub(super) async fn executions(wire: &Wire, ids: Vec<String>) -> Result<Vec<ExecutionSeen>, String> {
    let all = futures::stream::iter(ids).map(|id| execution(wire, id)).buffered(AT_ONCE);
    all.collect::<Vec<_>>().await.into_iter().collect()
}

async fn execution(wire: &Wire, id: String) -> Result<ExecutionSeen, String> {
    let shown = get(wire, &format!("/v1/executions/{id}")).await?;
    let history = pages(wire, &format!("/v1/executions/{id}/history?limit=100")).await?;
    let names = history.iter().filter_map(|line| line["name"].as_str().map(str::to_owned)).collect();
    let status = shown["status"].as_str().unwrap_or("unknown").to_owned();
    Ok(ExecutionSeen { id, status, names })
}
