//! `millstream workers`: the workers that are up.

use anyhow::Result;

use crate::client::ApiClient;
use crate::output::{CliOutput, format_table};

pub(crate) async fn run(client: &ApiClient, output: CliOutput) -> Result<()> {
    let answer = client.get("/v1/workers").await?;
    output.show(&answer, |answer| match answer["items"].as_array().map(Vec::as_slice) {
        None | Some([]) => "no workers".to_owned(),
        Some(rows) => format_table(
            rows,
            &[
                ("worker", "worker_id"),
                ("since", "started_at"),
                ("seen", "seen_at"),
                ("in flight", "in_flight"),
                ("version", "version"),
            ],
        ),
    })
}
