//! Settling: outcomes, then dependents, then the events' status, in one transaction.
//!
//! Two actions that settle at once must not each see the other unsettled. PostgreSQL locks the event's
//! row for that; here the writer's queue has the same effect, and everything else is the same: the
//! actions of the transitions concerned are read, changed in memory ([`crate::settle_graph`]), written.

use std::collections::{BTreeMap, BTreeSet};

use millstream_core::id::{ActionKey, Epoch, EventId, ExecutionKey, Seq, WorkerId};
use millstream_core::status::{ActionStatus, EventStatus, Phase};
use millstream_core::time::Timestamp;
use millstream_store::Result;
use millstream_store::action_store::{AfterFailure, SettleVerdict, Settled, Settlement, Settling};
use millstream_store::event_log::NewEvent;
use millstream_store::execution_store::LeaseGrant;
use serde::Serialize;
use sqlx::SqliteConnection;

use crate::accept::accept_pending;
use crate::decode::Fields;
use crate::errors::store_error;
use crate::intervention::pause_active;
use crate::leased::read_leased;
use crate::param::{self, ExecutionParam};
use crate::settle_graph::{Graph, Node};

type Graphs = BTreeMap<(ExecutionKey, Seq), Graph>;

pub(crate) async fn settle_batch(
    connection: &mut SqliteConnection,
    worker: &WorkerId,
    batch: &[Settlement],
    grant: LeaseGrant,
    now: Timestamp,
) -> Result<Settled> {
    let mut graphs = read_graphs(connection, batch).await?;
    let mut changes = Changes::default();
    let recorded: Vec<bool> = batch.iter().map(|item| changes.record(&mut graphs, item, now)).collect();
    if !recorded.contains(&true) {
        return Ok(Settled { verdicts: vec![SettleVerdict::Stale; batch.len()], ..Settled::default() });
    }
    let freed = changes.resolve(&mut graphs, now);
    let (leased, unleased) = freed.split_at(freed.len().min(grant.slots));
    changes.actions.extend(leased.iter().map(|key| ActionChange::lease(key, worker, now.plus(grant.ttl))));
    changes.actions.extend(unleased.iter().map(|key| ActionChange::ready(key, now, None)));

    update_actions(connection, &changes.actions).await?;
    update_events(connection, &changes.events, now).await?;
    pause_active(connection, &changes.paused, now).await?;
    accept_pending(connection, &changes.emitted, now).await?;
    let verdicts =
        batch.iter().zip(recorded).map(|(item, recorded)| verdict(&graphs, item, recorded)).collect();
    let unleased = unleased.len();
    let leased = read_leased(connection, &leased.iter().collect::<Vec<_>>()).await?;
    Ok(Settled { verdicts, leased, unleased })
}

fn graph_of(item: &Settlement) -> (ExecutionKey, Seq) {
    (item.lease.key.execution.clone(), item.lease.key.seq)
}

fn verdict(graphs: &Graphs, item: &Settlement, recorded: bool) -> SettleVerdict {
    match graphs.get(&graph_of(item)) {
        Some(graph) if recorded => SettleVerdict::Recorded { event: graph.event },
        Some(_) | None => SettleVerdict::Stale,
    }
}

/// What a batch of settlements writes.
#[derive(Default)]
struct Changes<'a> {
    actions: Vec<ActionChange>,
    events: Vec<EventChange<'a>>,
    paused: Vec<(&'a ExecutionKey, &'a str)>,
    emitted: Vec<&'a NewEvent>,
}

