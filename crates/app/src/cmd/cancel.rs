//! `millstream cancel ID`: end an execution, with the reason kept in its history.

use anyhow::Result;
use serde_json::json;

use crate::cli::CancelArgs;
use crate::client::{ApiClient, path_segment};
use crate::output::CliOutput;

pub(crate) async fn run(args: &CancelArgs, client: &ApiClient, output: CliOutput) -> Result<()> {
    let body = args.reason.as_ref().map_or_else(|| json!({}), |reason| json!({ "reason": reason }));
    let answer =
        client.post(&format!("/v1/executions/{}/cancel", path_segment(&args.execution)), &body).await?;
    output.show(&answer, |_| format!("{} is being cancelled", args.execution))
}
