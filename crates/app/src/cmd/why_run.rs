//! `millstream why RUN`: the device that has a run, and the scores of all devices at the last choice.

use anyhow::Result;
use millstream_sdk::Client;
use millstream_sdk::client::{RunLogLine, RunSeatSummary, RunStatus};
use serde::Serialize;
use serde_json::{Value, json};

use super::run::{previous_owners, progress_text};
use crate::client::hinted;
use crate::output::{CliOutput, format_fields, format_table, json_fields, plain_text};

const HINT: &str =
    "`millstream run list` shows the runs; the key of an action has slashes, as in default/o-1/4/charge";

/// A run with its decisions, and each seat with the last one.
#[derive(Serialize)]
struct ExplainedRun {
    run_id: String,
    status: RunStatus,
    paused: bool,
    seats: Vec<ExplainedSeat>,
    decisions: Vec<RunLogLine>,
}

#[derive(Serialize)]
struct ExplainedSeat {
    #[serde(flatten)]
    seat: RunSeatSummary,
    #[serde(skip_serializing_if = "Option::is_none")]
    decision: Option<RunLogLine>,
}

pub(crate) async fn run(id: &str, client: &Client, output: CliOutput) -> Result<()> {
    let why = client.why_run(id).await.map_err(|error| hinted(error, HINT))?;
    // The run includes its seats with their previous owners.
    let run = client.run(id).await?;
    let explain = |seat: RunSeatSummary| {
        let decision = last_decision(&why.decisions, seat.seat).cloned();
        ExplainedSeat { seat, decision }
    };
    let seats: Vec<ExplainedSeat> = run.seats.into_iter().map(explain).collect();
    let explained = ExplainedRun {
        run_id: why.run_id,
        status: why.status,
        paused: why.paused,
        seats,
        decisions: why.decisions,
    };
    output.show(&explained, |explained| explanation_page(&json_fields(explained)))
}

fn last_decision(decisions: &[RunLogLine], seat: u16) -> Option<&RunLogLine> {
    decisions.iter().rev().find(|decision| decision.seat == Some(seat))
}

fn explanation_page(why: &Value) -> String {
    let mut head = why.clone();
    if head["paused"] == json!(false) {
        head["paused"] = Value::Null;
    }
    let mut parts = vec![format_fields(&head, &["run_id", "status", "paused"])];
    for seat in why["seats"].as_array().into_iter().flatten() {
        parts.push(seat_status_line(seat));
        parts.push(score_cards(&seat["decision"]));
    }
    parts.extend(previous_owners(&why["seats"]));
    parts.join("\n\n")
}

/// Present owner of a seat, and its next step.
fn seat_status_line(seat: &Value) -> String {
    let (number, status) = (plain_text(&seat["seat"]), plain_text(&seat["status"]));
    let mut text = match seat["device"].as_str() {
        Some(device) => {
            let (token, since) = (plain_text(&seat["token"]), plain_text(&seat["assigned_at"]));
            let word = if status == "assigned" { "to" } else { "by" };
            format!("seat {number}: {status} {word} {device} since {since}, token {token}")
        }
        None => format!("seat {number}: {status}, not assigned"),
    };
    if !seat["progress"].is_null() {
        text.push_str(&format!(", {}", progress_text(&seat["progress"])));
    }
    if let Some(message) = seat["error"]["message"].as_str() {
        text.push_str(&format!("\nfailed: {message}"));
    }
    if !seat["due"].is_null() {
        text.push_str(&format!(
            "\nnext: {} at {}",
            plain_text(&seat["due"]["what"]),
            plain_text(&seat["due"]["at"])
        ));
    }
    text
}

/// All devices considered at the last choice.
fn score_cards(decision: &Value) -> String {
    let detail = &decision["detail"];
    let Some(all) = detail["cards"].as_array() else {
        return "no choice by score yet".to_owned();
    };
    let at = plain_text(&decision["at"]);
    let outcome = match (decision["device"].as_str(), detail["how"].as_str()) {
        (Some(device), Some("creator")) => {
            format!("{device} was chosen at {at}: it created the run and wants it")
        }
        (Some(device), Some("coordinator")) => format!("{device} was chosen at {at}: it is the coordinator"),
        (Some(device), _) => format!("{device} was chosen at {at}, by score"),
        (None, _) => match decision["why"].as_str() {
            Some(why) => format!("no device was chosen at {at}: {why}"),
            None => format!("no device was chosen at {at}"),
        },
    };
    let rows: Vec<Value> = all.iter().map(card_row).collect();
    let columns = [
        ("device", "device"),
        ("score", "score"),
        ("load", "load"),
        ("quality", "quality"),
        ("rank", "rank"),
        ("relevant", "relevant"),
        ("could not, because", "unfit"),
    ];
    let mut text = if rows.is_empty() {
        format!("{outcome}\nthere was no device at all; `millstream device list` lists the present devices")
    } else {
        format!("{outcome}\n\n{}", format_table(&rows, &columns))
    };
    if let Some(more) = detail["left_out"].as_u64() {
        text.push_str(&format!("\nand {more} more"));
    }
    text
}

