//! Settling: outcomes, then dependents, then the events' status, in one transaction.
//!
//! Two actions that settle at once must not each see the other unsettled. PostgreSQL locks the event's
//! row for that; here the one writer has the same effect. A success of the only action of its transition
//! is one statement, because nothing else follows from it. Otherwise the actions of the transition are
//! read, changed in memory ([`crate::settle_graph`]), and written.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use millstream_core::id::{AcceptNo, ActionKey, ExecutionKey, Seq, WorkerId};
use millstream_core::status::{ActionStatus, EventStatus, Phase};
use millstream_core::time::Timestamp;
use millstream_store::action_store::{AfterFailure, SettleVerdict, Settled, Settlement, Settling};
use millstream_store::event_log::NewEvent;
use millstream_store::execution_store::LeaseGrant;
use rusqlite::Connection;

use crate::accept::accept_emitted;
use crate::action_store::columns;
use crate::commit_rows::fail_event;
use crate::errors::Attempt;
use crate::intervention::pause_active;
use crate::leased::read_leased;
use crate::param;
use crate::settle_graph::Graph;
use crate::settle_rows::{ActionChange, read_graph, update_action};

type Graphs = BTreeMap<(ExecutionKey, Seq), Graph>;

pub(crate) fn settle_batch(
    connection: &Connection,
    worker: &WorkerId,
    batch: &[Settlement],
    grant: LeaseGrant,
    now: Timestamp,
) -> Attempt<Settled> {
    let mut graphs = Graphs::new();
    let mut changes = Changes::default();
    let mut outcomes = Vec::with_capacity(batch.len());
    for item in batch {
        let outcome = if settle_alone(connection, item, &mut changes, now)? {
            Recorded::Alone
        } else {
            read_missing(connection, &mut graphs, item)?;
            changes.record(&mut graphs, item, now)
        };
        outcomes.push(outcome);
    }
    let freed = changes.resolve(&mut graphs, now);
    let (leased, unleased) = freed.split_at(freed.len().min(grant.slots));
    changes.actions.extend(leased.iter().map(|key| ActionChange::lease(key, worker, now.plus(grant.ttl))));
    changes.actions.extend(unleased.iter().map(|key| ActionChange::ready(key, now, None)));
    changes.write(connection, now)?;

    let verdicts =
        batch.iter().zip(outcomes).map(|(item, outcome)| verdict(&graphs, item, outcome)).collect();
    Ok(Settled { verdicts, leased: read_leased(connection, leased)?, unleased: unleased.len() })
}

/// How an outcome was recorded.
enum Recorded {
    /// By one statement: its event has nothing else to wait for.
    Alone,
    /// In its graph.
    Among,
    /// Not at all: the lease has passed on.
    Not,
}

fn verdict(graphs: &Graphs, item: &Settlement, outcome: Recorded) -> SettleVerdict {
    match (outcome, graphs.get(&graph_of(item))) {
        (Recorded::Alone, _) => SettleVerdict::Recorded { event: EventStatus::Completed },
        (Recorded::Among, Some(graph)) => SettleVerdict::Recorded { event: graph.event },
        (Recorded::Among, None) | (Recorded::Not, _) => SettleVerdict::Stale,
    }
}

fn graph_of(item: &Settlement) -> (ExecutionKey, Seq) {
    (item.lease.key.execution.clone(), item.lease.key.seq)
}

fn read_missing(connection: &Connection, graphs: &mut Graphs, item: &Settlement) -> Attempt<()> {
    if let Entry::Vacant(entry) = graphs.entry(graph_of(item))
        && let Some(graph) = read_graph(connection, &item.lease.key)?
    {
        entry.insert(graph);
    }
    Ok(())
}

