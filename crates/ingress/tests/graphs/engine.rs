//! A small worker for graphs: decides events, performs nodes, and announces the transitions.

use std::sync::Arc;
use std::time::Duration;

use millstream_model::action_queue::ActionQueue;
use millstream_model::attempt::AttemptOutcome;
use millstream_model::entropy::{self, Entropy};
use millstream_model::id::{ActionKey, Name, WorkerId};
use millstream_model::raw::RawJson;
use millstream_model::status::{ActionStatus, EventStatus, ExecutionPhase};
use millstream_rpc::blob;
use millstream_rpc::graph_rows::{self, GraphBlobWrite};
use millstream_store::Stores;
use millstream_store::action_store::{FailureHandling, Lease, SettleOutcome, SettleVerdict, Settlement};
use millstream_store::clock::Clock;
use millstream_store::execution_store::{
    ActionRelation, DecidedEvent, EventVerdict, ExecutionCommit, LeaseGrant, LoadRequest, LoadVerdict,
    LoadedExecution, MailboxLimits, NewAction, OpenActions, SnapshotWrite,
};
use millstream_store::graph_store::{NodeDispatch, NodeFilter};
use millstream_store::views::ActionRecord;
use millstream_stream::StreamHandles;
use millstream_stream::announcement::Announcement;
use millstream_workflow::action::conclude_attempt;
use millstream_workflow::graph::{ExecutorAnswer, NodeId, NodeStatus, dispatch_policy};
use millstream_workflow::graph_machine::decide_mailbox;
use millstream_workflow::lease_policy::LeasePolicy;
use millstream_workflow::log::{ActionPlan, EventOutcome, ExecutionState, MailboxEvent};
use millstream_workflow::machine::evolve;

use crate::bench::{Bench, Counter, key};
use crate::wire::Served;

/// An attempt at a node that runs from the second transition on. Every attempt is leased once, to this
/// worker, unless a test does otherwise.
pub(crate) const TOKEN: i64 = (2 << 20) + 1;

pub(crate) struct Engine {
    pub(crate) stores: Stores,
    streams: StreamHandles,
    clock: Arc<dyn Clock>,
    entropy: Counter,
}

impl From<&Bench> for Engine {
    fn from(bench: &Bench) -> Self {
        let (stores, streams) = (bench.stores.clone(), bench.streams.clone());
        Self { stores, streams, clock: bench.clock.clone(), entropy: seeded() }
    }
}

impl From<&Served> for Engine {
    fn from(door: &Served) -> Self {
        let (stores, streams) = (door.deps.stores.clone(), door.deps.streams.clone());
        Self { stores, streams, clock: door.deps.clock.clone(), entropy: seeded() }
    }
}

/// Far from the tokens that the ingress draws.
fn seeded() -> Counter {
    let counter = Counter::default();
    for _ in 0..10_000 {
        counter.next_u64();
    }
    counter
}

impl Engine {
    /// The same with announcements sent to another stream.
    pub(crate) fn announcing(self, streams: StreamHandles) -> Self {
        Self { streams, ..self }
    }

    /// Decides every undecided event of a graph and announces it.
    pub(crate) async fn decide(&self, id: &str) {
        let wanted = LoadRequest { execution: key(id), known: None };
        let loaded =
            self.stores.executions.load_executions(&[wanted], MailboxLimits::default()).await.unwrap().pop();
        let Some(LoadVerdict::Found(loaded)) = loaded else { panic!("{id} was not found") };
        if loaded.mailbox.is_empty() {
            return;
        }
        let LoadedExecution { definition, seq, pause, state, graph, mailbox, .. } = *loaded;
        let (state, transitions) = state.unwrap();
        let graph = graph.map(|bytes| Arc::new(blob::decode(&bytes).unwrap()));
        let state =
            transitions.iter().fold(ExecutionState { graph, ..state }, |state, it| evolve(Some(state), it));
        let turn = decide_mailbox(state, &mailbox, pause, self.clock.now());
        let (mut transitions, mut decided, mut actions) = (Vec::new(), Vec::new(), Vec::new());
        for (event_id, outcome) in turn.outcomes {
            let verdict = match outcome {
                EventOutcome::Applied(applied) => {
                    let (seq, decision) = (applied.transition.seq, applied.transition.decision.clone());
                    let none = applied.actions.is_empty();
                    let status = if none { EventStatus::Completed } else { EventStatus::Processing };
                    actions.extend(applied.actions.into_iter().map(|planned| NewAction {
                        terms: LeasePolicy::engine_for_all(),
                        undoes: None,
                        incident: None,
                        key: ActionKey { execution: key(id), seq, action: planned.name },
                        event_id,
                        traceparent: None,
                        ordinal: planned.ordinal,
                        needs: Vec::new(),
                        status: ActionStatus::Ready,
                        scope: None,
                        input: match planned.plan {
                            ActionPlan::Ready { input } => Some(input),
                            other @ (ActionPlan::Inline { .. }
                            | ActionPlan::Waiting { .. }
                            | ActionPlan::Standby { .. }
                            | ActionPlan::Broken { .. }) => panic!("{other:?}"),
                        },
                        result: None,
                        error: None,
                        handling: FailureHandling::Unhandled,
                        company: ActionRelation::Independent,
                    }));
                    transitions.push(applied.transition);
                    EventVerdict::Applied { seq, from: decision.from, to: decision.to, status, error: None }
                }
                EventOutcome::Rejected { reason } => {
                    EventVerdict::Rejected { state: turn.state.state.clone(), reason }
                }
                EventOutcome::Deferred => EventVerdict::Deferred,
            };
            decided.push(DecidedEvent {
                event_id,
                accept_no: accepted(&mailbox, event_id).accept_no,
                verdict,
            });
        }
        let graph = turn.state.graph.as_ref().filter(|_| !transitions.is_empty()).map(|graph| {
            let payload = |event_id| Some(&accepted(&mailbox, event_id).payload);
            Box::new(graph_rows::rows_of_commit(&transitions, &payload, graph, GraphBlobWrite::Skip))
        });
        let ended = turn.state.phase != ExecutionPhase::Active;
        let commit = ExecutionCommit {
            execution: key(id),
            definition,
            expected: seq,
            snapshot: SnapshotWrite::Skip,
            transitions,
            decided,
            timers: Vec::new(),
            cancelled_timers: Vec::new(),
            actions,
            emitted: Vec::new(),
            open_actions: if ended { OpenActions::Cancel } else { OpenActions::Keep },
            state: turn.state.clone(),
            graph,
        };
        self.stores.executions.commit_executions(&me(), &[commit], &grant(), self.clock.now()).await.unwrap();
        let news = Announcement { execution: key(id), seq: turn.state.seq, event: None };
        self.streams.announcer.announce_commits(&[news]).await.unwrap();
    }

