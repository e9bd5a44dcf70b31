//! `millstream device`: the devices that perform runs.

use std::time::Duration;

use anyhow::Result;
use millstream_sdk::client::{DeviceView, RunAssignment};
use millstream_sdk::{Client, ClientError};
use serde::Serialize;
use serde_json::{Value, json};

use crate::cli::{DeviceArgs, DeviceCommand};
use crate::client::{first_items, hinted, page_size};
use crate::output::{CliOutput, format_fields, format_table, json_fields, plain_text};

const HINT: &str = "`millstream device list` shows which there are; a device registers itself (docs/API.md)";
const DEVICE: &[&str] = &[
    "device_id",
    "capabilities",
    "capability",
    "capacity",
    "open",
    "load",
    "quality",
    "battery",
    "on_battery",
    "coordinator",
    "paused",
    "seen_at",
];

pub(crate) async fn run(args: &DeviceArgs, client: &Client, output: CliOutput) -> Result<()> {
    match &args.command {
        DeviceCommand::List { limit } => list_devices(*limit, client, output).await,
        DeviceCommand::Get { device } => {
            show_device(device, client, output).await.map_err(|error| hinted(error, HINT))
        }
        DeviceCommand::Pause { device } => show_state(device, client.pause_device(device).await, output),
        DeviceCommand::Resume { device } => show_state(device, client.resume_device(device).await, output),
        DeviceCommand::Remove { device } => remove_device(device, client, output).await,
    }
}

async fn list_devices(limit: usize, client: &Client, output: CliOutput) -> Result<()> {
    let devices = client.devices().page_size(page_size(limit)).stream();
    output.show_items(&first_items(devices, limit).await?, |devices| {
        list_page(&devices.iter().map(json_fields).collect::<Vec<_>>())
    })
}

fn list_page(devices: &[Value]) -> String {
    if devices.is_empty() {
        return "no devices".to_owned();
    }
    format_table(
        &devices.iter().map(device_row).collect::<Vec<_>>(),
        &[
            ("id", "device_id"),
            ("open", "open"),
            ("load", "load"),
            ("battery", "battery"),
            ("capabilities", "capabilities"),
            ("", "paused"),
            ("seen", "seen_at"),
        ],
    )
}

fn device_row(device: &Value) -> Value {
    let mut row = device.clone();
    if let Some(capacity) = device["capacity"].as_u64() {
        row["open"] = json!(format!("{} of {capacity}", plain_text(&device["open"])));
    }
    if let Some(percent) = device["battery"].as_u64() {
        let source = if device["on_battery"] == json!(true) { "" } else { ", plugged in" };
        row["battery"] = json!(format!("{percent} %{source}"));
    }
    row["paused"] = json!(if device["paused"] == json!(true) { "paused" } else { "" });
    row
}

/// A device with its runs, where the key may read them.
#[derive(Serialize)]
struct ShownDevice {
    #[serde(flatten)]
    device: DeviceView,
    #[serde(skip_serializing_if = "Option::is_none")]
    assignments: Option<Vec<RunAssignment>>,
}

async fn show_device(device: &str, client: &Client, output: CliOutput) -> Result<()> {
    let found = client.device(device).await?;
    let assignments = client.run_assignments(device, None, Duration::ZERO).await;
    let shown = ShownDevice { device: found, assignments: assignments.ok().map(|list| list.items) };
    output.show(&shown, |shown| device_page(&json_fields(shown)))
}

fn device_page(device: &Value) -> String {
    let head = format_fields(device, DEVICE);
    match device["assignments"].as_array().map(Vec::as_slice) {
        None => head,
        Some([]) => format!("{head}\n\nit has nothing"),
        Some(all) => {
            let rows: Vec<Value> = all.iter().map(assignment_row).collect();
            let columns = [
                ("run", "run_id"),
                ("seat", "seat"),
                ("token", "token"),
                ("status", "status"),
                ("kind", "kind"),
                ("priority", "priority"),
                ("next", "next"),
                ("until", "until"),
            ];
            format!("{head}\n\n{}", format_table(&rows, &columns))
        }
    }
}

fn assignment_row(assignment: &Value) -> Value {
    let mut row = assignment.clone();
    row["next"] = assignment["due"]["what"].clone();
    row["until"] = assignment["due"]["at"].clone();
    row
}

fn show_state(device: &str, answer: Result<DeviceView, ClientError>, output: CliOutput) -> Result<()> {
    let answer = answer.map_err(|error| hinted(error, HINT))?;
    output.show(&answer, |answer| {
        if answer.paused {
            format!("{device} is paused: nothing new is given to it")
        } else {
            format!("{device} may be chosen")
        }
    })
}

async fn remove_device(device: &str, client: &Client, output: CliOutput) -> Result<()> {
    client.remove_device(device).await?;
    output.show(&json!({ "device_id": device, "removed": true }), |_| {
        format!("{device} is forgotten; what it had goes to others")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_phone() -> Value {
        json!({
            "device_id": "phone-7", "capabilities": ["gpu", "render"], "capability": 0, "capacity": 2, "load": 0.1,
            "quality": 1.0, "battery": 80, "on_battery": true, "coordinator": false, "paused": true, "open": 1,
            "seen_at": "2026-01-01T00:00:00.000Z"
        })
    }

    #[test]
    fn device_rows_show_room_and_battery() {
        assert_eq!(list_page(&[]), "no devices");
        let desk = json!({
            "device_id": "desk", "capabilities": [], "capacity": null, "load": 0.0, "battery": null, "paused": false,
            "on_battery": false, "open": 0, "seen_at": "2026-01-01T00:00:01.000Z"
        });
        insta::assert_snapshot!(list_page(&[desk, sample_phone()]), @"
        ID       OPEN    LOAD  BATTERY  CAPABILITIES          SEEN
        desk     0       0.0                                  2026-01-01T00:00:01.000Z
        phone-7  1 of 2  0.1   80 %     gpu, render   paused  2026-01-01T00:00:00.000Z
        ");
    }

    #[test]
    fn device_is_shown_with_its_runs() {
        let mut device = sample_phone();
        device["assignments"] = json!([{
            "run_id": "film-1", "seat": 0, "token": 3, "status": "assigned", "kind": "film", "priority": 5,
            "due": { "what": "assignment_timeout", "at": "2026-01-01T00:01:00.000Z" }
        }]);
        insta::assert_snapshot!(device_page(&device), @"
        device_id     phone-7
        capabilities  gpu, render
        capability    0
        capacity      2
        open          1
        load          0.1
        quality       1.0
        battery       80
        on_battery    true
        coordinator   false
        paused        true
        seen_at       2026-01-01T00:00:00.000Z

         RUN     SEAT  TOKEN  STATUS    KIND  PRIORITY  NEXT                UNTIL
         film-1  0     3      assigned  film  5         assignment_timeout  2026-01-01T00:01:00.000Z
        ");
    }
}
