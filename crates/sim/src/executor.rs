//! The executors that perform nodes, and the connection of one worker to them.
//!
//! They do the work at the sink, under the key and the token of the attempt. They may have no capacity,
//! disconnect before or after the work, not answer, or accept the node and report the outcome later, at an
//! ingress.

use std::sync::Arc;

use millstream_rpc::client::{CallFailure, ExecutorTarget};
use millstream_rpc::proto::{ExecuteNodeRequest, ExecuteNodeResponse, NodeStatus};
use millstream_worker::PerformNodes;
use millstream_workflow::graph::NodeToken;
use serde_json::json;
use tokio::time::Instant;

use crate::check::{SimCheck, SimViolation};
use crate::graph_load::{PLANS, added_message, added_node};
use crate::role::SimProcess;
use crate::sink::{SinkServed, execution_of};
use crate::tally::SimCount;
use crate::wire::{IngressSlots, SimWire, post_json};

/// The connection of one worker to the executors.
#[derive(Debug)]
pub(crate) struct SimExecutorCalls {
    pub(crate) role: Arc<SimProcess>,
    pub(crate) doors: IngressSlots,
}

/// Fate of a call.
enum SimExecutorReception {
    Performed,
    NoRoom,
    Failed,
    /// No answer, and nothing was done.
    Silent,
    /// The work is done, and the executor dies before it answers.
    Crashed,
    /// It answers that it will report later.
    Accepted,
}

#[async_trait::async_trait]
impl PerformNodes for SimExecutorCalls {
    async fn execute_node(
        &self,
        _executor: &ExecutorTarget,
        request: ExecuteNodeRequest,
        deadline: Instant,
    ) -> Result<ExecuteNodeResponse, CallFailure> {
        let call = self.call_executor(&request);
        tokio::time::timeout_at(deadline, call).await.unwrap_or(Err(CallFailure::TimedOut))
    }
}

impl SimExecutorCalls {
    async fn call_executor(&self, request: &ExecuteNodeRequest) -> Result<ExecuteNodeResponse, CallFailure> {
        let (role, world) = (&self.role, &self.role.world);
        let (key, token) = (&request.idempotency_key, request.token);
        if !world.leases.may_begin(key, NodeToken::from_executor(token).epoch().0) {
            let what = format!("{key} was begun under token {token} after the holder's own deadline");
            world.report_violation(SimViolation::new(SimCheck::C5, &execution_of(key), what));
        }
        role.wait_while_frozen().await;
        world.count(SimCount::NodesCalled);
        let reception = self.reception();
        role.travel_delay().await;
        match reception {
            SimExecutorReception::NoRoom => {
                role.trace_line(|| format!("node {key} #{token} → no room"));
                return Err(CallFailure::Unreachable("no room".to_owned()));
            }
            SimExecutorReception::Failed => return Ok(response_with(request, NodeStatus::Fail)),
            SimExecutorReception::Silent => {
                role.trace_line(|| format!("node {key} #{token}: silence"));
                return std::future::pending().await;
            }
            SimExecutorReception::Accepted => {
                world.count(SimCount::NodesAccepted);
                role.trace_line(|| format!("node {key} #{token} is accepted"));
                tokio::spawn(tell_later(SimWire::new(world, &self.doors), request.clone()));
                role.travel_delay().await;
                return Ok(ExecuteNodeResponse {
                    accepted: true,
                    ..response_with(request, NodeStatus::Unspecified)
                });
            }
            SimExecutorReception::Performed | SimExecutorReception::Crashed => {}
        }
        if !world.is_calm() && world.dice.one_in(8) {
            tokio::time::sleep(world.dice.millis(50, 1_000)).await;
            role.wait_while_frozen().await;
        }
        let served = world.sink.serve_call(world, key, token);
        role.trace_line(|| format!("node {key} #{token} → {served:?}"));
        if world.draws_fault(world.plan.rates.kill_after) {
            role.kill(SimCount::KillAfter);
        }
        role.travel_delay().await;
        match (reception, served) {
            (SimExecutorReception::Crashed, _) => {
                world.count(SimCount::NodesCrashed);
                Err(CallFailure::Crashed("cut off".to_owned()))
            }
            (_, SinkServed::OldToken) => Ok(response_with(request, NodeStatus::TaskError)),
            (_, SinkServed::Done { .. }) => Ok(passed_response(request)),
        }
    }

    fn reception(&self) -> SimExecutorReception {
        let world = &self.role.world;
        let rates = &world.plan.rates;
        if world.draws_fault(rates.sink_silent) {
            SimExecutorReception::Silent
        } else if world.draws_fault(rates.sink_refused) {
            SimExecutorReception::NoRoom
        } else if world.draws_fault(rates.sink_failed) {
            SimExecutorReception::Failed
        } else if world.draws_fault(rates.in_doubt * 6) {
            SimExecutorReception::Crashed
        } else if world.dice.one_in(6) {
            SimExecutorReception::Accepted
        } else {
            SimExecutorReception::Performed
        }
    }
}

/// Does the work and reports it at an ingress; or forgets it.
async fn tell_later(wire: SimWire, request: ExecuteNodeRequest) {
    let world = &wire.world;
    if world.draws_fault(world.plan.rates.sink_silent * 2) {
        return;
    }
    tokio::time::sleep(wire.dice.millis(0, 600)).await;
    let (key, token) = (&request.idempotency_key, request.token);
    let SinkServed::Done { .. } = world.sink.serve_call(world, key, token) else { return };
    let mut told = json!({ "token": token, "status": "PASS", "result": { "token": token } });
    if request.node_id == PLANS {
        told["edits"] = added_node();
    }
    let path = format!("/v1/graphs/{}/nodes/{}/result", request.workflow_id, request.node_id);
    let heard = wire.until_answered(|| post_json(&path, &told)).await;
    let status = heard.map(|(status, _)| status.as_u16());
    world.trace_line("executor", || format!("tells {key} #{token} → {status:?}"));
    if status == Some(200) {
        world.count(SimCount::NodesTold);
    }
}

fn passed_response(request: &ExecuteNodeRequest) -> ExecuteNodeResponse {
    let edits = if request.node_id == PLANS { vec![added_message()] } else { Vec::new() };
    let results_json = json!({ "token": request.token }).to_string();
    ExecuteNodeResponse { results_json, edits, ..response_with(request, NodeStatus::Pass) }
}

fn response_with(request: &ExecuteNodeRequest, status: NodeStatus) -> ExecuteNodeResponse {
    ExecuteNodeResponse {
        workflow_id: request.workflow_id.clone(),
        node_id: request.node_id.clone(),
        status: status.into(),
        ..ExecuteNodeResponse::default()
    }
}
