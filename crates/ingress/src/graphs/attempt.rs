//! Resolves the attempt that an executor's report refers to, and checks that it is current.
//!
//! An attempt is an action with the name of its node, in the transition that scheduled it. The token
//! (fencing token) identifies that transition and the lease: a report with another token refers to an
//! attempt that is over.

use millstream_model::id::{ActionKey, ExecutionKey, Seq};
use millstream_model::problem::ValidationProblem as Fault;
use millstream_model::status::ActionStatus;
use millstream_store::graph_store::NodeView;
use millstream_store::views::ActionRecord;
use millstream_workflow::graph::{NodeId, NodeInput, NodePerformer, NodeSpec, NodeToken};
use millstream_workflow::machine::ActionInput;

use super::GraphDeps;
use super::nodes;
use crate::refusal::{RefusalKind, RequestRefusal};

/// The reference to an attempt, as it came with the request to perform it. The token alone is sufficient.
#[derive(Debug, Clone)]
pub(crate) struct AttemptReference {
    pub(crate) token: NodeToken,
    pub(crate) attempt: Option<u32>,
    pub(crate) idempotency_key: Option<String>,
}

/// An attempt at a node.
#[derive(Debug)]
pub(crate) struct NodeAttempt {
    pub(crate) node: NodeView,
    pub(crate) action: ActionRecord,
    pub(crate) input: NodeInput,
}

/// The referenced attempt, under any lease.
pub(super) async fn resolve_attempt(
    deps: &GraphDeps,
    graph: &ExecutionKey,
    node: &NodeId,
    said: &AttemptReference,
) -> Result<NodeAttempt, RequestRefusal> {
    let node = nodes::find_node(deps, graph, node).await?;
    let key = ActionKey { execution: graph.clone(), seq: said.token.seq(), action: node.node.clone() };
    let is_its_key = is_key_of(said, &key)?;
    let (is_known, found) = match deps.reports.find_task(key).await? {
        Some(action) => (is_its_key, Some(action)),
        None => (false, last_action(deps, graph, &node).await?),
    };
    let action = found.ok_or_else(|| nothing_under_way(&node))?;
    let input = match action.input.as_ref().map(|input| input.decode::<ActionInput>()) {
        Some(Ok(ActionInput::Node(input))) => input,
        Some(_) | None => return Err(nothing_under_way(&node)),
    };
    let is_another = said.attempt.is_some_and(|attempt| attempt != input.attempt);
    let attempt = NodeAttempt { node, action, input };
    if is_another || !is_known { Err(token_lost(&attempt, said.token)) } else { Ok(attempt) }
}

/// Whether the given idempotency key, if any, is that of the attempt.
fn is_key_of(said: &AttemptReference, attempt: &ActionKey) -> Result<bool, RequestRefusal> {
    let Some(text) = &said.idempotency_key else { return Ok(true) };
    let key = ActionKey::parse_within(&attempt.execution.tenant, text).map(|(key, _)| key);
    let key = key.filter(|key| key.execution == attempt.execution && key.action == attempt.action);
    let key = key.ok_or_else(|| {
        let message = "is not the key of an attempt at this node";
        RequestRefusal::invalid(vec![Fault::new("idempotency_key", message)])
    })?;
    Ok(key == *attempt)
}

/// Checks that the token is that of an attempt under way, which an executor performs.
pub(super) fn check_token(attempt: &NodeAttempt, token: NodeToken) -> Result<(), RequestRefusal> {
    let under_way = match attempt.action.status {
        ActionStatus::Leased | ActionStatus::Awaiting => true,
        ActionStatus::Ready
        | ActionStatus::Waiting
        | ActionStatus::Standby
        | ActionStatus::Succeeded
        | ActionStatus::Failed
        | ActionStatus::Skipped
        | ActionStatus::Cancelled => false,
    };
    if !under_way || attempt.action.epoch != token.epoch() {
        return Err(token_lost(attempt, token));
    }
    match attempt.input.work {
        NodePerformer::Execute => Ok(()),
        NodePerformer::Graph | NodePerformer::Execution => Err(RequestRefusal::new(
            RefusalKind::Conflict,
            format!("{} is performed by a child execution, which reports its own outcome", attempt.node.node),
        )),
    }
}

/// Transitions per query when an attempt is looked up.
const PAGE: i64 = 500;

/// The action of a node's last attempt. It belongs to the node's last transition, unless edits have given
/// the node other children since.
pub(super) async fn last_action(
    deps: &GraphDeps,
    graph: &ExecutionKey,
    node: &NodeView,
) -> Result<Option<ActionRecord>, RequestRefusal> {
    let spec = node.spec.decode::<NodeSpec>().ok();
    // Of a fan-out only its instances are performed.
    if node.attempt == 0 || spec.is_none_or(|spec| spec.fan_out.is_some()) {
        return Ok(None);
    }
    let key = |seq| ActionKey { execution: graph.clone(), seq: Seq(seq), action: node.node.clone() };
    if let Some(action) = deps.reports.find_task(key(node.seq.0)).await? {
        return Ok(Some(action));
    }
    let mut last = node.seq.0 - 1;
    while last >= 1 {
        let first = (last - PAGE + 1).max(1);
        let keys: Vec<ActionKey> = (first..=last).map(key).collect();
        let found = deps.stores.tasks.find_actions(&keys).await?;
        if let Some(action) = found.into_iter().rev().flatten().next() {
            return Ok(Some(action));
        }
        last = first - 1;
    }
    Ok(None)
}

fn nothing_under_way(node: &NodeView) -> RequestRefusal {
    RequestRefusal::new(
        RefusalKind::Conflict,
        format!("{} is {}: it has no attempt under way", node.node, node.status),
    )
}

/// The refusal of a token that is not current.
pub(super) fn token_lost(attempt: &NodeAttempt, token: NodeToken) -> RequestRefusal {
    let NodeAttempt { node, action, input } = attempt;
    let who = node.executor.as_deref().unwrap_or("no executor");
    let detail = match action.status {
        ActionStatus::Leased | ActionStatus::Awaiting => format!(
            "the lease was lost: {who} holds attempt {} of {} with token {}, your token is {token}",
            input.attempt,
            node.node,
            NodeToken::of_lease(action.key.seq, action.epoch)
        ),
        ActionStatus::Succeeded | ActionStatus::Failed | ActionStatus::Skipped => {
            format!("attempt {} of {} is over, {} is {}", input.attempt, node.node, node.node, node.status)
        }
        ActionStatus::Cancelled => {
            format!("attempt {} of {} was cancelled", input.attempt, node.node)
        }
        ActionStatus::Ready | ActionStatus::Waiting | ActionStatus::Standby => {
            format!("attempt {} of {} waits for an executor: no executor holds it", input.attempt, node.node)
        }
    };
    RequestRefusal::new(RefusalKind::Conflict, detail)
}
