//! `millstream list`: executions, newest first.

use anyhow::Result;
use serde_json::json;

use crate::cli::ListArgs;
use crate::client::ApiClient;
use crate::output::{CliOutput, format_table};

pub(crate) async fn run(args: &ListArgs, client: &ApiClient, output: CliOutput) -> Result<()> {
    let query: Vec<(&str, String)> =
        [("definition", &args.definition), ("state", &args.state), ("status", &args.status)]
            .into_iter()
            .filter_map(|(name, value)| value.clone().map(|value| (name, value)))
            .collect();
    let items = client.list_pages("/v1/executions", &query, args.limit).await?;
    output.show(&json!({ "items": items }), |_| match items.as_slice() {
        [] => "no executions".to_owned(),
        rows => format_table(
            rows,
            &[
                ("id", "execution_id"),
                ("definition", "definition"),
                ("state", "state"),
                ("status", "status"),
                ("seq", "seq"),
                ("updated", "updated_at"),
            ],
        ),
    })
}
