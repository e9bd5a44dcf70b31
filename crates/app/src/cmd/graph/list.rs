//! `millstream graph list`: graphs, newest first.

use anyhow::Result;
use serde_json::{Value, json};

use super::summary;
use crate::client::ApiClient;
use crate::output::{CliOutput, format_table};

pub(super) async fn run(
    status: Option<&str>,
    limit: usize,
    client: &ApiClient,
    output: CliOutput,
) -> Result<()> {
    let query: Vec<_> = status.iter().map(|status| ("status", status.to_uppercase())).collect();
    let items = client.list_pages("/v1/graphs", &query, limit).await?;
    output.show(&json!({ "items": items }), |_| graphs_page(&items))
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