fn card_row(card: &Value) -> Value {
    let number = |value: &Value| json!(value.as_f64().map(|number| format!("{number:.1}")));
    let parts = &card["parts"];
    json!({
        "device": card["device"],
        "score": number(&card["score"]),
        "load": number(&parts["load"]),
        "quality": number(&parts["quality"]),
        "rank": number(&parts["rank"]),
        "relevant": number(&parts["relevant"]),
        "unfit": unfit_reason(&card["unfit"]),
    })
}

/// Why a device was not a candidate. A reason unknown to this build is shown as the server sent it.
fn unfit_reason(unfit: &Value) -> String {
    match unfit["why"].as_str() {
        None => String::new(),
        Some("incapable") => format!("lacks {}", plain_text(&unfit["missing"])),
        Some("unreachable") => format!("not heard of since {}", plain_text(&unfit["seen_at"])),
        Some("paused") => "is paused".to_owned(),
        Some("battery") => format!("battery at {} %", plain_text(&unfit["percent"])),
        Some("on_another_seat") => "has another seat of this run".to_owned(),
        Some("passed_over") => "had its chance".to_owned(),
        Some("no_room") => format!("no room: it has {}", plain_text(&unfit["open"])),
        Some(other) => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_are_shown_with_score_or_reason() {
        let decision = json!({
            "position": 7, "at": "2026-01-01T00:00:05.000Z", "seat": 0, "word": "assign", "device": "phone-7",
            "detail": { "how": "score", "left_out": 2, "cards": [
                { "device": "phone-7", "score": 91.0,
                  "parts": { "load": 36.0, "quality": 30.0, "rank": 20.0, "relevant": 5.0 } },
                { "device": "desk", "unfit": { "why": "passed_over" } },
                { "device": "lamp", "unfit": { "why": "incapable", "missing": ["gpu", "render"] } },
                { "device": "old", "unfit": { "why": "unreachable", "seen_at": "2025-12-31T00:00:00.000Z" } },
                { "device": "new", "unfit": { "why": "asleep" } },
            ] }
        });
        let why = json!({
            "run_id": "film-1", "status": "processing", "paused": false,
            "seats": [{
                "seat": 0, "status": "processing", "device": "phone-7", "token": 2,
                "assigned_at": "2026-01-01T00:00:05.000Z", "progress": { "step": 3, "total": 10 },
                "due": { "what": "heartbeat_timeout", "at": "2026-01-01T00:01:35.000Z" }, "decision": decision,
                "previous": [{
                    "device": "desk", "token": 1, "assigned_at": "2026-01-01T00:00:00.000Z",
                    "ended_at": "2026-01-01T00:00:04.000Z", "reason": "declined", "why": "too hot"
                }]
            }]
        });
        insta::assert_snapshot!(explanation_page(&why), @"
        run_id  film-1
        status  processing

        seat 0: processing by phone-7 since 2026-01-01T00:00:05.000Z, token 2, 3 of 10
        next: heartbeat_timeout at 2026-01-01T00:01:35.000Z

        phone-7 was chosen at 2026-01-01T00:00:05.000Z, by score

         DEVICE   SCORE  LOAD  QUALITY  RANK  RELEVANT  COULD NOT, BECAUSE
         phone-7  91.0   36.0  30.0     20.0  5.0
         desk                                           had its chance
         lamp                                           lacks gpu, render
         old                                            not heard of since 2025-12-31T00:00:00.000Z
         new                                            asleep
        and 2 more

         BEFORE  SEAT  TOKEN  FROM                      UNTIL                     ENDED     BECAUSE  PROGRESS
         desk    0     1      2026-01-01T00:00:00.000Z  2026-01-01T00:00:04.000Z  declined  too hot
        ");
    }

    #[test]
    fn unassigned_run_shows_reason() {
        let why = json!({
            "run_id": "film-1", "status": "reassigning", "paused": true,
            "seats": [
                { "seat": 0, "status": "reassigning", "decision": {
                    "at": "2026-01-01T00:00:05.000Z", "seat": 0, "word": "nobody_viable", "why": "no device is able",
                    "detail": { "cards": [] } } },
                { "seat": 1, "status": "failed", "error": { "kind": "error", "message": "no way" } },
            ]
        });
        insta::assert_snapshot!(explanation_page(&why), @"
        run_id  film-1
        status  reassigning
        paused  true

        seat 0: reassigning, not assigned

        no device was chosen at 2026-01-01T00:00:05.000Z: no device is able
        there was no device at all; `millstream device list` lists the present devices

        seat 1: failed, not assigned
        failed: no way

        no choice by score yet
        ");
    }

    #[test]
    fn last_decision_per_seat_is_shown() {
        let decision = |position: i64, seat: u16| -> RunLogLine {
            serde_json::from_value(json!({
                "position": position, "seat": seat, "at": "2026-01-01T00:00:05.000Z", "word": "assign",
                "to": "assigned"
            }))
            .unwrap()
        };
        let decisions = [decision(1, 0), decision(2, 1), decision(3, 0)];
        assert_eq!(last_decision(&decisions, 0).map(|decision| decision.position), Some(3));
        assert_eq!(last_decision(&decisions, 2), None);
    }
}
