//! An attempt at a graph node: chooses an executor, records it, calls it, and turns the result into an
//! answer.
//!
//! Every outcome, good or bad, is returned to the graph as an [`Answer`]: the graph decides about another
//! attempt. An unavailable store is no outcome: the same attempt is made when it is back.
//!
//! A node without a suitable executor waits: for capacity at an executor as long as that may come at any
//! moment, and from then on as an action that is looked at again later.

use std::time::Duration;

use millstream_core::action::Attempt;
use millstream_core::graph::{self, Answer, NodeInput, NodeStatus, Token, Work};
use millstream_core::quota::caps;
use millstream_core::raw::RawJson;
use millstream_rpc::client::{CallFailure, ExecutorTarget};
use millstream_rpc::proto::{ExecuteNodeRequest, ExecuteNodeResponse};
use millstream_rpc::read::{self, Asked, Heard};
use millstream_rpc::write;
use millstream_store::Result;
use millstream_store::action_store::{Begun, LeasedAction};
use millstream_store::graph_store::{Dispatch, DispatchContext, NodeFilter, NodeLog};
use tokio::time::Instant;

use super::emit::unavailable;
use super::errand::{Credentials, Done};
use super::leases::Held;
use super::node_child;
use crate::executors::{NoPlace, Place, Wanted};
use crate::metrics;
use crate::worker::Worker;

/// Time that a node waits here for an executor before it is released.
const PATIENCE: Duration = Duration::from_secs(2);
/// Delay before a retry while the store is unavailable.
const STORE_AWAY: Duration = Duration::from_secs(1);
/// Longest delay until it is looked at again.
const LONGEST: Duration = Duration::from_secs(10);

/// Calls executors.
#[async_trait::async_trait]
pub trait PerformNodes: Send + Sync + std::fmt::Debug {
    /// Calls an executor once. Dropping the future cancels the call at the executor.
    async fn execute(
        &self,
        executor: &ExecutorTarget,
        request: ExecuteNodeRequest,
        deadline: Instant,
    ) -> std::result::Result<ExecuteNodeResponse, CallFailure>;
}

#[async_trait::async_trait]
impl PerformNodes for millstream_rpc::client::Executors {
    async fn execute(
        &self,
        executor: &ExecutorTarget,
        request: ExecuteNodeRequest,
        deadline: Instant,
    ) -> std::result::Result<ExecuteNodeResponse, CallFailure> {
        self.execute(executor, request, deadline).await
    }
}

pub(crate) async fn perform(
    worker: &Worker,
    action: &LeasedAction,
    held: &Held,
    input: NodeInput,
    credentials: &Credentials,
) -> Done {
    if let Some(at) = input.not_before
        && at > worker.now()
    {
        return Done::Postponed { at };
    }
    let performed = match input.work {
        Work::Execute => execute(worker, action, held, &input, credentials).await,
        Work::Graph | Work::Execution => node_child::perform(worker, action, &input, credentials).await,
    };
    performed.unwrap_or_else(|error| {
        worker.store_outage.met(&error);
        if error.is_transient() {
            Done::Postponed { at: worker.now().plus(worker.around(STORE_AWAY)) }
        } else {
            Done::Attempt(unavailable(&error))
        }
    })
}

async fn execute(
    worker: &Worker,
    action: &LeasedAction,
    held: &Held,
    input: &NodeInput,
    credentials: &Credentials,
) -> Result<Done> {
    if action.begun == Begun::Awaited {
        let message = format!("the executor accepted it and sent no result within {}ms", input.timeout_ms);
        return Ok(answered(&failed(input, NodeStatus::Timeout, message, None)));
    }
    let place = match place(worker, action, held, input).await {
        Ok(place) => place,
        Err(at) => return Ok(Done::Postponed { at }),
    };
    let Some(context) = record(worker, action, input, place.name.as_str(), &place.reason).await? else {
        return Ok(answered(&failed(input, NodeStatus::TaskError, "the node is gone".to_owned(), None)));
    };
    let key = &action.lease.key.execution;
    let limit = Duration::from_millis(input.timeout_ms);
    let attempt = write::Attempt {
        workflow: key.execution.clone(),
        node: input.node.clone(),
        attempt: input.attempt,
        token: Token::of(action.lease.key.seq, action.lease.epoch),
        idempotency_key: credentials.idempotency_key.clone(),
        input: worker.inputs.get(&*worker.deps.stores.graph_views, key).await?,
        deadline: worker.now().plus(limit),
    };
    let request = match write::execute_request(&attempt, &context) {
        Ok(request) => request,
        Err(unreadable) => {
            return Ok(answered(&failed(input, NodeStatus::TaskError, unreadable.to_string(), None)));
        }
    };
    // Waiting for capacity and for the store takes time: no call begins past the lease's deadline.
    if !held.is_good() {
        return Ok(Done::Postponed { at: worker.now() });
    }
    let started = Instant::now();
    let call_limit = caps::call_within(limit, &worker.quotas.quota(&key.tenant));
    let called = tokio::select! {
        biased;
        called = worker.nodes.execute(&place.target, request, started + call_limit) => called,
        () = held.cancelled() => {
            return Ok(answered(&failed(input, NodeStatus::Fail, "cancelled".to_owned(), Some(&place))));
        }
    };
    let failed_call = |failure: CallFailure| {
        tell_operator(action, &place, &failure);
        (failure.status(), failure.shown_to_tenant(place.target.origin))
    };
    let heard = called.map_err(failed_call).and_then(|response| {
        let executor = place.name.as_str();
        let asked = Asked { workflow: &key.execution, node: &input.node, attempt: input.attempt, executor };
        read::response(response, asked).map_err(|garbage| (NodeStatus::TaskError, garbage.to_string()))
    });
    let elapsed = started.elapsed().as_secs_f64();
    match heard {
        Ok(Heard::Now { mut answer, logs }) => {
            measure(answer.status, elapsed);
            keep_log(worker, action, input, logs).await;
            add_known(worker, action, &mut answer).await?;
            Ok(answered(&answer))
        }
        Ok(Heard::Later { logs }) => {
            keep_log(worker, action, input, logs).await;
            Ok(Done::Awaiting { until: Some(worker.now().plus(limit)) })
        }
        Err((status, message)) => {
            measure(status, elapsed);
            if status == NodeStatus::InfraError || status == NodeStatus::Crash {
                place.shun();
            }
            Ok(answered(&failed(input, status, message, Some(&place))))
        }
    }
}

