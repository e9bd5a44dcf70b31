//! `millstream graph executors`: the executors that can perform nodes.

use anyhow::Result;
use serde_json::{Value, json};

use crate::client::Client;
use crate::output::{Output, plain, table};

pub(super) async fn run(client: &Client, output: Output) -> Result<()> {
    let answer = client.get("/v1/executors").await?;
    output.show(&answer, |answer| page(answer["items"].as_array().map_or(&[], Vec::as_slice)))
}

fn page(executors: &[Value]) -> String {
    if executors.is_empty() {
        return "no executors".to_owned();
    }
    let row = |executor: &Value| {
        let mut row = executor.clone();
        row["busy"] = json!(format!("{} of {}", plain(&executor["load"]), plain(&executor["capacity"])));
        if plain(&executor["roles"]).is_empty() {
            row["roles"] = json!("any");
        }
        row
    };
    table(
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
    fn executors_are_rows_with_their_load() {
        assert_eq!(page(&[]), "no executors");
        let executors = [
            json!({ "name": "e-1", "address": "http://10.0.0.1:7000", "roles": ["writer", "reader"],
                    "labels": ["gpu"], "capacity": 4, "load": 1, "seen_at": "2026-01-01T00:00:02.000Z" }),
            json!({ "name": "e-2", "address": "http://10.0.0.2:7000", "roles": [], "labels": [],
                    "capacity": 1, "load": 0, "seen_at": "2026-01-01T00:00:03.000Z" }),
        ];
        insta::assert_snapshot!(page(&executors), @"
        EXECUTOR  ADDRESS               ROLES           LABELS  BUSY    SEEN
        e-1       http://10.0.0.1:7000  writer, reader  gpu     1 of 4  2026-01-01T00:00:02.000Z
        e-2       http://10.0.0.2:7000  any                     0 of 1  2026-01-01T00:00:03.000Z
        ");
    }
}
