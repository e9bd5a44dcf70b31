//! An attempt at a graph node: chooses an executor, records it, calls it, and turns the result into an
//! answer.
//!
//! Every outcome, good or bad, is returned to the graph as an [`ExecutorAnswer`]: the graph decides about another
//! attempt. An unavailable store is no outcome: the same attempt is made when it is back.
//!
//! A node without a suitable executor waits: for capacity at an executor as long as that may come at any
//! moment, and from then on as an action that is looked at again later.

use std::time::Duration;

use millstream_model::attempt::AttemptOutcome;
use millstream_model::raw::RawJson;
use millstream_rpc::client::CallFailure;
use millstream_rpc::read::{self, NodeAnswer, NodeQuestion};
use millstream_rpc::write;
use millstream_store::StoreResult;
use millstream_store::action_store::{LeaseOrigin, LeasedAction};
use millstream_store::graph_store::{ExecutorLogText, NodeFilter};
use millstream_workflow::graph::{self, ExecutorAnswer, NodeInput, NodePerformer, NodeStatus, NodeToken};
use millstream_workflow::quota_caps;
use tokio::time::Instant;

use super::attempt_contract::{AttemptCredentials, PerformOutcome};
use super::emit::store_unavailable;
use super::node_attempt::{failed_answer, record_dispatch};
use super::node_child;
use super::performer::ActionPerformer;
use crate::executors::{ExecutorPlace, NoExecutorPlace, NodeRequirements};
use crate::leasing::leases::HeldLease;
use crate::metrics;

/// Time that a node waits here for an executor before it is released.
const PATIENCE: Duration = Duration::from_secs(2);
/// Delay before a retry while the store is unavailable.
const STORE_AWAY: Duration = Duration::from_secs(1);
/// Longest delay until it is looked at again.
const LONGEST: Duration = Duration::from_secs(10);

pub(crate) async fn perform_node(
    performer: &ActionPerformer,
    action: &LeasedAction,
    held: &HeldLease,
    input: NodeInput,
    credentials: &AttemptCredentials,
) -> PerformOutcome {
    if let Some(at) = input.not_before
        && at > performer.env.now()
    {
        return PerformOutcome::postponed(at);
    }
    let performed = match input.work {
        NodePerformer::Execute => call_executor(performer, action, held, &input, credentials).await,
        NodePerformer::Graph | NodePerformer::Execution => {
            node_child::perform_node_child(performer, action, &input, credentials).await
        }
    };
    performed.unwrap_or_else(|error| {
        performer.env.store_outage.record_failure(&error);
        if error.is_transient() {
            PerformOutcome::postponed(performer.env.now().plus(performer.env.jittered(STORE_AWAY)))
        } else {
            PerformOutcome::Attempt(store_unavailable(&error))
        }
    })
}

async fn call_executor(
    performer: &ActionPerformer,
    action: &LeasedAction,
    held: &HeldLease,
    input: &NodeInput,
    credentials: &AttemptCredentials,
) -> StoreResult<PerformOutcome> {
    if action.begun == LeaseOrigin::Awaited {
        let message = format!("the executor accepted it and sent no result within {}ms", input.timeout_ms);
        return Ok(answered_node(&failed_answer(input, NodeStatus::Timeout, message, None)));
    }
    let place = match wait_for_place(performer, action, held, input).await {
        Ok(place) => place,
        Err(at) => return Ok(PerformOutcome::postponed(at)),
    };
    let Some(context) = record_dispatch(performer, action, input, place.name.as_str(), &place.reason).await?
    else {
        return Ok(answered_node(&failed_answer(
            input,
            NodeStatus::TaskError,
            "the node is gone".to_owned(),
            None,
        )));
    };
    let key = &action.lease.key.execution;
    let limit = Duration::from_millis(input.timeout_ms);
    let attempt = write::AttemptCall {
        workflow: key.execution.clone(),
        node: input.node.clone(),
        attempt: input.attempt,
        token: NodeToken::of_lease(action.lease.key.seq, action.lease.epoch),
        idempotency_key: credentials.idempotency_key.clone(),
        input: performer.inputs.get(&*performer.env.stores.graph_views, key).await?,
        deadline: performer.env.now().plus(limit),
    };
    let request = match write::execute_request(&attempt, &context) {
        Ok(request) => request,
        Err(unreadable) => {
            return Ok(answered_node(&failed_answer(
                input,
                NodeStatus::TaskError,
                unreadable.to_string(),
                None,
            )));
        }
    };
    // Waiting for capacity and for the store takes time: no call begins past the lease's deadline.
    if !held.is_good() {
        return Ok(PerformOutcome::postponed(performer.env.now()));
    }
    let started = Instant::now();
    let call_limit = quota_caps::call_within(limit, &performer.leasing.quotas.quota_of(&key.tenant));
    let called = tokio::select! {
        biased;
        called = performer.nodes.execute_node(&place.target, request, started + call_limit) => called,
        () = held.until_cancelled() => {
            return Ok(answered_node(&failed_answer(input, NodeStatus::Fail, "cancelled".to_owned(), Some(&place))));
        }
    };
    let failed_call = |failure: CallFailure| {
        log_call_failure(action, &place, &failure);
        (failure.node_status(), failure.shown_to_tenant(place.target.origin))
    };
    let heard = called.map_err(failed_call).and_then(|response| {
        let executor = place.name.as_str();
        let asked =
            NodeQuestion { workflow: &key.execution, node: &input.node, attempt: input.attempt, executor };
        read::read_response(response, asked).map_err(|garbage| (NodeStatus::TaskError, garbage.to_string()))
    });
    let elapsed = started.elapsed().as_secs_f64();
    match heard {
        Ok(NodeAnswer::Now { mut answer, logs }) => {
            measure_call(answer.status, elapsed);
            store_node_log(performer, action, input, logs).await;
            add_mentioned_results(performer, action, &mut answer).await?;
            Ok(answered_node(&answer))
        }
        Ok(NodeAnswer::Later { logs }) => {
            store_node_log(performer, action, input, logs).await;
            Ok(PerformOutcome::Awaiting { until: Some(performer.env.now().plus(limit)) })
        }
        Err((status, message)) => {
            measure_call(status, elapsed);
            if status == NodeStatus::InfraError || status == NodeStatus::Crash {
                place.mark_unreachable();
            }
            Ok(answered_node(&failed_answer(input, status, message, Some(&place))))
        }
    }
}

