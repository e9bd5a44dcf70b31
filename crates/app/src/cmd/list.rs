//! `millstream list`: executions, newest first.

use anyhow::Result;
use millstream_sdk::Client;

use crate::cli::ListArgs;
use crate::client::{first_items, page_size};
use crate::output::{CliOutput, format_table};

pub(crate) async fn run(args: &ListArgs, client: &Client, output: CliOutput) -> Result<()> {
    let mut list = client.executions().page_size(page_size(args.limit));
    for (name, value) in [("definition", &args.definition), ("state", &args.state), ("status", &args.status)]
    {
        if let Some(value) = value {
            list = list.filter(name, value);
        }
    }
    let found = first_items(list.stream(), args.limit).await?;
    output.show_items(&found, |items| match items {
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
