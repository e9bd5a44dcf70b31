//! A worker that does everything an author should not: it repeats its secrets wherever it can, panics, and
//! takes no for an answer only when it is told so. Tests alone start it.

use std::time::Duration;

use millstream_sdk::{ActionContext, ActionError, Worker, WorkerError};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Debug, Deserialize)]
struct Blunder {
    how: How,
    password: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum How {
    /// Succeeds and says it.
    Repeat,
    /// Says it at the very place where a message is cut.
    Ramble,
    /// Says it as its progress, and goes on until nobody wants it any more.
    Mutter,
    Panic,
    /// Succeeds at the third attempt.
    Stumble,
    /// Wants a person.
    Pause,
}

/// As long as the messages that are kept.
const KEPT: usize = 4096;

async fn blunder(ctx: ActionContext, blunder: Blunder) -> Result<Value, ActionError> {
    let password = blunder.password;
    let mut beats = tokio::time::interval(Duration::from_millis(50));
    match blunder.how {
        How::Repeat => Ok(json!({ "it": password, "in": format!("it is {password}!") })),
        How::Ramble => Err(ActionError::fail(format!("{}{password}", "x".repeat(KEPT - password.len() + 1)))),
        How::Mutter => loop {
            ctx.progress(json!({ "psst": password }))?;
            tokio::select! {
                _ = beats.tick() => {}
                () = ctx.cancelled() => return Err(ActionError::fail("nobody wants it").class("unwanted")),
            }
        },
        How::Panic => panic!("it was {password}"),
        How::Stumble if ctx.attempt() < 3 => Err(ActionError::retry(format!("not yet, {password}"))),
        How::Stumble => Ok(json!(ctx.attempt())),
        How::Pause => Err(ActionError::pause(format!("is it {password}?")).class("doubt")),
    }
}

#[tokio::main]
async fn main() -> Result<(), WorkerError> {
    Worker::builder().action("blunder", blunder).run().await
}
