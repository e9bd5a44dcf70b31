//! Set-up before the clock starts: the definition, and the executions that receive events.

use crate::error::{BenchError, BenchResult};
use crate::target::EngineUnderTest;
use crate::wire::{BenchConnection, ServerAddress};
use crate::workload::Workload;

/// Executions per request.
const BATCH: usize = 500;
/// Concurrent requests.
const HANDS: usize = 4;

pub(crate) async fn apply_definition(
    subject: &mut EngineUnderTest,
    workload: Workload,
    sink: &str,
) -> BenchResult<()> {
    let definition = workload.definition(sink);
    subject
        .front_connection()
        .post("/v1/definitions", "application/yaml", definition.as_bytes(), &[200, 201])
        .await?;
    Ok(())
}

/// Starts `count` executions named `{prefix}{number}`.
pub(crate) async fn start_executions(
    address: &ServerAddress,
    workload: Workload,
    prefix: &str,
    count: usize,
) -> BenchResult<()> {
    let mut hands = tokio::task::JoinSet::new();
    for hand in 0..HANDS {
        let (address, prefix) = (address.clone(), prefix.to_owned());
        hands.spawn(async move {
            let mut connection = BenchConnection::to_server(&address);
            for first in (hand * BATCH..count).step_by(HANDS * BATCH) {
                let body = start_requests(workload, &prefix, first, BATCH.min(count - first));
                let answer = connection
                    .post("/v1/executions", "application/json", body.as_bytes(), &[200, 201, 202, 207])
                    .await?;
                let answer = String::from_utf8_lossy(&answer);
                if answer.contains("\"problem\"") {
                    return Err(BenchError::Wrong(format!(
                        "an execution was refused: {}",
                        crate::wire::short_excerpt(&answer)
                    )));
                }
            }
            Ok(())
        });
    }
    while let Some(ended) = hands.join_next().await {
        ended.map_err(|error| BenchError::Wrong(format!("setting up stopped: {error}")))??;
    }
    Ok(())
}

fn start_requests(workload: Workload, prefix: &str, first: usize, count: usize) -> String {
    let items: Vec<String> = (first..first + count)
        .map(|number| {
            format!("{{\"definition\":\"bench_{workload}\",\"execution_id\":\"{prefix}{number}\",\"input\":{{\"at\":\"{number}\"}}}}")
        })
        .collect();
    format!("[{}]", items.join(","))
}
