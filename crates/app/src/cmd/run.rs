//! `millstream run`: device runs, and the operations on them.

use anyhow::Result;
use serde_json::{Value, json};

use crate::cli::{RunArgs, RunCommand, RunListArgs};
use crate::client::{Client, segment};
use crate::failure::hinted;
use crate::output::{Output, fields, plain, table};

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

pub(crate) async fn run(args: &RunArgs, client: &Client, output: Output) -> Result<()> {
    match &args.command {
        RunCommand::List(args) => list(args, client, output).await,
        RunCommand::Get { run } => get(run, client, output).await,
        RunCommand::Log { run, limit } => log(run, *limit, client, output).await,
        RunCommand::Retry { run } => decide(run, "retry", &json!({}), client, output).await,
        RunCommand::Pause { run } => decide(run, "pause", &json!({}), client, output).await,
        RunCommand::Resume { run } => decide(run, "resume", &json!({}), client, output).await,
        RunCommand::Cancel { run, why } => {
            let body = why.reason.as_ref().map_or_else(|| json!({}), |reason| json!({ "reason": reason }));
            decide(run, "cancel", &body, client, output).await
        }
        RunCommand::Assign { run, device, seat } => {
            decide(run, "assign", &json!({ "device": device, "seat": seat }), client, output).await
        }
    }
}

pub(super) fn path(run: &str, rest: &str) -> String {
    format!("/v1/runs/{}{rest}", segment(run))
}

async fn list(args: &RunListArgs, client: &Client, output: Output) -> Result<()> {
    let query: Vec<(&str, String)> =
        [("status", &args.status), ("kind", &args.kind), ("execution_id", &args.execution)]
            .into_iter()
            .filter_map(|(name, value)| value.clone().map(|value| (name, value)))
            .collect();
    let items = client.list("/v1/runs", &query, args.limit).await?;
    output.show(&json!({ "items": items }), |_| list_page(&items))
}

fn list_page(runs: &[Value]) -> String {
    if runs.is_empty() {
        return "no runs".to_owned();
    }
    let row = |run: &Value| {
        let mut row = run.clone();
        let seats = run["seats"].as_array().map(Vec::as_slice).unwrap_or_default();
        let devices: Vec<String> = seats.iter().map(|seat| plain(&seat["device"])).collect();
        row["devices"] = json!(devices.into_iter().filter(|device| !device.is_empty()).collect::<Vec<_>>());
        row["paused"] = json!(if run["paused"] == json!(true) { "paused" } else { "" });
        row
    };
    table(
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

async fn get(run: &str, client: &Client, output: Output) -> Result<()> {
    let found = client.get(&path(run, "")).await.map_err(|error| hinted(error, LIST))?;
    output.show(&found, run_page)
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
    let mut parts = vec![fields(&head, RUN), table(&seats, &columns)];
    parts.extend(previous(&run["seats"]));
    parts.join("\n\n")
}

fn seat_row(seat: &Value) -> Value {
    let mut row = seat.clone();
    row["progress"] = json!(progress(&seat["progress"]));
    row["outcome"] = match seat["error"]["message"].as_str() {
        Some(message) => json!(message),
        None => json!(plain(&seat["output"])),
    };
    row
}

/// `3 of 10: rendering`.
pub(super) fn progress(progress: &Value) -> String {
    if progress.is_null() {
        return String::new();
    }
    let note = progress["note"].as_str().map(|note| format!(": {note}")).unwrap_or_default();
    format!("{} of {}{note}", plain(&progress["step"]), plain(&progress["total"]))
}

/// Previous owners of the seats, if there were any.
pub(super) fn previous(seats: &Value) -> Option<String> {
    let mut rows = Vec::new();
    for seat in seats.as_array().into_iter().flatten() {
        for before in seat["previous"].as_array().into_iter().flatten() {
            let mut row = before.clone();
            row["seat"] = seat["seat"].clone();
            row["progress"] = json!(progress(&before["progress"]));
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
    (!rows.is_empty()).then(|| table(&rows, &columns))
}

async fn log(run: &str, limit: usize, client: &Client, output: Output) -> Result<()> {
    let items = client.list(&path(run, "/log"), &[], limit).await.map_err(|error| hinted(error, LIST))?;
    output.show(&json!({ "items": items }), |_| log_page(&items))
}

fn log_page(entries: &[Value]) -> String {
    let row = |entry: &Value| {
        let mut row = entry.clone();
        let from = entry["from"].as_str().unwrap_or("·");
        row["step"] = json!(format!("{from} → {}", plain(&entry["to"])));
        row
    };
    table(
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

async fn decide(run: &str, word: &str, body: &Value, client: &Client, output: Output) -> Result<()> {
    let answer = client.post(&path(run, &format!("/{word}")), body).await;
    let hint = format!("`millstream why {run}` says where it stands; {LIST}");
    let answer = answer.map_err(|error| hinted(error, &hint))?;
    output.show(&answer, |answer| told(run, answer))
}

fn told(run: &str, answer: &Value) -> String {
    let paused = if answer["paused"] == json!(true) { " and paused" } else { "" };
    let status = plain(&answer["status"]);
    let seats = answer["seats"].as_array().map(Vec::as_slice).unwrap_or_default();
    let at = seats.iter().filter_map(|seat| seat["device"].as_str()).collect::<Vec<_>>().join(", ");
    let at = if at.is_empty() || status == "failed" { String::new() } else { format!(" ({at})") };
    format!("{run} is {status}{paused}{at}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn film() -> Value {
        json!({
            "run_id": "film-1", "kind": "film", "status": "processing", "paused": false, "priority": 5,
            "requires": ["render"], "prefer": [], "assign": "auto", "created_at": "2026-01-01T00:00:00.000Z",
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
        insta::assert_snapshot!(list_page(&[film()]), @"
        ID      KIND  STATUS         PRIORITY  DEVICES  CREATED
        film-1  film  processing     5         phone-7  2026-01-01T00:00:00.000Z
        ");
    }

    #[test]
    fn a_run_is_shown_with_who_has_it_and_who_had_it() {
        insta::assert_snapshot!(run_page(&film()), @r#"
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
    fn a_decision_says_where_the_run_is_then() {
        assert_eq!(told("film-1", &film()), "film-1 is processing (phone-7)");
    }
}
