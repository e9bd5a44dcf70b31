//! The SDK: actions in Rust, performed by your own worker, and a typed client of the HTTP API.
//!
//! A definition says *what* happens; some of it has to be written in a programming language. An action is an
//! async function with a name. The engine calls it after the commit of the transition that contains it, at
//! least once, under a key that is the same for every attempt, and records one outcome.
//!
//! # The first action
//!
//! ```no_run
//! use millstream_sdk::{ActionContext, ActionError, Worker};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Deserialize)]
//! struct Charge {
//!     order_id: String,
//!     amount: u64,
//! }
//!
//! #[derive(Serialize)]
//! struct Receipt {
//!     receipt: String,
//! }
//!
//! async fn charge(ctx: ActionContext, input: Charge) -> Result<Receipt, ActionError> {
//!     println!("charging {} for {} under {}", input.amount, input.order_id, ctx.key());
//!     Ok(Receipt { receipt: format!("r-{}", input.order_id) })
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), millstream_sdk::WorkerError> {
//!     Worker::builder().action("charge", charge).run().await
//! }
//! ```
//!
//! A definition calls it by name. The return value is the `result` of the event that `on_success` names:
//!
//! ```yaml
//! actions:
//!   charge:
//!     call: charge
//!     input: { order_id: context.order_id, amount: context.amount }
//!     on_success: charged
//!     on_failure: charge_failed
//! ```
//!
//! [`run`](WorkerBuilder::run) reads its settings like the `millstream` binary: built-in defaults, a file,
//! the environment. With `MILLSTREAM_DATABASE_URL` and `MILLSTREAM_REDIS_URL` it is a worker of a fleet;
//! start any number of processes. Without settings it is the whole engine in this process, on SQLite, and
//! prints its address. SIGTERM drains it.
//!
//! State is captured by a closure:
//!
//! ```no_run
//! # use millstream_sdk::{ActionContext, ActionError, Worker};
//! # use std::sync::Arc;
//! # #[derive(Default)] struct Bank;
//! # impl Bank { async fn charge(&self, _key: &str, amount: u64) -> Result<u64, ActionError> { Ok(amount) } }
//! # async fn run() -> Result<(), millstream_sdk::WorkerError> {
//! let bank = Arc::new(Bank::default());
//! let charge = move |ctx: ActionContext, amount: u64| {
//!     let bank = Arc::clone(&bank);
//!     async move { bank.charge(ctx.key(), amount).await }
//! };
//! Worker::builder().action("charge", charge).run().await
//! # }
//! ```
//!
//! # Errors
//!
//! The error of a failed attempt states the consequence, because only the author knows it:
//!
//! | | consequence |
//! |---|---|
//! | [`ActionError::retry`] | another attempt, as the action's `retry` allows |
//! | [`ActionError::retry_after`] | the same, not sooner than asked |
//! | [`ActionError::fail`] | no further attempt; the `on_failure` event is sent, or the execution is paused |
//! | [`ActionError::pause`] | no further attempt; the execution is paused and an operator decides |
//!
//! There is no conversion from other errors, so that `?` does not decide by accident. [`Decide`] makes the
//! decision in one word, and [`class`](ActionError::class) lets programs distinguish failures:
//!
//! ```
//! # use millstream_sdk::{ActionContext, ActionError, Decide};
//! # use std::time::Duration;
//! # async fn post(_key: &str, _amount: u64) -> std::io::Result<(u16, String)> { Ok((402, String::new())) }
//! async fn charge(ctx: ActionContext, amount: u64) -> Result<u64, ActionError> {
//!     let (status, body) = post(ctx.key(), amount).await.or_retry()?;
//!     match status {
//!         200 => body.parse().or_pause(),
//!         402 => Err(ActionError::fail("the card is declined").class("card_declined")),
//!         429 => Err(ActionError::retry_after("the bank is busy", Duration::from_secs(30))),
//!         _ => Err(ActionError::retry(format!("the bank says {status}"))),
//!     }
//! }
//! ```
//!
//! Input that does not fit the function's type is a permanent failure of class `input`, with the place and
//! the reason. Output that JSON cannot represent is one of class `output`. A panic is caught and counts as
//! `retry`.
//!
//! An attempt may be repeated although an earlier one did its work: the process died before the outcome was
//! recorded. Send the [`key`](ActionContext::key) along with any side effect that must not happen twice.
//!
//! # Heartbeats and progress
//!
//! An attempt is dropped, at any `await`, at its [`deadline`](ActionContext::deadline) or when its worker has
//! lost the action's lease. A long action sends heartbeats and progress; the next attempt continues from
//! there:
//!
//! ```
//! # use millstream_sdk::{ActionContext, ActionError};
//! # async fn copy_page(_page: u32) -> Result<(), ActionError> { Ok(()) }
//! async fn copy(ctx: ActionContext, pages: u32) -> Result<u32, ActionError> {
//!     let done = ctx.last_progress::<u32>()?.unwrap_or(0);
//!     for page in done..pages {
//!         copy_page(page).await?;
//!         ctx.progress(page + 1)?;
//!     }
//!     Ok(pages)
//! }
//! ```
//!
//! # Cancellation
//!
//! When an execution is cancelled its running attempts are notified, not killed. An action that listens can
//! clean up:
//!
//! ```
//! # use millstream_sdk::{ActionContext, ActionError};
//! # async fn print(_: &str) -> Result<u32, ActionError> { Ok(1) }
//! async fn print_label(ctx: ActionContext, text: String) -> Result<u32, ActionError> {
//!     tokio::select! {
//!         printed = print(&text) => printed,
//!         () = ctx.cancelled() => Err(ActionError::fail("the label is obsolete").class("cancelled")),
//!     }
//! }
//! ```
//!
//! # Testing an action without a server
//!
//! [`testing::ActionTest`] makes one attempt as the engine would, and records its progress:
//!
//! ```
//! # use millstream_sdk::{ActionContext, ActionError};
//! # async fn copy(ctx: ActionContext, pages: u32) -> Result<u32, ActionError> {
//! #     let done = ctx.last_progress::<u32>()?.unwrap_or(0);
//! #     for page in done..pages { ctx.progress(page + 1)?; }
//! #     Ok(pages)
//! # }
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! use millstream_sdk::testing::ActionTest;
//!
//! let tested = ActionTest::new(copy).attempt(2).last_progress(7).run(10).await;
//! assert_eq!(tested.result, Ok(10));
//! assert_eq!(tested.progress, [8, 9, 10]);
//! # }
//! ```
//!
//! For a whole workflow in a test, [`start`](WorkerBuilder::start) an engine in a temporary directory:
//!
//! ```no_run
//! # use millstream_sdk::{ActionContext, ActionError, Worker};
//! # async fn charge(_: ActionContext, amount: u64) -> Result<u64, ActionError> { Ok(amount) }
//! # async fn whole() -> Result<(), Box<dyn std::error::Error>> {
//! let engine = Worker::builder()
//!     .action("charge", charge)
//!     .directory("/tmp/a-new-directory")
//!     .listen("127.0.0.1:0".parse()?)
//!     .start()
//!     .await?;
//! let client = engine.client()?;
//! // … apply a definition, start executions, look at what became of them …
//! engine.stop().await?;
//! # Ok(()) }
//! ```
//!
//! # The client
//!
//! ```no_run
//! # use std::time::Duration;
//! # use serde_json::json;
//! # async fn whole() -> Result<(), millstream_sdk::ClientError> {
//! use millstream_sdk::Client;
//! use millstream_sdk::client::ExecutionStatus;
//!
//! let client = Client::builder("http://127.0.0.1:7400").key("ms_…").build()?;
//! client.apply_yaml(include_str!("../../../examples/order.yaml")).await?;
//!
//! let order = client.start("order").id("o-17").input(json!({ "order_id": "o-17", "total": 30 })).await?;
//! let sent = client
//!     .send(&order.execution_id, "pay")
//!     .payload(json!({ "amount": 30 }))
//!     .wait(Duration::from_secs(5))
//!     .await?;
//! println!("{}: {}", sent.event_id, sent.status);
//!
//! let mut tail = client.tail(&order.execution_id);
//! while let Some(transition) = tail.next().await {
//!     let transition = transition?;
//!     println!("{} {} → {}", transition.seq, transition.name, transition.to_state);
//! }
//!
//! let mut failed = client.executions().definition("order").status(ExecutionStatus::Failed).stream();
//! while let Some(execution) = failed.next().await {
//!     println!("{}", execution?.execution_id);
//! }
//! # Ok(()) }
//! ```
//!
//! # Graphs
//!
//! A graph defines steps and their order; executors perform the steps. See [`graph`] for building one.
//!
//! ```no_run
//! # use std::time::Duration;
//! # use serde_json::json;
//! # async fn whole(client: millstream_sdk::Client) -> Result<(), millstream_sdk::ClientError> {
//! use millstream_sdk::client::{GraphNotice, GraphStatus, NodeStatus};
//! use millstream_sdk::graph::{NewGraph, NewNode};
//!
//! let release = NewGraph::named("release")
//!     .input(json!({ "tag": "v2" }))
//!     .node(NewNode::of("build").role("builder").goal("build the tag"))
//!     .node(NewNode::of("test").after("build").goal("run the tests"));
//! let created = client.create_graph(release).id("release-v2").await?;
//!
//! // The shape may change while it runs; the revision guards against concurrent edits.
//! let publish = NewNode::of("publish").after_if("test", "results.test.failures == 0");
//! client.edit_graph("release-v2", created.revision).insert(publish).await?;
//!
//! let mut watch = client.watch_graph("release-v2");
//! while let Some(event) = watch.next().await {
//!     if let GraphNotice::NodeCompleted { node, status, .. } = event?.what {
//!         println!("{node} {status}");
//!     }
//! }
//!
//! let ended = client.wait_for_graph("release-v2", Duration::from_secs(60)).await?;
//! if ended.status == GraphStatus::Failed {
//!     for node in client.nodes("release-v2").status(NodeStatus::Fail).await? {
//!         println!("{}: {}", node.node, node.why.unwrap_or_default());
//!     }
//! }
//! # Ok(()) }
//! ```
//!
//! # Devices
//!
//! A device performs runs: work that it owns exclusively, fenced by a token. [`Device`] registers it, waits
//! for runs, sends heartbeats, and notifies the function when the device has lost a run:
//!
//! ```no_run
//! # async fn whole(client: millstream_sdk::Client) -> Result<(), millstream_sdk::ClientError> {
//! use millstream_sdk::client::{NewDevice, NewRun};
//! use millstream_sdk::{Device, RunContext, RunError};
//!
//! client.create_run(&NewRun::of("film").id("film-1").requires("render").input(300.into())).await?;
//! Device::new(client, NewDevice::of("phone-7").can("render"))
//!     .serve(async |run: RunContext, frames: u64| {
//!         tokio::select! {
//!             drawn = draw(&run, frames) => drawn,
//!             () = run.lost() => Err(RunError::release("another device has it")),
//!         }
//!     })
//!     .await
//! # }
//! # async fn draw(run: &millstream_sdk::RunContext, frames: u64) -> Result<u64, millstream_sdk::RunError> { Ok(frames) }
//! ```
//!
//! # Guarantees of calls
//!
//! A 2xx means durable. Calls are retried on connection errors, 429 and 503 where that is safe, and it is
//! made safe: each event carries an idempotency key and each start an id, created once per call and kept over
//! its retries. Supply your own keys and ids to be safe over restarts of *your* process as well. A refusal of
//! the server is a [`ClientError::Refused`] with its [problem document](client::ServerProblem).
//!
//! Without the feature `worker` (`default-features = false`) only the client remains, and no engine is
//! linked.

pub mod client;
mod client_error;
mod device;
pub mod graph;

#[cfg(feature = "worker")]
mod action;
#[cfg(feature = "worker")]
mod client_settings;
#[cfg(feature = "worker")]
mod running_worker;
#[cfg(feature = "worker")]
pub mod testing;
#[cfg(feature = "worker")]
mod worker;
#[cfg(feature = "worker")]
mod worker_error;

#[cfg(feature = "worker")]
pub use action::{ActionContext, ActionError, Decide, FailureDecision};
pub use client::{Client, ClientError};
pub use device::{Device, RunContext, RunError};
#[cfg(feature = "worker")]
pub use millstream_runtime::config::{self, Config};
#[cfg(feature = "worker")]
pub use running_worker::RunningWorker;
#[cfg(feature = "worker")]
pub use tokio_util::sync::CancellationToken;
#[cfg(feature = "worker")]
pub use worker::{Worker, WorkerBuilder};
#[cfg(feature = "worker")]
pub use worker_error::WorkerError;
