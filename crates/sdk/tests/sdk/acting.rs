//! Actions without an engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use millstream_sdk::testing::ActionTest;
use millstream_sdk::{ActionContext, ActionError, CancellationToken, Decide, FailureDecision};
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Debug, Deserialize)]
struct ChargeInput {
    order_id: String,
    amount: u64,
}

#[derive(Debug, Serialize, PartialEq)]
struct Receipt {
    receipt: String,
}

async fn charge(ctx: ActionContext, input: ChargeInput) -> Result<Receipt, ActionError> {
    if input.amount > 100 {
        return Err(ActionError::fail("too much").class("card_declined"));
    }
    Ok(Receipt { receipt: format!("{}/{}/{}", input.order_id, ctx.key(), ctx.attempt()) })
}

#[tokio::test]
async fn action_sees_input_key_and_attempt() {
    let tested =
        ActionTest::new(charge).attempt(2).key("k").run(json!({ "order_id": "o-1", "amount": 3 })).await;
    assert_eq!(tested.result, Ok(Receipt { receipt: "o-1/k/2".to_owned() }));
    assert_eq!((tested.heartbeats, tested.progress.len()), (0, 0));
}

#[tokio::test]
async fn action_test_shows_authors_decision() {
    let tested = ActionTest::new(charge).run(json!({ "order_id": "o-1", "amount": 300 })).await;
    let error = tested.result.unwrap_err();
    assert_eq!((error.class_name(), error.decision()), ("card_declined", FailureDecision::Fail));
}

#[tokio::test]
async fn invalid_action_input_fails_permanently() {
    let error =
        ActionTest::new(charge).run(json!({ "order_id": "o-1", "amount": -1 })).await.result.unwrap_err();
    assert_eq!((error.class_name(), error.decision()), ("input", FailureDecision::Fail));
    assert!(error.message().starts_with("amount: "), "{error}");
}

#[tokio::test]
async fn invalid_action_output_fails_permanently() {
    let pairs = async |_: ActionContext, (): ()| Ok(std::collections::HashMap::from([((1, 2), 3)]));
    let error = ActionTest::new(pairs).run(()).await.result.unwrap_err();
    assert_eq!((error.class_name(), error.decision()), ("output", FailureDecision::Fail));
}

async fn copy(ctx: ActionContext, pages: u32) -> Result<u32, ActionError> {
    let done = ctx.last_progress::<u32>()?.unwrap_or(0);
    for page in done..pages {
        ctx.heartbeat();
        ctx.progress(page + 1)?;
    }
    Ok(pages - done)
}

#[tokio::test]
async fn next_attempt_finds_last_progress() {
    let first = ActionTest::new(copy).run(3).await;
    assert_eq!((first.result, first.heartbeats), (Ok(3), 6));
    let last = first.progress.last().unwrap().clone();
    let second = ActionTest::new(copy).attempt(2).last_progress(last).run(5).await;
    assert_eq!((second.result, second.progress), (Ok(2), vec![json!(4), json!(5)]));
    let strange = ActionTest::new(copy).last_progress("page seven").run(5).await.result.unwrap_err();
    assert_eq!((strange.class_name(), strange.decision()), ("progress", FailureDecision::Pause));
}

#[tokio::test]
async fn action_progress_is_limited() {
    let tell = async |ctx: ActionContext, length: usize| ctx.progress("x".repeat(length));
    assert_eq!(ActionTest::new(tell).run(16_000).await.result, Ok(()));
    let tested = ActionTest::new(tell).run(17_000).await;
    let error = tested.result.unwrap_err();
    assert_eq!((error.class_name(), error.decision()), ("progress", FailureDecision::Fail));
    assert!(error.message().contains("17002 bytes"), "{error}");
    assert!(tested.progress.is_empty());
}

#[tokio::test]
async fn attempt_is_dropped_at_deadline() {
    let for_ever = async |ctx: ActionContext, (): ()| {
        assert!(ctx.remaining() <= Duration::from_millis(20));
        std::future::pending::<Result<(), ActionError>>().await
    };
    let error =
        ActionTest::new(for_ever).timeout(Duration::from_millis(20)).run(()).await.result.unwrap_err();
    assert_eq!((error.class_name(), error.decision()), ("timeout", FailureDecision::Retry { after: None }));
}

#[tokio::test]
async fn action_notices_cancelled_execution() {
    let listening = async |ctx: ActionContext, (): ()| {
        ctx.cancelled().await;
        assert!(ctx.is_cancelled());
        Err::<(), _>(ActionError::fail("not wanted"))
    };
    let token = CancellationToken::new();
    let test = ActionTest::new(listening).cancelled_by(token.clone());
    let (tested, ()) = tokio::join!(test.run(()), async { token.cancel() });
    assert_eq!(tested.result.unwrap_err().message(), "not wanted");
}

#[tokio::test]
async fn action_may_be_a_closure() {
    let total = Arc::new(AtomicU64::new(0));
    let shared = Arc::clone(&total);
    let add = move |_: ActionContext, n: u64| {
        let total = Arc::clone(&shared);
        async move { Ok::<_, ActionError>(total.fetch_add(n, Ordering::Relaxed) + n) }
    };
    let test = ActionTest::new(add);
    assert_eq!(test.run(2).await.result, Ok(2));
    assert_eq!(test.run(3).await.result, Ok(5));
    assert_eq!(total.load(Ordering::Relaxed), 5);
}

#[tokio::test]
async fn foreign_error_needs_a_decision() {
    let parse = async |_: ActionContext, text: String| text.parse::<u8>().or_pause();
    assert_eq!(ActionTest::new(parse).run("12").await.result, Ok(12));
    let error = ActionTest::new(parse).run("x").await.result.unwrap_err();
    assert_eq!(error.decision(), FailureDecision::Pause);
}