/// Whether it was a success of an only action under a lease that is held. Anything else is left alone.
fn settle_alone<'a>(
    connection: &Connection,
    item: &'a Settlement,
    changes: &mut Changes<'a>,
    now: Timestamp,
) -> Attempt<bool> {
    const SETTLE_ALONE: &str = "
        UPDATE actions
        SET status = 'succeeded', result = ?6, error = NULL, handled = 0, due_at = NULL, settled_at = ?7
        WHERE tenant = ?1 AND execution_id = ?2 AND seq = ?3 AND action = ?4 AND epoch = ?5
          AND status = 'leased' AND alone";
    let Settling::Succeeded { result, emit } = &item.outcome else { return Ok(false) };
    let (tenant, execution, seq, action, epoch) = columns(&item.lease);
    let settled = connection.prepare_cached(SETTLE_ALONE)?.execute((
        tenant,
        execution,
        seq,
        action,
        epoch,
        result.as_str(),
        now.as_millis(),
    ))?;
    if settled == 0 {
        return Ok(false);
    }
    changes.emitted.extend(emit.as_deref());
    Ok(true)
}

/// What a batch of settlements writes.
#[derive(Default)]
struct Changes<'a> {
    actions: Vec<ActionChange>,
    failed: Vec<(AcceptNo, &'a str)>,
    paused: Vec<(&'a ExecutionKey, &'a str)>,
    emitted: Vec<&'a NewEvent>,
}

impl<'a> Changes<'a> {
    fn record(&mut self, graphs: &mut Graphs, item: &'a Settlement, now: Timestamp) -> Recorded {
        let key = &item.lease.key;
        let graph = graphs.get_mut(&graph_of(item));
        let Some(graph) = graph.filter(|graph| graph.holds(&key.action, item.lease.epoch)) else {
            return Recorded::Not;
        };
        let change = match &item.outcome {
            Settling::Succeeded { result, emit } => {
                self.emitted.extend(emit.as_deref());
                ActionChange {
                    result: Some(result.clone()),
                    ..ActionChange::settled(key, ActionStatus::Succeeded, now)
                }
            }
            Settling::Retry { error, at } => match graph.phase {
                Phase::Cancelled => ActionChange {
                    error: Some(error.clone()),
                    ..ActionChange::settled(key, ActionStatus::Cancelled, now)
                },
                Phase::Active | Phase::Completed | Phase::Failed => {
                    ActionChange::ready(key, *at, Some(error.clone()))
                }
            },
            Settling::Failed { error, then } => {
                match then {
                    AfterFailure::Emit(event) => self.emitted.push(event),
                    AfterFailure::Pause { reason } => self.fail(graph, key, reason),
                }
                ActionChange {
                    error: Some(error.clone()),
                    handled: param::handled(then.handling()),
                    ..ActionChange::settled(key, ActionStatus::Failed, now)
                }
            }
        };
        graph.set(&key.action, change.status);
        self.actions.push(change);
        Recorded::Among
    }

    /// Nothing handles this failure.
    fn fail(&mut self, graph: &mut Graph, key: &'a ActionKey, reason: &'a str) {
        if graph.event == EventStatus::Processing {
            graph.event = EventStatus::Failed;
            self.failed.push((graph.accept_no, reason));
        }
        self.paused.push((&key.execution, reason));
    }

    /// Skip what follows from the outcomes and say which events are complete; return what the outcomes
    /// freed, in order.
    fn resolve(&mut self, graphs: &mut Graphs, now: Timestamp) -> Vec<ActionKey> {
        let mut freed = Vec::new();
        for ((execution, seq), graph) in graphs {
            let key = |action| ActionKey { execution: execution.clone(), seq: *seq, action };
            let resolved = graph.resolve();
            freed.extend(resolved.freed.into_iter().map(key));
            let skipped = resolved.skipped.into_iter().map(key);
            let skip = |key| ActionChange::settled(&key, ActionStatus::Skipped, now);
            self.actions.extend(skipped.map(skip));
            if graph.event == EventStatus::Processing && graph.is_settled() {
                graph.event = EventStatus::Completed;
            }
        }
        freed
    }

    fn write(&self, connection: &Connection, now: Timestamp) -> Attempt<()> {
        for change in &self.actions {
            update_action(connection, change)?;
        }
        for (event, reason) in &self.failed {
            fail_event(connection, *event, Some(reason), now)?;
        }
        pause_active(connection, &self.paused, now)?;
        if !self.emitted.is_empty() {
            accept_emitted(connection, self.emitted.iter().copied(), now)?;
        }
        Ok(())
    }
}