    /// The result of `asking`, while every event of the graph is decided as it arrives.
    pub(crate) async fn while_deciding<T>(&self, id: &str, asking: impl Future<Output = T>) -> T {
        let deciding = async {
            let mut pace = tokio::time::interval(Duration::from_millis(5));
            loop {
                pace.tick().await;
                self.decide(id).await;
            }
        };
        tokio::select! {
            answer = asking => answer,
            () = deciding => unreachable!(),
        }
    }

    /// The latest attempt at a node.
    pub(crate) async fn attempt(&self, id: &str, node: &str) -> ActionRecord {
        let all = self.stores.execution_views.list_actions(&key(id), None, 1_000).await.unwrap();
        all.into_iter().rfind(|action| action.key.action.as_str() == node).unwrap()
    }

    /// Performs a node: its answer is recorded and decided.
    pub(crate) async fn answer(&self, id: &str, node: &str, status: NodeStatus, result: &str) {
        let attempt = self.stores.graph_views.list_nodes(&key(id), &only(node), None, 1).await.unwrap();
        let answer = ExecutorAnswer {
            status,
            attempt: attempt[0].attempt,
            result: Some(RawJson::parse(result).unwrap()),
            error: None,
            edits: Vec::new(),
            known: Vec::new(),
            executor: Some("bench".to_owned()),
        };
        let action = self.attempt(id, node).await;
        let whose = action.as_attempt();
        let performed = AttemptOutcome::Success { result: RawJson::from_value(&answer) };
        let now = self.clock.now();
        let outcome = conclude_attempt(&dispatch_policy(), whose, performed, 0.0, now, &mut || {
            entropy::event_id(now, &self.entropy)
        });
        self.settle(&action, outcome).await;
        self.decide(id).await;
    }

    pub(crate) async fn pass(&self, id: &str, node: &str) {
        self.answer(id, node, NodeStatus::Pass, "null").await;
    }

    /// Records and announces the executor of a node.
    pub(crate) async fn dispatch(&self, id: &str, node: &str, executor: &str) {
        let attempt = self.stores.graph_views.list_nodes(&key(id), &only(node), None, 1).await.unwrap();
        let dispatch = NodeDispatch {
            execution: key(id),
            node: name(node),
            attempt: attempt[0].attempt,
            executor: executor.to_owned(),
            reason: "it was there".to_owned(),
        };
        let contexts =
            self.stores.graphs.record_dispatches(&[dispatch], 1_000, self.clock.now()).await.unwrap();
        assert!(contexts[0].is_some(), "{node} was not dispatched");
        let news = Announcement { execution: key(id), seq: millstream_model::id::Seq(1), event: None };
        self.streams.announcer.announce_commits(&[news]).await.unwrap();
    }

    /// The executor has deferred the node's result.
    pub(crate) async fn accepted(&self, id: &str, node: &str) {
        let action = self.attempt(id, node).await;
        self.settle(&action, SettleOutcome::Awaiting { until: None }).await;
    }

    async fn settle(&self, action: &ActionRecord, outcome: SettleOutcome) {
        let lease = Lease { key: action.key.clone(), epoch: action.epoch };
        let settlement = Settlement { lease, event_id: action.event_id, outcome };
        let now = self.clock.now();
        let settled = self.stores.actions.settle_actions(&me(), &[settlement], &grant(), now).await.unwrap();
        assert!(matches!(settled.verdicts[0], SettleVerdict::Recorded { .. }), "{settled:?}");
    }
}

fn accepted(mailbox: &[MailboxEvent], event_id: millstream_model::id::EventId) -> &MailboxEvent {
    mailbox.iter().find(|event| event.event_id == event_id).unwrap()
}

fn only(node: &str) -> NodeFilter {
    NodeFilter { ids: vec![name(node)], statuses: Vec::new() }
}

pub(crate) fn name(node: &str) -> NodeId {
    Name::parse(node).unwrap()
}

fn me() -> WorkerId {
    WorkerId::parse("bench").unwrap()
}

fn grant() -> LeaseGrant {
    LeaseGrant { slots: 1_000, ttl: Duration::from_secs(60), queues: [ActionQueue::engine_for_all()].into() }
}
