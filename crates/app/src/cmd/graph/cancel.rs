//! `millstream graph cancel ID`: end a graph, with the reason kept in its history.

use anyhow::Result;
use millstream_sdk::Client;

use crate::output::CliOutput;

pub(super) async fn run(id: &str, reason: Option<&str>, client: &Client, output: CliOutput) -> Result<()> {
    let answer = client.cancel_graph(id, reason).await?;
    output.show(&answer, |answer| {
        if answer.status.is_ended() {
            // It may have ended before, and otherwise than by this.
            format!("{id} is {}", answer.status)
        } else {
            format!("{id} is being cancelled")
        }
    })
}
