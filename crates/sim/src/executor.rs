//! The executors that perform nodes, and the connection of one worker to them.
//!
//! They do the work at the sink, under the key and the token of the attempt. They may have no capacity,
//! disconnect before or after the work, not answer, or accept the node and report the outcome later, at an
//! ingress.

use std::sync::Arc;

use millstream_core::graph::Token;
use millstream_rpc::client::{CallFailure, ExecutorTarget};
use millstream_rpc::proto::{ExecuteNodeRequest, ExecuteNodeResponse, NodeStatus};
use millstream_worker::PerformNodes;
use serde_json::json;
use tokio::time::Instant;

use crate::check::{Check, Violation};
use crate::graph_load::{PLANS, added, added_message};
use crate::role::Role;
use crate::sink::{Served, execution_of};
use crate::tally::Count;
use crate::wire::{Doors, Wire, post_json};

/// The connection of one worker to the executors.
#[derive(Debug)]
pub(crate) struct ToExecutors {
    pub(crate) role: Arc<Role>,
    pub(crate) doors: Doors,
}

/// Fate of a call.
enum Reception {
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
impl PerformNodes for ToExecutors {
    async fn execute(
        &self,
        _executor: &ExecutorTarget,
        request: ExecuteNodeRequest,
        deadline: Instant,
    ) -> Result<ExecuteNodeResponse, CallFailure> {
        let call = self.call(&request);
        tokio::time::timeout_at(deadline, call).await.unwrap_or(Err(CallFailure::TimedOut))
    }
}

impl ToExecutors {
    async fn call(&self, request: &ExecuteNodeRequest) -> Result<ExecuteNodeResponse, CallFailure> {
        let (role, world) = (&self.role, &self.role.world);
        let (key, token) = (&request.idempotency_key, request.token);
        if !world.leases.may_begin(key, Token::shown(token).epoch().0) {
            let what = format!("{key} was begun under token {token} after the holder's own deadline");
            world.accuse(Violation::new(Check::C5, &execution_of(key), what));
        }
        role.alive().await;
        world.count(Count::NodesCalled);
        let reception = self.reception();
        role.travel().await;
        match reception {
            Reception::NoRoom => {
                role.line(|| format!("node {key} #{token} → no room"));
                return Err(CallFailure::Unreachable("no room".to_owned()));
            }
            Reception::Failed => return Ok(answer(request, NodeStatus::Fail)),
            Reception::Silent => {
                role.line(|| format!("node {key} #{token}: silence"));
                return std::future::pending().await;
            }
            Reception::Accepted => {
                world.count(Count::NodesAccepted);
                role.line(|| format!("node {key} #{token} is accepted"));
                tokio::spawn(tell_later(Wire::new(world, &self.doors), request.clone()));
                role.travel().await;
                return Ok(ExecuteNodeResponse {
                    accepted: true,
                    ..answer(request, NodeStatus::Unspecified)
                });
            }
            Reception::Performed | Reception::Crashed => {}
        }
        if !world.is_calm() && world.dice.one_in(8) {
            tokio::time::sleep(world.dice.millis(50, 1_000)).await;
            role.alive().await;
        }
        let served = world.sink.serve(world, key, token);
        role.line(|| format!("node {key} #{token} → {served:?}"));
        if world.strikes(world.plan.rates.kill_after) {
            role.kill(Count::KillAfter);
        }
        role.travel().await;
        match (reception, served) {
            (Reception::Crashed, _) => {
                world.count(Count::NodesCrashed);
                Err(CallFailure::Crashed("cut off".to_owned()))
            }
            (_, Served::OldToken) => Ok(answer(request, NodeStatus::TaskError)),
            (_, Served::Done { .. }) => Ok(passed(request)),
        }
    }

    fn reception(&self) -> Reception {
        let world = &self.role.world;
        let rates = &world.plan.rates;
        if world.strikes(rates.sink_silent) {
            Reception::Silent
        } else if world.strikes(rates.sink_refused) {
            Reception::NoRoom
        } else if world.strikes(rates.sink_failed) {
            Reception::Failed
        } else if world.strikes(rates.in_doubt * 6) {
            Reception::Crashed
        } else if world.dice.one_in(6) {
            Reception::Accepted
        } else {
            Reception::Performed
        }
    }
}

/// Does the work and reports it at an ingress; or forgets it.
async fn tell_later(wire: Wire, request: ExecuteNodeRequest) {
    let world = &wire.world;
    if world.strikes(world.plan.rates.sink_silent * 2) {
        return;
    }
    tokio::time::sleep(wire.dice.millis(0, 600)).await;
    let (key, token) = (&request.idempotency_key, request.token);
    let Served::Done { .. } = world.sink.serve(world, key, token) else { return };
    let mut told = json!({ "token": token, "status": "PASS", "result": { "token": token } });
    if request.node_id == PLANS {
        told["edits"] = added();
    }
    let path = format!("/v1/graphs/{}/nodes/{}/result", request.workflow_id, request.node_id);
    let heard = wire.until_answered(|| post_json(&path, &told)).await;
    let status = heard.map(|(status, _)| status.as_u16());
    world.line("executor", || format!("tells {key} #{token} → {status:?}"));
    if status == Some(200) {
        world.count(Count::NodesTold);
    }
}

fn passed(request: &ExecuteNodeRequest) -> ExecuteNodeResponse {
    let edits = if request.node_id == PLANS { vec![added_message()] } else { Vec::new() };
    let results_json = json!({ "token": request.token }).to_string();
    ExecuteNodeResponse { results_json, edits, ..answer(request, NodeStatus::Pass) }
}

fn answer(request: &ExecuteNodeRequest, status: NodeStatus) -> ExecuteNodeResponse {
    ExecuteNodeResponse {
        workflow_id: request.workflow_id.clone(),
        node_id: request.node_id.clone(),
        status: status.into(),
        ..ExecuteNodeResponse::default()
    }
}
