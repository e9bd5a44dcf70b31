//! `millstream graph cancel ID`: end a graph, with the reason kept in its history.

use anyhow::Result;
use millstream_sdk::Client;
use millstream_sdk::client::GraphStatus;

use crate::output::CliOutput;

pub(super) async fn run(id: &str, reason: Option<&str>, client: &Client, output: CliOutput) -> Result<()> {
    let answer = client.cancel_graph(id, reason).await?;
    output.show(&answer, |answer| match answer.status {
        // It may have ended before, and otherwise than by this.
        status @ (GraphStatus::Passed | GraphStatus::Failed | GraphStatus::Cancelled) => {
            format!("{id} is {status}")
        }
        _ => format!("{id} is being cancelled"),
    })
}
