//! `millstream run`: device runs, and the operations on them.

use anyhow::Result;
use millstream_sdk::client::{RunStatus, RunSummary};
use millstream_sdk::{Client, ClientError};
use serde_json::{Value, json};

use crate::cli::{RunArgs, RunCommand, RunListArgs};
use crate::client::{first_items, hinted, page_size};
use crate::output::{CliOutput, format_fields, format_table, json_fields, plain_text};

const RUN: &[&str] = &[
    "run_id",
    "kind",
    "status",
    "paused",
    "priority",
    "requires",
    "prefer",
    "assign",
    "created_by",
    "created_at",
    "ended_at",
    "waiting",
    "input",
];

pub(crate) async fn run(args: &RunArgs, client: &Client, output: CliOutput) -> Result<()> {
    match &args.command {
        RunCommand::List(args) => list_runs(args, client, output).await,
        RunCommand::Get { run } => show_run(run, client, output).await,
        RunCommand::Log { run, limit } => show_log(run, *limit, client, output).await,
        RunCommand::Retry { run } => show_decided(run, client.retry_run(run).await, output),
        RunCommand::Pause { run } => show_decided(run, client.pause_run(run).await, output),
        RunCommand::Resume { run } => show_decided(run, client.resume_run(run).await, output),
        RunCommand::Cancel { run, why } => {
            show_decided(run, client.cancel_run(run, why.reason.as_deref()).await, output)
        }
        RunCommand::Assign { run, device, seat } => {
            show_decided(run, client.assign_run(run, *seat, device).await, output)
        }
    }
}

async fn list_runs(args: &RunListArgs, client: &Client, output: CliOutput) -> Result<()> {
    let mut list = client.runs().page_size(page_size(args.limit));
    for (name, value) in [("status", &args.status), ("kind", &args.kind), ("execution_id", &args.execution)] {
        if let Some(value) = value {
            list = list.filter(name, value);
        }
    }
    let found = first_items(list.stream(), args.limit).await?;
    output.show_items(&found, |runs| list_page(&runs.iter().map(json_fields).collect::<Vec<_>>()))
}

fn list_page(runs: &[Value]) -> String {
    if runs.is_empty() {
        return "no runs".to_owned();
    }
    let row = |run: &Value| {
        let mut row = run.clone();
        let seats = run["seats"].as_array().map(Vec::as_slice).unwrap_or_default();
        let devices: Vec<String> = seats.iter().map(|seat| plain_text(&seat["device"])).collect();
        row["devices"] = json!(devices.into_iter().filter(|device| !device.is_empty()).collect::<Vec<_>>());
        row["paused"] = json!(if run["paused"] == json!(true) { "paused" } else { "" });
        row
    };
    format_table(
        &runs.iter().map(row).collect::<Vec<_>>(),
        &[
            ("id", "run_id"),
            ("kind", "kind"),
            ("status", "status"),
            ("", "paused"),
            ("priority", "priority"),
            ("devices", "devices"),
            ("created", "created_at"),
        ],
    )
}

async fn show_run(run: &str, client: &Client, output: CliOutput) -> Result<()> {
    let found = client.run(run).await.map_err(|error| hinted(error, LIST))?;
    output.show(&found, |run| run_page(&json_fields(run)))
}

const LIST: &str = "`millstream run list` shows which there are";

fn run_page(run: &Value) -> String {
    let mut head = run.clone();
    for quiet in ["requires", "prefer"] {
        if head[quiet] == json!([]) {
            head[quiet] = Value::Null;
        }
    }
    if head["paused"] == json!(false) {
        head["paused"] = Value::Null;
    }
    let seats: Vec<Value> = run["seats"].as_array().into_iter().flatten().map(seat_row).collect();
    let columns = [
        ("seat", "seat"),
        ("status", "status"),
        ("device", "device"),
        ("token", "token"),
        ("since", "assigned_at"),
        ("progress", "progress"),
        ("outcome", "outcome"),
    ];
    let mut parts = vec![format_fields(&head, RUN), format_table(&seats, &columns)];
    parts.extend(previous_owners(&run["seats"]));
    parts.join("\n\n")
}

fn seat_row(seat: &Value) -> Value {
    let mut row = seat.clone();
    row["progress"] = json!(progress_text(&seat["progress"]));
    row["outcome"] = match seat["error"]["message"].as_str() {
        Some(message) => json!(message),
        None => json!(plain_text(&seat["output"])),
    };
    row
}

/// `3 of 10: rendering`.
pub(super) fn progress_text(progress: &Value) -> String {
    if progress.is_null() {
        return String::new();
    }
    let note = progress["note"].as_str().map(|note| format!(": {note}")).unwrap_or_default();
    format!("{} of {}{note}", plain_text(&progress["step"]), plain_text(&progress["total"]))
}

