//! Places the demo's orders and waits for them.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use indicatif::ProgressBar;
use millstream_model::status::EventStatus;
use serde_json::json;

use crate::client::ApiClient;

const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Places all orders in batches: one request starts each, pays it and sends `ship`. `ship` arrives long
/// before the order is ready for it, and waits (`defer`).
pub(super) async fn place_orders(client: &ApiClient, orders: usize) -> Result<()> {
    let numbers: Vec<usize> = (1..=orders).collect();
    for chunk in numbers.chunks(50) {
        let batch: Vec<_> = chunk
            .iter()
            .map(|n| {
                let total = 10 + n % 90;
                json!({
                    "definition": "order",
                    "execution_id": format!("order-{n}"),
                    "input": { "order_id": format!("{n}"), "total": total },
                    "events": [
                        { "name": "pay", "payload": { "amount": total } },
                        { "name": "ship" },
                    ],
                })
            })
            .collect();
        client.post("/v1/executions", &json!(batch)).await?;
    }
    Ok(())
}

/// Waits until at least `wanted` orders are completed; returns their number.
pub(super) async fn wait_until(
    client: &ApiClient,
    wanted: usize,
    bar: &ProgressBar,
    deadline: Duration,
) -> Result<usize> {
    let started = Instant::now();
    loop {
        let done = completed_orders(client).await?;
        bar.set_position(done as u64);
        if done >= wanted {
            return Ok(done);
        }
        if started.elapsed() > deadline {
            bail!("only {done} of {wanted} orders were shipped within {}s", deadline.as_secs());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Waits until every event is final: a shipped order may still have a receipt to print.
pub(super) async fn wait_for_quiet(client: &ApiClient, deadline: Duration) -> Result<()> {
    let started = Instant::now();
    while started.elapsed() < deadline {
        let mut open = 0;
        for status in EventStatus::ALL.iter().filter(|status| !status.is_final()) {
            let query = [("status", status.to_string())];
            open += client.list_pages("/v1/events", &query, 1).await?.len();
        }
        if open == 0 {
            return Ok(());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    // The report counts and shows what is left unfinished.
    Ok(())
}

async fn completed_orders(client: &ApiClient) -> Result<usize> {
    let query = [("status", "completed".to_owned()), ("definition", "order".to_owned())];
    Ok(client.list_pages("/v1/executions", &query, usize::MAX).await?.len())
}
