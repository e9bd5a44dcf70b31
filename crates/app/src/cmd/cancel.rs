//! `millstream cancel ID`: end an execution, with the reason kept in its history.

use anyhow::Result;
use serde_json::json;

use crate::cli::CancelArgs;
use crate::client::{Client, segment};
use crate::output::Output;

pub(crate) async fn run(args: &CancelArgs, client: &Client, output: Output) -> Result<()> {
    let body = args.reason.as_ref().map_or_else(|| json!({}), |reason| json!({ "reason": reason }));
    let answer = client.post(&format!("/v1/executions/{}/cancel", segment(&args.execution)), &body).await?;
    output.show(&answer, |_| format!("{} is being cancelled", args.execution))
}
