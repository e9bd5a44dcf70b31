//! Reads the history of a run from the store.

use millstream_model::id::{ActionKey, ExecutionKey, Name, Seq, TenantId};
use millstream_model::raw::RawJson;
use millstream_model::status::EventStatus;
use millstream_model::time::Timestamp;
use millstream_store::graph_store::NodeFilter;
use millstream_store::incidents::{IncidentFilter, IncidentStatus};
use millstream_store::views::{ActionRecord, EventFilter, EventView, ExecutionFilter, HistoryEntry};
use millstream_store::{StoreResult, Stores};
use millstream_stream::doorbell::StreamMaintenance;
use millstream_worker::replay::{self, ReplayUntil};
use millstream_workflow::graph::{NodeStatus, NodeToken};
use millstream_workflow::log::{EventOrigin, StateEntry};
use serde_json::Value;

use crate::history::{
    SimAction, SimEvent, SimExecution, SimHistory, SimLeftovers, SimNode, SimTimer, SimTransition, SimWork,
};
use crate::tally::SimCount;
use crate::workload::POISON;
use crate::world::SimWorld;

/// Unfinished work.
pub(crate) async fn collect_leftovers(world: &SimWorld, clients: usize) -> StoreResult<SimLeftovers> {
    let undecided = world.truth.events.page_undecided(None, None, 1_000).await?;
    let backlog = world.truth.event_views.count_backlog().await?;
    let filter = IncidentFilter { status: Some(IncidentStatus::Open), ..IncidentFilter::default() };
    let mut concerned = Vec::new();
    for tenant in world.plan.tenants.iter().map(|tenant| tenant.id()) {
        let open = world.truth.incidents.list_incidents(&tenant, &filter, None, 1_000).await?;
        concerned.extend(open.iter().map(|incident| (tenant.clone(), incident.event_id)));
    }
    let concerned = world.truth.event_views.find_events(&concerned).await?;
    let is_hopeless = |event: &EventView| event.name.as_str() == POISON;
    let stats = world.bus.current_stream().stream.lane_stats().await.unwrap_or_default();
    Ok(SimLeftovers {
        undecided: undecided.into_iter().map(|key| key.execution.to_string()).collect(),
        open_actions: backlog.open_actions,
        bells: stats.iter().map(|lane| lane.length).sum(),
        locks: world.locks.held_count(),
        clients,
        incidents: concerned.iter().flatten().filter(|event| !is_hopeless(event)).count(),
    })
}

/// All executions of a tenant, also those that clients did not start.
async fn all_executions(stores: &Stores, tenant: &TenantId) -> StoreResult<Vec<ExecutionKey>> {
    let filter = ExecutionFilter::default();
    let mut found = stores.execution_views.list_executions(tenant, &filter, None, 10_000).await?;
    found.reverse();
    Ok(found.into_iter().map(|view| view.execution).collect())
}

/// How many timers are armed.
pub(crate) async fn armed_timers(world: &SimWorld) -> StoreResult<usize> {
    let (stores, mut armed) = (&world.truth, 0);
    for tenant in world.plan.tenants {
        for key in all_executions(stores, &tenant.id()).await? {
            armed += stores.execution_views.list_timers(&key, None, 1_000).await?.len();
        }
    }
    Ok(armed)
}

/// Executions and effects of a tenant.
pub(crate) async fn collect_history(world: &SimWorld, tenant: &TenantId) -> StoreResult<SimHistory> {
    // Keys of actions begin with the tenant.
    let own = format!("{tenant}/");
    let sink = world.sink.calls().into_iter().filter(|call| call.key.starts_with(&own)).collect();
    let mut history = SimHistory { tenant: tenant.to_string(), sink, ..SimHistory::default() };
    for key in all_executions(&world.truth, tenant).await? {
        history.executions.extend(collect_execution(world, &key).await?);
    }
    Ok(history)
}

async fn collect_execution(world: &SimWorld, key: &ExecutionKey) -> StoreResult<Option<SimExecution>> {
    let stores = &world.truth;
    let views = &stores.execution_views;
    let Some(view) = views.find_executions(std::slice::from_ref(key)).await?.pop().flatten() else {
        return Ok(None);
    };
    let log = views.read_history(key, Seq(0), 10_000).await?.entries;
    let filter = EventFilter { execution: Some(key.execution.clone()), ..EventFilter::default() };
    let events = stores.event_views.list_events(&key.tenant, &filter, None, 10_000).await?;
    let actions = views.list_actions(key, None, 10_000).await?;
    let timers = views.list_timers(key, None, 10_000).await?;
    let mismatches = match replay::replay_execution(stores, key, ReplayUntil::End).await {
        Ok(replayed) => replayed.mismatches.iter().map(|mismatch| format!("{mismatch:?}")).collect(),
        Err(error) => vec![error.to_string()],
    };
    count_events(world, &events);
    let nodes = graph_nodes(world, key).await?;
    Ok(Some(SimExecution {
        id: key.execution.to_string(),
        parent: view.state.parent.as_ref().map(|parent| {
            let execution = ExecutionKey { execution: parent.execution.clone(), ..key.clone() };
            ActionKey { execution, seq: parent.seq, action: parent.action.clone() }.to_string()
        }),
        status: view.status,
        state: view.state.state.to_string(),
        context: view.state.context.iter().map(|(name, value)| (name.clone(), value.to_string())).collect(),
        log: log.iter().map(logged_transition).collect(),
        events: events.iter().map(collected_event).collect(),
        actions: actions.iter().map(|view| collected_action(view, !nodes.is_empty())).collect(),
        nodes,
        timers: timers.iter().map(|timer| timer.fire_at.as_millis()).collect(),
        mismatches,
    }))
}