impl<'a> Changes<'a> {
    /// Whether the outcome counts: not when the lease has passed on.
    fn record(&mut self, graphs: &mut Graphs, item: &'a Settlement, now: Timestamp) -> bool {
        let key = &item.lease.key;
        let Some(graph) =
            graphs.get_mut(&graph_of(item)).filter(|graph| graph.holds(&key.action, item.lease.epoch))
        else {
            return false;
        };
        let change = match &item.outcome {
            Settling::Succeeded { result, emit } => {
                self.emitted.extend(emit.as_deref());
                ActionChange {
                    result: Some(result.to_string()),
                    ..ActionChange::settled(key, ActionStatus::Succeeded, now)
                }
            }
            Settling::Retry { error, at } => match graph.phase {
                Phase::Cancelled => ActionChange {
                    error: Some(error.to_string()),
                    ..ActionChange::settled(key, ActionStatus::Cancelled, now)
                },
                Phase::Active | Phase::Completed | Phase::Failed => {
                    ActionChange::ready(key, *at, Some(error.to_string()))
                }
            },
            Settling::Failed { error, then } => {
                match then {
                    AfterFailure::Emit(event) => self.emitted.push(event),
                    AfterFailure::Pause { reason } => self.fail(graph, key, reason),
                }
                ActionChange {
                    error: Some(error.to_string()),
                    handled: param::handled(then.handling()),
                    ..ActionChange::settled(key, ActionStatus::Failed, now)
                }
            }
        };
        graph.set(&key.action, change.status);
        self.actions.push(change);
        true
    }

    /// Nothing handles this failure.
    fn fail(&mut self, graph: &mut Graph, key: &'a ActionKey, reason: &'a str) {
        if graph.event == EventStatus::Processing {
            graph.event = EventStatus::Failed;
            self.events.push(EventChange::of(key, graph, Some(reason)));
        }
        self.paused.push((&key.execution, reason));
    }

    /// Skip and complete what follows from the outcomes; return what they freed, in order.
    fn resolve(&mut self, graphs: &mut Graphs, now: Timestamp) -> Vec<ActionKey> {
        let mut freed = Vec::new();
        for ((execution, seq), graph) in graphs {
            let key = |action| ActionKey { execution: execution.clone(), seq: *seq, action };
            let resolved = graph.resolve();
            freed.extend(resolved.freed.into_iter().map(key));
            self.actions.extend(
                resolved
                    .skipped
                    .into_iter()
                    .map(|action| ActionChange::settled(&key(action), ActionStatus::Skipped, now)),
            );
            if graph.event == EventStatus::Processing && graph.is_settled() {
                graph.event = EventStatus::Completed;
                self.events.push(EventChange {
                    tenant: execution.tenant.to_string(),
                    event: graph.event_id,
                    status: graph.event,
                    error: None,
                });
            }
        }
        freed
    }
}

#[derive(Serialize)]
struct EventChange<'a> {
    tenant: String,
    event: EventId,
    status: EventStatus,
    error: Option<&'a str>,
}

impl<'a> EventChange<'a> {
    fn of(key: &ActionKey, graph: &Graph, error: Option<&'a str>) -> Self {
        Self { tenant: key.execution.tenant.to_string(), event: graph.event_id, status: graph.event, error }
    }
}

#[derive(Serialize)]
struct ActionChange {
    tenant: String,
    execution: String,
    seq: i64,
    action: String,
    status: ActionStatus,
    result: Option<String>,
    error: Option<String>,
    handled: i64,
    worker: Option<String>,
    due_at: Option<i64>,
    settled_at: Option<i64>,
    /// Added to epoch and attempts: 1 with a lease.
    leases: i64,
}

impl ActionChange {
    fn settled(key: &ActionKey, status: ActionStatus, now: Timestamp) -> Self {
        Self {
            tenant: key.execution.tenant.to_string(),
            execution: key.execution.execution.to_string(),
            seq: key.seq.0,
            action: key.action.to_string(),
            status,
            result: None,
            error: None,
            handled: 0,
            worker: None,
            due_at: None,
            settled_at: Some(now.as_millis()),
            leases: 0,
        }
    }

    fn ready(key: &ActionKey, at: Timestamp, error: Option<String>) -> Self {
        Self {
            error,
            due_at: Some(at.as_millis()),
            settled_at: None,
            ..Self::settled(key, ActionStatus::Ready, at)
        }
    }

    fn lease(key: &ActionKey, worker: &WorkerId, until: Timestamp) -> Self {
        Self {
            status: ActionStatus::Leased,
            worker: Some(worker.to_string()),
            leases: 1,
            ..Self::ready(key, until, None)
        }
    }
}

