//! `millstream graph executors`: the executors that can perform nodes.

use anyhow::Result;
use millstream_sdk::Client;
use millstream_sdk::client::Page;
use serde_json::{Value, json};

use crate::output::{CliOutput, format_table, json_fields, plain_text};

pub(super) async fn run(client: &Client, output: CliOutput) -> Result<()> {
    let answer = Page { items: client.executors().all().await?, next_cursor: None };
    output.show(&answer, |answer| executors_page(&answer.items.iter().map(json_fields).collect::<Vec<_>>()))
}

fn executors_page(executors: &[Value]) -> String {
    if executors.is_empty() {
        return "no executors".to_owned();
    }
    let row = |executor: &Value| {
        let mut row = executor.clone();
        row["busy"] =
            json!(format!("{} of {}", plain_text(&executor["load"]), plain_text(&executor["capacity"])));
        if plain_text(&executor["roles"]).is_empty() {
            row["roles"] = json!("any");
        }
        row
    };
    format_table(
        &executors.iter().map(row).collect::<Vec<_>>(),
        &[
            ("executor", "name"),
            ("address", "address"),
            ("roles", "roles"),
            ("labels", "labels"),
            ("busy", "busy"),
            ("seen", "seen_at"),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executor_rows_show_load() {
        assert_eq!(executors_page(&[]), "no executors");
        let executors = [
            json!({ "name": "e-1", "address": "http://10.0.0.1:7000", "roles": ["writer", "reader"],
                    "labels": ["gpu"], "capacity": 4, "load": 1, "seen_at": "2026-01-01T00:00:02.000Z" }),
            json!({ "name": "e-2", "address": "http://10.0.0.2:7000", "roles": [], "labels": [],
                    "capacity": 1, "load": 0, "seen_at": "2026-01-01T00:00:03.000Z" }),
        ];
        insta::assert_snapshot!(executors_page(&executors), @"
        EXECUTOR  ADDRESS               ROLES           LABELS  BUSY    SEEN
        e-1       http://10.0.0.1:7000  writer, reader  gpu     1 of 4  2026-01-01T00:00:02.000Z
        e-2       http://10.0.0.2:7000  any                     0 of 1  2026-01-01T00:00:03.000Z
        ");
    }
}
