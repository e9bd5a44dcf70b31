//! `millstream graph list`: graphs, newest first.

use anyhow::Result;
use millstream_sdk::Client;
use serde_json::{Value, json};

use super::summary;
use crate::client::{first_items, page_size};
use crate::output::{CliOutput, format_table, json_fields};

pub(super) async fn run(
    status: Option<&str>,
    limit: usize,
    client: &Client,
    output: CliOutput,
) -> Result<()> {
    let mut list = client.list_graphs().page_size(page_size(limit));
    if let Some(status) = status {
        list = list.filter("status", &status.to_uppercase());
    }
    let found = first_items(list.stream(), limit).await?;
    output.show_items(&found, |graphs| graphs_page(&graphs.iter().map(json_fields).collect::<Vec<_>>()))
}

fn graphs_page(graphs: &[Value]) -> String {
    if graphs.is_empty() {
        return "no graphs".to_owned();
    }
    let row = |graph: &Value| {
        let mut row = graph.clone();
        row["nodes"] = json!(summary::node_counts(&graph["nodes"]));
        row
    };
    format_table(
        &graphs.iter().map(row).collect::<Vec<_>>(),
        &[
            ("id", "graph_id"),
            ("name", "name"),
            ("status", "status"),
            ("nodes", "nodes"),
            ("revision", "revision"),
            ("updated", "updated_at"),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graphs_are_rows_with_counts() {
        assert_eq!(graphs_page(&[]), "no graphs");
        let graphs = [json!({
            "graph_id": "g-1", "name": "diamond", "status": "RUNNING", "nodes": { "PASS": 1, "PENDING": 3 },
            "revision": 1, "updated_at": "2026-01-01T00:00:02.000Z"
        })];
        insta::assert_snapshot!(graphs_page(&graphs), @"
        ID   NAME     STATUS   NODES              REVISION  UPDATED
        g-1  diamond  RUNNING  3 PENDING, 1 PASS  1         2026-01-01T00:00:02.000Z
        ");
    }
}
