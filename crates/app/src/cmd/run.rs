//! `millstream run`: device runs, and the operations on them.

use anyhow::Result;
use serde_json::{Value, json};

use crate::cli::{RunArgs, RunCommand, RunListArgs};
use crate::client::{ApiClient, path_segment};
use crate::failure::hinted;
use crate::output::{CliOutput, format_fields, format_table, plain_text};

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

pub(crate) async fn run(args: &RunArgs, client: &ApiClient, output: CliOutput) -> Result<()> {
    match &args.command {
        RunCommand::List(args) => list_runs(args, client, output).await,
        RunCommand::Get { run } => show_run(run, client, output).await,
        RunCommand::Log { run, limit } => show_log(run, *limit, client, output).await,
        RunCommand::Retry { run } => apply_decision(run, "retry", &json!({}), client, output).await,
        RunCommand::Pause { run } => apply_decision(run, "pause", &json!({}), client, output).await,
        RunCommand::Resume { run } => apply_decision(run, "resume", &json!({}), client, output).await,
        RunCommand::Cancel { run, why } => {
            let body = why.reason.as_ref().map_or_else(|| json!({}), |reason| json!({ "reason": reason }));
            apply_decision(run, "cancel", &body, client, output).await
        }
        RunCommand::Assign { run, device, seat } => {
            apply_decision(run, "assign", &json!({ "device": device, "seat": seat }), client, output).await
        }
    }
}

pub(super) fn run_path(run: &str, rest: &str) -> String {
    format!("/v1/runs/{}{rest}", path_segment(run))
}

async fn list_runs(args: &RunListArgs, client: &ApiClient, output: CliOutput) -> Result<()> {
    let query: Vec<(&str, String)> =
        [("status", &args.status), ("kind", &args.kind), ("execution_id", &args.execution)]
            .into_iter()
            .filter_map(|(name, value)| value.clone().map(|value| (name, value)))
            .collect();
    let items = client.list_pages("/v1/runs", &query, args.limit).await?;
    output.show(&json!({ "items": items }), |_| list_page(&items))
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

async fn show_run(run: &str, client: &ApiClient, output: CliOutput) -> Result<()> {
    let found = client.get(&run_path(run, "")).await.map_err(|error| hinted(error, LIST))?;
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

async fn show_log(run: &str, limit: usize, client: &ApiClient, output: CliOutput) -> Result<()> {
    let items =
        client.list_pages(&run_path(run, "/log"), &[], limit).await.map_err(|error| hinted(error, LIST))?;
    output.show(&json!({ "items": items }), |_| log_page(&items))
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

async fn apply_decision(
    run: &str,
    word: &str,
    body: &Value,
    client: &ApiClient,
    output: CliOutput,
) -> Result<()> {
    let answer = client.post(&run_path(run, &format!("/{word}")), body).await;
    let hint = format!("`millstream why {run}` says where it stands; {LIST}");
    let answer = answer.map_err(|error| hinted(error, &hint))?;
    output.show(&answer, |answer| decision_line(run, answer))
}

fn decision_line(run: &str, answer: &Value) -> String {
    let paused = if answer["paused"] == json!(true) { " and paused" } else { "" };
    let status = plain_text(&answer["status"]);
    let seats = answer["seats"].as_array().map(Vec::as_slice).unwrap_or_default();
    let at = seats.iter().filter_map(|seat| seat["device"].as_str()).collect::<Vec<_>>().join(", ");
    let at = if at.is_empty() || status == "failed" { String::new() } else { format!(" ({at})") };
    format!("{run} is {status}{paused}{at}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_run() -> Value {
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
        assert_eq!(decision_line("film-1", &sample_run()), "film-1 is processing (phone-7)");
    }
}
