//! `millstream graph cancel ID`: end a graph, with the reason kept in its history.

use anyhow::Result;
use serde_json::json;

use super::path;
use crate::client::ApiClient;
use crate::output::CliOutput;

pub(super) async fn run(id: &str, reason: Option<&str>, client: &ApiClient, output: CliOutput) -> Result<()> {
    let body = reason.map_or_else(|| json!({}), |reason| json!({ "reason": reason }));
    let answer = client.post(&path::graph_path(id, "/cancel"), &body).await?;
    output.show(&answer, |answer| match answer["status"].as_str() {
        // It may have ended before, and otherwise than by this.
        Some(status @ ("PASSED" | "FAILED" | "CANCELLED")) => format!("{id} is {status}"),
        Some(_) | None => format!("{id} is being cancelled"),
    })
}