fn count_events(world: &SimWorld, events: &[EventView]) {
    for event in events {
        let stale = event.actor.as_deref() == Some("timer") && event.status == EventStatus::Rejected;
        world.tally.add(SimCount::StaleTimers, usize::from(stale));
        match event.status {
            EventStatus::Rejected => world.count(SimCount::Rejected),
            EventStatus::Dead => world.count(SimCount::DeadEvents),
            EventStatus::Deferred => world.count(SimCount::Deferred),
            EventStatus::Completed | EventStatus::Failed | EventStatus::Processing => {
                world.count(SimCount::Applied);
            }
            EventStatus::Pending => {}
        }
    }
}

fn logged_transition(entry: &HistoryEntry) -> SimTransition {
    let transition = &entry.transition;
    let decision = &transition.decision;
    SimTransition {
        seq: transition.seq.0,
        event: transition.event_id.to_string(),
        name: transition.name.to_string(),
        entered: decision.entered == StateEntry::Entered,
        ended: decision.phase.is_ended(),
        armed_by: match entry.origin {
            EventOrigin::Posted => None,
            EventOrigin::Timer { armed_seq } => Some(armed_seq.0),
        },
        accepted_at: entry.accepted_at.as_millis(),
        arms: decision
            .timers
            .iter()
            .map(|timer| SimTimer { send: timer.send.to_string(), fire_at: timer.fire_at.as_millis() })
            .collect(),
    }
}

fn collected_event(view: &EventView) -> SimEvent {
    let payload = parse_json(&view.payload);
    let text = |name: &str| payload[name].as_str().map(str::to_owned);
    SimEvent {
        id: view.event_id.to_string(),
        name: view.name.to_string(),
        accept_no: view.accept_no.0,
        accepted_at: view.created_at.as_millis(),
        decided_at: view.started_at.or(view.completed_at).map(Timestamp::as_millis),
        status: view.status,
        seq: view.seq.map(|seq| seq.0),
        attempts: view.attempts,
        marker: text("k"),
        about: text("key"),
        outcome: node_outcome(view, &payload),
        actor: view.actor.clone(),
        error: view.error.clone(),
    }
}

fn collected_action(view: &ActionRecord, of_graph: bool) -> SimAction {
    if of_graph && !view.key.action.is_reserved() {
        return attempt_action(view);
    }
    let name = view.key.action.as_str();
    let (work, on_success, on_failure) = match name {
        "join" => (SimWork::Effect, Some("joined"), Some("lost")),
        "left" | "right" => (SimWork::Effect, None, Some("lost")),
        "sort" => (SimWork::Effect, Some("sorted"), Some("lost")),
        "child" => (SimWork::Child, Some("grown"), Some("lost")),
        "guest" => (SimWork::Child, None, None),
        _ if view.key.action.is_reserved() => (SimWork::Owed, None, None),
        _ => (SimWork::Effect, None, None),
    };
    SimAction {
        key: view.key.to_string(),
        seq: view.key.seq.0,
        node: None,
        work,
        status: view.status,
        epoch: view.epoch.0,
        token: view.result.as_ref().and_then(|result| parse_json(result)["body"]["token"].as_i64()),
        on_success: on_success.map(str::to_owned),
        on_failure: on_failure.map(str::to_owned),
    }
}

/// An attempt at a node: its result is the answer that the graph received.
fn attempt_action(view: &ActionRecord) -> SimAction {
    let answer = view.result.as_ref().map_or(Value::Null, parse_json);
    let token = answer["result"]["token"].as_i64().map(NodeToken::from_executor);
    let work = match (answer["status"].as_str(), token) {
        (Some("PASS"), Some(_)) => SimWork::Effect,
        (Some("PASS"), None) => SimWork::Child,
        (_, _) => SimWork::Attempt,
    };
    let told = Name::node_outcome().to_string();
    SimAction {
        key: view.key.to_string(),
        seq: view.key.seq.0,
        node: Some(view.key.action.to_string()),
        work,
        status: view.status,
        epoch: view.epoch.0,
        token: token.filter(|token| token.seq() == view.key.seq).map(|token| token.epoch().0),
        on_success: Some(told.clone()),
        on_failure: Some(told),
    }
}

async fn graph_nodes(world: &SimWorld, key: &ExecutionKey) -> StoreResult<Vec<SimNode>> {
    let views = world.truth.graph_views.list_nodes(key, &NodeFilter::default(), None, 10_000).await?;
    Ok(views
        .iter()
        .map(|view| {
            let parents: Vec<String> = parse_json(&view.spec)["parents"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|parent| parent.as_str().or(parent["node"].as_str()).map(str::to_owned))
                .collect();
            SimNode { id: view.node.to_string(), status: view.status, parents }
        })
        .collect())
}

/// The node and the outcome of an attempt at it, if the event contains one.
fn node_outcome(view: &EventView, payload: &Value) -> Option<(String, NodeStatus)> {
    let status = payload["result"]["status"].as_str().and_then(NodeStatus::parse);
    let node = payload["action"].as_str()?.to_owned();
    (view.name == Name::node_outcome()).then(|| (node, status.unwrap_or(NodeStatus::TaskError)))
}

fn parse_json(raw: &RawJson) -> Value {
    serde_json::from_str(raw.as_str()).unwrap_or(Value::Null)
}