/// The address of an executor is logged for the operator and stays out of the outcome.
fn log_call_failure(action: &LeasedAction, place: &ExecutorPlace, failure: &CallFailure) {
    tracing::warn!(
        action.key = %action.lease.key,
        executor = %place.name,
        executor.address = %place.target.address,
        error = %failure,
        "call to executor failed"
    );
}

fn measure_call(status: NodeStatus, seconds: f64) {
    ::metrics::histogram!(metrics::NODE_SECONDS, "status" => status.as_str()).record(seconds);
}

/// Reserves capacity at an executor, or returns the time of the next look.
async fn wait_for_place(
    performer: &ActionPerformer,
    action: &LeasedAction,
    held: &HeldLease,
    input: &NodeInput,
) -> std::result::Result<ExecutorPlace, millstream_model::time::Timestamp> {
    let tenant = &action.lease.key.execution.tenant;
    let wanted = NodeRequirements { role: &input.role, labels: &input.labels, avoid: &input.avoid };
    let begun = Instant::now();
    loop {
        match performer.leasing.executors.reserve_place(tenant, &wanted) {
            Ok(place) => {
                held.mark_placed();
                return Ok(place);
            }
            Err(NoExecutorPlace::Busy) => {}
            Err(NoExecutorPlace::Nobody(missing)) if begun.elapsed() >= PATIENCE => {
                tracing::warn!(action.key = %action.lease.key, missing = %missing, "no executor can perform this node");
                return Err(performer.env.now().plus(retry_delay(performer, action)));
            }
            Err(NoExecutorPlace::Nobody(_)) => {}
        }
        tokio::select! {
            biased;
            () = performer.leasing.executors.wait_for_capacity(tenant, &wanted, PATIENCE) => {}
            // Not begun: released at once, for other workers.
            () = performer.env.stop.cancelled() => return Err(performer.env.now()),
        }
    }
}

/// Back-off: grows with the time waited so far.
fn retry_delay(performer: &ActionPerformer, action: &LeasedAction) -> Duration {
    let waited = performer.env.now().since(action.ready_at);
    performer.env.jittered((waited / 4).clamp(Duration::from_millis(500), LONGEST))
}

fn answered_node(answer: &ExecutorAnswer) -> PerformOutcome {
    PerformOutcome::Attempt(AttemptOutcome::Success { result: RawJson::from_value(answer) })
}

/// Adds results that the edits' expressions mention: the graph itself has only some.
async fn add_mentioned_results(
    performer: &ActionPerformer,
    action: &LeasedAction,
    answer: &mut ExecutorAnswer,
) -> StoreResult<()> {
    let ids: Vec<_> = graph::mentioned_by_edits(&answer.edits).into_iter().collect();
    if ids.is_empty() {
        return Ok(());
    }
    let filter = NodeFilter { ids, statuses: Vec::new() };
    let views = &performer.env.stores.graph_views;
    let nodes = views.list_nodes(&action.lease.key.execution, &filter, None, filter.ids.len()).await?;
    answer.known = nodes.into_iter().filter_map(|node| Some((node.node, node.result?))).collect();
    Ok(())
}

/// Failing to store a log does not repeat the work.
async fn store_node_log(performer: &ActionPerformer, action: &LeasedAction, input: &NodeInput, text: String) {
    if text.is_empty() {
        return;
    }
    let log = ExecutorLogText {
        execution: action.lease.key.execution.clone(),
        node: input.node.clone(),
        attempt: input.attempt,
        text,
    };
    if let Err(error) = performer.env.stores.graphs.append_logs(&[log], performer.env.now()).await {
        tracing::warn!(action.key = %action.lease.key, error = %error, "could not store the log of an executor");
    }
}
