//! `millstream device`: the devices that perform runs.

use anyhow::Result;
use reqwest::Method;
use serde_json::{Value, json};

use crate::cli::{DeviceArgs, DeviceCommand};
use crate::client::{Client, segment};
use crate::failure::hinted;
use crate::output::{Output, fields, plain, table};

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

pub(crate) async fn run(args: &DeviceArgs, client: &Client, output: Output) -> Result<()> {
    match &args.command {
        DeviceCommand::List { limit } => list(*limit, client, output).await,
        DeviceCommand::Get { device } => {
            get(device, client, output).await.map_err(|error| hinted(error, HINT))
        }
        DeviceCommand::Pause { device } => set(device, "pause", client, output).await,
        DeviceCommand::Resume { device } => set(device, "resume", client, output).await,
        DeviceCommand::Remove { device } => remove(device, client, output).await,
    }
}

fn path(device: &str, rest: &str) -> String {
    format!("/v1/devices/{}{rest}", segment(device))
}

async fn list(limit: usize, client: &Client, output: Output) -> Result<()> {
    let items = client.list("/v1/devices", &[], limit).await?;
    output.show(&json!({ "items": items }), |_| list_page(&items))
}

fn list_page(devices: &[Value]) -> String {
    if devices.is_empty() {
        return "no devices".to_owned();
    }
    table(
        &devices.iter().map(row).collect::<Vec<_>>(),
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

fn row(device: &Value) -> Value {
    let mut row = device.clone();
    if let Some(capacity) = device["capacity"].as_u64() {
        row["open"] = json!(format!("{} of {capacity}", plain(&device["open"])));
    }
    if let Some(percent) = device["battery"].as_u64() {
        let source = if device["on_battery"] == json!(true) { "" } else { ", plugged in" };
        row["battery"] = json!(format!("{percent} %{source}"));
    }
    row["paused"] = json!(if device["paused"] == json!(true) { "paused" } else { "" });
    row
}

/// Includes its runs, where the key may read them.
async fn get(device: &str, client: &Client, output: Output) -> Result<()> {
    let mut found = client.get(&path(device, "")).await?;
    if let Ok(mut list) = client.get(&path(device, "/assignments")).await {
        found["assignments"] = list["items"].take();
    }
    output.show(&found, device_page)
}

fn device_page(device: &Value) -> String {
    let head = fields(device, DEVICE);
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
            format!("{head}\n\n{}", table(&rows, &columns))
        }
    }
}

fn assignment_row(assignment: &Value) -> Value {
    let mut row = assignment.clone();
    row["next"] = assignment["due"]["what"].clone();
    row["until"] = assignment["due"]["at"].clone();
    row
}

async fn set(device: &str, word: &str, client: &Client, output: Output) -> Result<()> {
    let answer = client.post(&path(device, &format!("/{word}")), &json!({})).await;
    let answer = answer.map_err(|error| hinted(error, HINT))?;
    output.show(&answer, |answer| match answer["paused"].as_bool() {
        Some(true) => format!("{device} is paused: nothing new is given to it"),
        Some(false) | None => format!("{device} may be chosen"),
    })
}

async fn remove(device: &str, client: &Client, output: Output) -> Result<()> {
    client.send(client.request(Method::DELETE, &path(device, ""))).await?;
    output.show(&json!({ "device_id": device, "removed": true }), |_| {
        format!("{device} is forgotten; what it had goes to others")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phone() -> Value {
        json!({
            "device_id": "phone-7", "capabilities": ["gpu", "render"], "capability": 0, "capacity": 2, "load": 0.1,
            "quality": 1.0, "battery": 80, "on_battery": true, "coordinator": false, "paused": true, "open": 1,
            "seen_at": "2026-01-01T00:00:00.000Z"
        })
    }

    #[test]
    fn devices_are_rows_with_room_and_battery() {
        assert_eq!(list_page(&[]), "no devices");
        let desk = json!({
            "device_id": "desk", "capabilities": [], "capacity": null, "load": 0.0, "battery": null, "paused": false,
            "on_battery": false, "open": 0, "seen_at": "2026-01-01T00:00:01.000Z"
        });
        insta::assert_snapshot!(list_page(&[desk, phone()]), @"
        ID       OPEN    LOAD  BATTERY  CAPABILITIES          SEEN
        desk     0       0.0                                  2026-01-01T00:00:01.000Z
        phone-7  1 of 2  0.1   80 %     gpu, render   paused  2026-01-01T00:00:00.000Z
        ");
    }

    #[test]
    fn a_device_is_shown_with_what_it_has() {
        let mut device = phone();
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