/// Previous owners of the seats, if there were any.
pub(super) fn previous_owners(seats: &Value) -> Option<String> {
    let mut rows = Vec::new();
    for seat in seats.as_array().into_iter().flatten() {
        for before in seat["previous"].as_array().into_iter().flatten() {
            let mut row = before.clone();
            row["seat"] = seat["seat"].clone();
            row["progress"] = json!(progress_text(&before["progress"]));
            rows.push(row);
        }
    }
    let columns = [
        ("before", "device"),
        ("seat", "seat"),
        ("token", "token"),
        ("from", "assigned_at"),
        ("until", "ended_at"),
        ("ended", "reason"),
        ("because", "why"),
        ("progress", "progress"),
    ];
    (!rows.is_empty()).then(|| format_table(&rows, &columns))
}

async fn show_log(run: &str, limit: usize, client: &Client, output: CliOutput) -> Result<()> {
    let lines = client.run_log(run).page_size(page_size(limit)).stream();
    let found = first_items(lines, limit).await.map_err(|error| hinted(error, LIST))?;
    output.show_items(&found, |lines| log_page(&lines.iter().map(json_fields).collect::<Vec<_>>()))
}

fn log_page(entries: &[Value]) -> String {
    let row = |entry: &Value| {
        let mut row = entry.clone();
        let from = entry["from"].as_str().unwrap_or("·");
        row["step"] = json!(format!("{from} → {}", plain_text(&entry["to"])));
        row
    };
    format_table(
        &entries.iter().map(row).collect::<Vec<_>>(),
        &[
            ("at", "at"),
            ("seat", "seat"),
            ("what", "word"),
            ("", "step"),
            ("device", "device"),
            ("token", "token"),
            ("because", "why"),
            ("by", "by"),
        ],
    )
}

fn show_decided(run: &str, answer: Result<RunSummary, ClientError>, output: CliOutput) -> Result<()> {
    let hint = format!("`millstream why {run}` says where it stands; {LIST}");
    let answer = answer.map_err(|error| hinted(error, &hint))?;
    output.show(&answer, |answer| decision_line(run, answer))
}

fn decision_line(run: &str, answer: &RunSummary) -> String {
    let paused = if answer.paused { " and paused" } else { "" };
    let at = answer.seats.iter().filter_map(|seat| seat.device.as_deref()).collect::<Vec<_>>().join(", ");
    let at =
        if at.is_empty() || answer.status == RunStatus::Failed { String::new() } else { format!(" ({at})") };
    format!("{run} is {}{paused}{at}", answer.status)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_run() -> Value {
        json!({
            "run_id": "film-1", "kind": "film", "status": "processing", "paused": false, "priority": 5,
            "preempt": false, "coordinator": false, "requires": ["render"], "prefer": [], "assign": "auto", "created_at": "2026-01-01T00:00:00.000Z",
            "input": { "frames": 300 },
            "seats": [{
                "seat": 0, "status": "processing", "device": "phone-7", "token": 2,
                "assigned_at": "2026-01-01T00:00:05.000Z", "progress": { "step": 3, "total": 10, "note": "frame 90" },
                "reassignments": 1,
                "previous": [{
                    "device": "desk", "token": 1, "assigned_at": "2026-01-01T00:00:00.000Z",
                    "ended_at": "2026-01-01T00:00:04.000Z", "reason": "declined", "why": "too hot"
                }]
            }]
        })
    }

    #[test]
    fn runs_are_rows_with_their_devices() {
        assert_eq!(list_page(&[]), "no runs");
        insta::assert_snapshot!(list_page(&[sample_run()]), @"
        ID      KIND  STATUS         PRIORITY  DEVICES  CREATED
        film-1  film  processing     5         phone-7  2026-01-01T00:00:00.000Z
        ");
    }

    #[test]
    fn run_is_shown_with_its_holders() {
        insta::assert_snapshot!(run_page(&sample_run()), @r#"
        run_id      film-1
        kind        film
        status      processing
        priority    5
        requires    render
        assign      auto
        created_at  2026-01-01T00:00:00.000Z
        input       {"frames":300}

         SEAT  STATUS      DEVICE   TOKEN  SINCE                     PROGRESS           OUTCOME
         0     processing  phone-7  2      2026-01-01T00:00:05.000Z  3 of 10: frame 90

         BEFORE  SEAT  TOKEN  FROM                      UNTIL                     ENDED     BECAUSE  PROGRESS
         desk    0     1      2026-01-01T00:00:00.000Z  2026-01-01T00:00:04.000Z  declined  too hot
        "#);
    }

    #[test]
    fn a_log_is_shown_as_steps() {
        let entries = [
            json!({ "at": "2026-01-01T00:00:00.000Z", "word": "create", "to": "created" }),
            json!({ "at": "2026-01-01T00:00:04.000Z", "seat": 0, "word": "decline", "from": "assigned",
                    "to": "reassigning", "device": "desk", "token": 1, "why": "too hot" }),
        ];
        insta::assert_snapshot!(log_page(&entries), @"
        AT                        SEAT  WHAT                             DEVICE  TOKEN  BECAUSE  BY
        2026-01-01T00:00:00.000Z        create   · → created
        2026-01-01T00:00:04.000Z  0     decline  assigned → reassigning  desk    1      too hot
        ");
    }

    #[test]
    fn run_decision_prints_new_status() {
        let run = serde_json::from_value(sample_run()).unwrap();
        assert_eq!(decision_line("film-1", &run), "film-1 is processing (phone-7)");
    }
}
