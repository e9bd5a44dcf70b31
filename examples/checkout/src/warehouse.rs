//! What a warehouse does: reserve, release, pack.

use std::time::Duration;

use millstream_sdk::{ActionContext, ActionError};
use serde::{Deserialize, Serialize};

#[derive(Debug, Deserialize)]
pub struct Order {
    pub order_id: String,
    pub items: Vec<String>,
}

#[derive(Debug, Serialize)]
pub struct Reserved {
    pub reservation: String,
    pub items: usize,
}

/// The action's key is the same on every attempt: a warehouse that knows it reserves once.
pub async fn reserve(ctx: ActionContext, order: Order) -> Result<Reserved, ActionError> {
    if order.items.iter().any(|item| item == "unicorn") {
        return Err(
            ActionError::fail(format!("order {}: unicorns are out of stock", order.order_id)).class("stock")
        );
    }
    Ok(Reserved { reservation: ctx.key().to_owned(), items: order.items.len() })
}

#[derive(Debug, Deserialize)]
pub struct Release {
    pub reservation: String,
}

pub async fn release(_: ActionContext, release: Release) -> Result<String, ActionError> {
    Ok(format!("released {}", release.reservation))
}

#[derive(Debug, Deserialize)]
pub struct Pack {
    pub seconds: u64,
}

#[derive(Debug, Serialize)]
pub struct Packed {
    pub attempt: i32,
    pub begun_at: u64,
}

/// Takes its time, says so, and goes on from where the attempt before it was.
pub async fn pack(ctx: ActionContext, pack: Pack) -> Result<Packed, ActionError> {
    let begun_at = ctx.last_progress::<u64>()?.unwrap_or(0);
    for step in begun_at..pack.seconds * 5 {
        ctx.progress(step)?;
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(200)) => {}
            () = ctx.cancelled() => return Err(ActionError::fail("nobody wants it any more")),
        }
    }
    Ok(Packed { attempt: ctx.attempt(), begun_at })
}
