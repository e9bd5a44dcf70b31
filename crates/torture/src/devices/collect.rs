//! Reads the final state: every run with its log, and every execution that created one.

use std::time::Duration;

use futures::StreamExt;
use millstream_devices::claim::{FormerHolding, RunAssignMode, RunLogEntry, RunSettings, SeatStatus};
use serde_json::Value;

use super::check::{ExecutionSeen, RunSeen, SeatSeen};
use super::wire::{DeviceReply, DeviceWire};

const AT_ONCE: usize = 8;
const TRIES: usize = 20;
const PAUSE: Duration = Duration::from_millis(100);

/// A complete answer, or the reason for its absence.
async fn get_json(wire: &DeviceWire, path: &str) -> Result<Value, String> {
    let mut last = String::new();
    for _ in 0..TRIES {
        match wire.get(path, Duration::ZERO).await {
            DeviceReply::Answered { status: 200, body } => return Ok(body),
            DeviceReply::Answered { status, body } => last = format!("{status} {body}"),
            DeviceReply::Nothing | DeviceReply::Unsent => last = "no answer".to_owned(),
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(format!("{path}: {last}"))
}

/// The items of every page.
async fn get_pages(wire: &DeviceWire, path: &str) -> Result<Vec<Value>, String> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let mut page = get_json(wire, &format!("{path}{cursor}")).await?;
        if let Value::Array(items) = page["items"].take() {
            all.extend(items);
        }
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return Ok(all),
        }
    }
}

pub(super) async fn collect_runs(wire: &DeviceWire) -> Result<Vec<RunSeen>, String> {
    let listed = get_pages(wire, "/v1/runs?limit=500").await?;
    let ids = listed.into_iter().filter_map(|item| item["run_id"].as_str().map(str::to_owned));
    let all = futures::stream::iter(ids).map(|id| collect_run(wire, id)).buffered(AT_ONCE);
    all.collect::<Vec<_>>().await.into_iter().collect()
}

async fn collect_run(wire: &DeviceWire, id: String) -> Result<RunSeen, String> {
    let shown = get_json(wire, &format!("/v1/runs/{id}")).await?;
    let log = get_pages(wire, &format!("/v1/runs/{id}/log?limit=1000")).await?;
    let log: Option<Vec<RunLogEntry>> = log.into_iter().map(parse_entry).collect();
    let run = log.and_then(|log| parse_run(&id, &shown, log));
    run.ok_or_else(|| format!("the run {id} cannot be read: {shown}"))
}

/// Raw JSON inside it can only be parsed from text.
fn parse_value<T: serde::de::DeserializeOwned>(value: &Value) -> Option<T> {
    serde_json::from_str(&value.to_string()).ok()
}

fn parse_entry(mut line: Value) -> Option<RunLogEntry> {
    line.as_object_mut()?.remove("position");
    parse_value(&line)
}

fn parse_run(id: &str, shown: &Value, log: Vec<RunLogEntry>) -> Option<RunSeen> {
    let seats = shown["seats"].as_array()?.iter().map(parse_seat).collect::<Option<Vec<_>>>()?;
    Some(RunSeen {
        id: id.to_owned(),
        status: SeatStatus::parse(shown["status"].as_str()?)?,
        assign: RunAssignMode::parse(shown["assign"].as_str()?)?,
        settings: parse_value::<RunSettings>(&shown["settings"])?,
        seats,
        execution: shown["waiting"]["execution_id"].as_str().map(str::to_owned),
        log,
    })
}

fn parse_seat(shown: &Value) -> Option<SeatSeen> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let error = &shown["error"];
    Some(SeatSeen {
        status: SeatStatus::parse(shown["status"].as_str()?)?,
        device: text(&shown["device"]),
        token: shown["token"].as_i64(),
        error: text(&error["kind"]).zip(text(&error["message"])),
        previous: parse_value::<Vec<FormerHolding>>(&shown["previous"])?,
    })
}

pub(super) async fn collect_executions(
    wire: &DeviceWire,
    ids: Vec<String>,
) -> Result<Vec<ExecutionSeen>, String> {
    let all = futures::stream::iter(ids).map(|id| collect_execution(wire, id)).buffered(AT_ONCE);
    all.collect::<Vec<_>>().await.into_iter().collect()
}

async fn collect_execution(wire: &DeviceWire, id: String) -> Result<ExecutionSeen, String> {
    let shown = get_json(wire, &format!("/v1/executions/{id}")).await?;
    let history = get_pages(wire, &format!("/v1/executions/{id}/history?limit=100")).await?;
    let names = history.iter().filter_map(|line| line["name"].as_str().map(str::to_owned)).collect();
    let status = shown["status"].as_str().unwrap_or("unknown").to_owned();
    Ok(ExecutionSeen { id, status, names })
}
