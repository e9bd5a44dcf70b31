//! Places the demo's orders and waits for them.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use indicatif::ProgressBar;
use millstream_sdk::Client;
use millstream_sdk::client::{EventStatus, ExecutionStatus, NewExecution};
use serde_json::json;

use crate::client::{first_items, page_size};

const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The statuses of events that are not final.
const UNFINISHED: &[EventStatus] = &[EventStatus::Pending, EventStatus::Deferred, EventStatus::Processing];

/// Places all orders in batches: one request starts each, pays it and sends `ship`. `ship` arrives long
/// before the order is ready for it, and waits (`defer`).
pub(super) async fn place_orders(client: &Client, orders: usize) -> Result<()> {
    let numbers: Vec<usize> = (1..=orders).collect();
    for chunk in numbers.chunks(50) {
        let batch = chunk.iter().map(|n| {
            let total = 10 + n % 90;
            NewExecution::of("order")
                .id(format!("order-{n}"))
                .input(json!({ "order_id": format!("{n}"), "total": total }))
                .event_with("pay", json!({ "amount": total }))
                .event("ship")
        });
        for started in client.start_many(batch).await? {
            started?;
        }
    }
    Ok(())
}

/// Waits until at least `wanted` orders are completed; returns their number.
pub(super) async fn wait_until(
    client: &Client,
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
pub(super) async fn wait_for_quiet(client: &Client, deadline: Duration) -> Result<()> {
    let started = Instant::now();
    while started.elapsed() < deadline {
        let mut open = 0;
        for status in UNFINISHED {
            let events = client.events().status(*status).page_size(1).stream();
            open += first_items(events, 1).await?.len();
        }
        if open == 0 {
            return Ok(());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    // The report counts and shows what is left unfinished.
    Ok(())
}

async fn completed_orders(client: &Client) -> Result<usize> {
    let orders = client.executions().definition("order").status(ExecutionStatus::Completed);
    Ok(orders.page_size(page_size(usize::MAX)).await?.len())
}
