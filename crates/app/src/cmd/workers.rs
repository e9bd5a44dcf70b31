//! `millstream workers`: the workers that are up.

use anyhow::Result;
use millstream_sdk::Client;
use millstream_sdk::client::Page;

use crate::output::{CliOutput, format_table};

pub(crate) async fn run(client: &Client, output: CliOutput) -> Result<()> {
    let answer = Page { items: client.workers().all().await?, next_cursor: None };
    output.show(&answer, |answer| match answer.items.as_slice() {
        [] => "no workers".to_owned(),
        rows => format_table(
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