/// All actions of the transitions that the batch touches.
async fn read_graphs(connection: &mut SqliteConnection, batch: &[Settlement]) -> Result<Graphs> {
    const READ_GRAPHS: &str = "
        SELECT a.tenant, a.execution_id, a.seq, a.action, a.event_id, a.ordinal, a.needs, a.status, a.epoch,
               e.status AS event_status, x.phase
        FROM json_each(?1) AS i
        CROSS JOIN actions AS a
            ON a.tenant = i.value ->> 'tenant' AND a.execution_id = i.value ->> 'execution'
           AND a.seq = i.value ->> 'seq'
        CROSS JOIN executions AS x ON x.tenant = a.tenant AND x.execution_id = a.execution_id
        CROSS JOIN events AS e ON e.tenant = a.tenant AND e.event_id = a.event_id";
    #[derive(Serialize)]
    struct Row<'a> {
        #[serde(flatten)]
        key: ExecutionParam<'a>,
        seq: Seq,
    }
    let wanted: BTreeSet<_> = batch.iter().map(graph_of).collect();
    let wanted = wanted.iter().map(|(key, seq)| Row { key: ExecutionParam::of(key), seq: *seq });
    let rows = sqlx::query(READ_GRAPHS)
        .bind(param::rows(wanted)?)
        .fetch_all(connection)
        .await
        .map_err(store_error)?;
    let mut graphs = Graphs::new();
    for row in rows.iter().map(Fields) {
        let graph = match graphs.entry((row.execution()?, row.seq("seq")?)) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => entry.insert(Graph {
                event_id: row.event_id("event_id")?,
                event: row.word("event_status", EventStatus::parse)?,
                phase: row.word("phase", Phase::parse)?,
                nodes: BTreeMap::new(),
            }),
        };
        let node = Node {
            ordinal: row.small("ordinal")?,
            needs: row.needs()?,
            status: row.word("status", ActionStatus::parse)?,
            epoch: Epoch(row.int("epoch")?),
        };
        graph.nodes.insert(row.id("action")?, node);
    }
    Ok(graphs)
}

async fn update_actions(connection: &mut SqliteConnection, changes: &[ActionChange]) -> Result<()> {
    // Who performed it stays on record; who performs it next is somebody else.
    const UPDATE_ACTIONS: &str = "
        UPDATE actions SET
            status = i.value ->> 'status',
            result = coalesce(i.value ->> 'result', result),
            error = i.value ->> 'error',
            handled = i.value ->> 'handled',
            worker_id = CASE WHEN i.value ->> 'status' IN ('succeeded', 'failed', 'cancelled') THEN worker_id
                             ELSE i.value ->> 'worker' END,
            due_at = i.value ->> 'due_at',
            settled_at = i.value ->> 'settled_at',
            epoch = epoch + (i.value ->> 'leases'),
            attempts = attempts + (i.value ->> 'leases')
        FROM json_each(?1) AS i
        WHERE actions.tenant = i.value ->> 'tenant' AND actions.execution_id = i.value ->> 'execution'
          AND actions.seq = i.value ->> 'seq' AND actions.action = i.value ->> 'action'";
    sqlx::query(UPDATE_ACTIONS).bind(param::rows(changes)?).execute(connection).await.map_err(store_error)?;
    Ok(())
}

async fn update_events(
    connection: &mut SqliteConnection,
    changes: &[EventChange<'_>],
    now: Timestamp,
) -> Result<()> {
    const UPDATE_EVENTS: &str = "
        UPDATE events SET status = i.value ->> 'status', error = i.value ->> 'error', completed_at = ?2
        FROM json_each(?1) AS i
        WHERE events.tenant = i.value ->> 'tenant' AND events.event_id = i.value ->> 'event'
          AND events.status = 'processing'";
    if changes.is_empty() {
        return Ok(());
    }
    sqlx::query(UPDATE_EVENTS)
        .bind(param::rows(changes)?)
        .bind(now.as_millis())
        .execute(connection)
        .await
        .map_err(store_error)?;
    Ok(())
}
