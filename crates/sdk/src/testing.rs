//! Tests of actions without a server.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use millstream_model::id::{ActionKey, ExecutionId, ExecutionKey, Name, Seq, TenantId};
use millstream_model::raw::RawJson;
use millstream_worker::{ActionCall, AttemptBeat, AttemptPulse};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::action::{ActionContext, ActionError, HeartbeatSenders, read_input, write_output};

type TypedAction<I, O> =
    Arc<dyn Fn(ActionContext, I) -> BoxFuture<'static, Result<O, ActionError>> + Send + Sync>;

/// One attempt at an action, as the engine would make it, without an engine.
///
/// ```
/// use millstream_sdk::testing::ActionTest;
/// use millstream_sdk::{ActionContext, ActionError};
///
/// async fn double(_: ActionContext, n: u64) -> Result<u64, ActionError> {
///     n.checked_mul(2).ok_or_else(|| ActionError::fail("too large"))
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let tested = ActionTest::new(double).attempt(2).run(21).await;
/// assert_eq!(tested.result, Ok(42));
/// # }
/// ```
pub struct ActionTest<I, O> {
    action: TypedAction<I, O>,
    execution: String,
    key: Option<String>,
    attempt: i32,
    token: Option<i64>,
    timeout: Duration,
    progress: Option<Value>,
    cancelled: CancellationToken,
}

/// Result of an attempt.
#[derive(Debug)]
#[non_exhaustive]
pub struct ActionTestResult<O> {
    /// The output of the action, or its error. Input that does not fit the action's type and output that JSON
    /// cannot represent are errors here as they are in the engine; an attempt past its deadline is one of
    /// class `timeout`.
    pub result: Result<O, ActionError>,
    /// Number of heartbeats, including those with progress.
    pub heartbeats: usize,
    /// Every reported progress, in order. The engine keeps the last one.
    pub progress: Vec<Value>,
}

impl<I, O> ActionTest<I, O>
where
    I: DeserializeOwned + Send + 'static,
    O: Serialize + 'static,
{
    /// The first attempt, with a minute of time, by default.
    pub fn new<F, Fut>(action: F) -> Self
    where
        F: Fn(ActionContext, I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, ActionError>> + Send + 'static,
    {
        Self {
            action: Arc::new(move |context, input| Box::pin(action(context, input))),
            execution: "test".to_owned(),
            key: None,
            attempt: 1,
            token: None,
            timeout: Duration::from_secs(60),
            progress: None,
            cancelled: CancellationToken::new(),
        }
    }

    /// Number of the attempt, from 1.
    #[must_use]
    pub fn attempt(mut self, attempt: i32) -> Self {
        self.attempt = attempt;
        self
    }

    /// The idempotency key; by default one in the engine's format.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// The fencing token; by default the attempt's number.
    #[must_use]
    pub fn token(mut self, token: i64) -> Self {
        self.token = Some(token);
        self
    }

    /// The execution's id; characters that an id cannot contain become `-`.
    #[must_use]
    pub fn execution_id(mut self, id: impl Into<String>) -> Self {
        self.execution = id.into();
        self
    }

    /// Time limit of the attempt. With `tokio::time::pause` no real time passes.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The last progress of the previous attempt.
    #[must_use]
    pub fn last_progress(mut self, progress: impl Into<Value>) -> Self {
        self.progress = Some(progress.into());
        self
    }

    /// Cancels the execution with this token: before the test, or while it runs.
    #[must_use]
    pub fn cancelled_by(mut self, token: CancellationToken) -> Self {
        self.cancelled = token;
        self
    }

    /// Makes the attempt. The input goes through JSON, as it does in the engine. A panic reaches the test:
    /// the engine would catch it and retry.
    pub async fn run(&self, input: impl Serialize) -> ActionTestResult<O> {
        let (seen, mut signs) = mpsc::unbounded_channel();
        let result = self.attempt_at(&input, seen).await;
        let mut tested = ActionTestResult { result, heartbeats: 0, progress: Vec::new() };
        while let Ok(sign) = signs.try_recv() {
            tested.heartbeats += 1;
            tested.progress.extend(sign);
        }
        tested
    }

    async fn attempt_at(
        &self,
        input: &impl Serialize,
        seen: mpsc::UnboundedSender<Option<Value>>,
    ) -> Result<O, ActionError> {
        let input = write_output(input).map_err(|error| error.class("input"))?;
        let (beats, _) = watch::channel(AttemptBeat { at: Instant::now(), progress: None });
        let pulse = AttemptPulse::new(beats, self.cancelled.clone());
        let signs = HeartbeatSenders { pulse: pulse.clone(), seen: Some(seen) };
        let (context, input) = ActionContext::of_watched_call(self.action_call(input, pulse)?, signs);
        let performing = (self.action)(context, read_input(&input)?);
        let output = tokio::time::timeout(self.timeout, performing)
            .await
            .unwrap_or_else(|_| Err(ActionError::retry("no result in time").class("timeout")))?;
        write_output(&output)?;
        Ok(output)
    }

    fn action_call(&self, input: RawJson, pulse: AttemptPulse) -> Result<ActionCall, ActionError> {
        let name = || Name::parse("test").map_err(ActionError::fail);
        let id: String = self
            .execution
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || "_.:-".contains(c) { c } else { '-' })
            .collect();
        let execution = ExecutionKey {
            tenant: TenantId::default_tenant(),
            execution: ExecutionId::parse(id).map_err(ActionError::fail)?,
        };
        let action = ActionKey { execution, seq: Seq(2), action: name()? };
        Ok(ActionCall {
            name: name()?,
            key: self.key.clone().unwrap_or_else(|| action.to_string()),
            action,
            attempt: self.attempt,
            token: self.token.unwrap_or(self.attempt.into()),
            deadline: Instant::now() + self.timeout,
            input,
            progress: self.progress.as_ref().map(RawJson::from_value),
            pulse,
        })
    }
}

impl<I, O> std::fmt::Debug for ActionTest<I, O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ActionTest").field("attempt", &self.attempt).finish_non_exhaustive()
    }
}