/// The address of an executor is logged for the operator and stays out of the outcome.
fn tell_operator(action: &LeasedAction, place: &Place, failure: &CallFailure) {
    tracing::warn!(
        action.key = %action.lease.key,
        executor = %place.name,
        executor.address = %place.target.address,
        error = %failure,
        "call to executor failed"
    );
}

fn measure(status: NodeStatus, seconds: f64) {
    ::metrics::histogram!(metrics::NODE_SECONDS, "status" => status.as_str()).record(seconds);
}

/// Reserves capacity at an executor, or returns the time of the next look.
async fn place(
    worker: &Worker,
    action: &LeasedAction,
    held: &Held,
    input: &NodeInput,
) -> std::result::Result<Place, millstream_core::time::Timestamp> {
    let tenant = &action.lease.key.execution.tenant;
    let wanted = Wanted { role: &input.role, labels: &input.labels, avoid: &input.avoid };
    let begun = Instant::now();
    loop {
        match worker.executors.place(tenant, &wanted) {
            Ok(place) => {
                held.placed();
                return Ok(place);
            }
            Err(NoPlace::Busy) => {}
            Err(NoPlace::Nobody(missing)) if begun.elapsed() >= PATIENCE => {
                tracing::warn!(action.key = %action.lease.key, missing = %missing, "no executor can perform this node");
                return Err(worker.now().plus(again(worker, action)));
            }
            Err(NoPlace::Nobody(_)) => {}
        }
        tokio::select! {
            biased;
            () = worker.executors.room(tenant, &wanted, PATIENCE) => {}
            // Not begun: released at once, for other workers.
            () = worker.stop.cancelled() => return Err(worker.now()),
        }
    }
}

/// Back-off: grows with the time waited so far.
fn again(worker: &Worker, action: &LeasedAction) -> Duration {
    let waited = worker.now().since(action.ready_at);
    worker.around((waited / 4).clamp(Duration::from_millis(500), LONGEST))
}

/// Records which executor performs it; returns the content of the request.
pub(super) async fn record(
    worker: &Worker,
    action: &LeasedAction,
    input: &NodeInput,
    executor: &str,
    reason: &str,
) -> Result<Option<DispatchContext>> {
    let dispatch = Dispatch {
        execution: action.lease.key.execution.clone(),
        node: input.node.clone(),
        attempt: input.attempt,
        executor: executor.to_owned(),
        reason: reason.to_owned(),
    };
    worker.dispatches.record(dispatch).await
}

pub(super) fn failed(input: &NodeInput, status: NodeStatus, error: String, place: Option<&Place>) -> Answer {
    Answer {
        status,
        attempt: input.attempt,
        result: None,
        error: Some(error),
        edits: Vec::new(),
        known: Vec::new(),
        executor: place.map(|place| place.name.as_str().to_owned()),
    }
}

fn answered(answer: &Answer) -> Done {
    Done::Attempt(Attempt::Success { result: RawJson::of(answer) })
}

/// Adds results that the edits' expressions mention: the graph itself has only some.
async fn add_known(worker: &Worker, action: &LeasedAction, answer: &mut Answer) -> Result<()> {
    let ids: Vec<_> = graph::mentioned(&answer.edits).into_iter().collect();
    if ids.is_empty() {
        return Ok(());
    }
    let filter = NodeFilter { ids, statuses: Vec::new() };
    let views = &worker.deps.stores.graph_views;
    let nodes = views.nodes(&action.lease.key.execution, &filter, None, filter.ids.len()).await?;
    answer.known = nodes.into_iter().filter_map(|node| Some((node.node, node.result?))).collect();
    Ok(())
}

/// Failing to store a log does not repeat the work.
async fn keep_log(worker: &Worker, action: &LeasedAction, input: &NodeInput, text: String) {
    if text.is_empty() {
        return;
    }
    let log = NodeLog {
        execution: action.lease.key.execution.clone(),
        node: input.node.clone(),
        attempt: input.attempt,
        text,
    };
    if let Err(error) = worker.deps.stores.graphs.keep_logs(&[log], worker.now()).await {
        tracing::warn!(action.key = %action.lease.key, error = %error, "could not store the log of an executor");
    }
}
