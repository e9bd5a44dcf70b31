//! Watch stream of a graph: all its events in order, first the past ones, then new ones.
//!
//! ```text
//! feed (after a place) ─→ entries ─→ read_transitions of each, page by page ─→ transition_notices
//!        ↑                                                                  │
//!        └──────── announced, or every so often ←── nothing new ────────────┘
//! ```
//!
//! Each event has its [`WatchPosition`]; a watcher that reconnects with the last one resumes after it. Nothing is
//! lost and nothing is repeated, because all events are derived deterministically from stored data.

use std::collections::VecDeque;
use std::sync::Arc;

use millstream_model::id::{ExecutionKey, Seq};
use millstream_model::time::Timestamp;
use millstream_rpc::proto::NodeDispatched;
use millstream_rpc::write::decode_dispatches;
use millstream_store::feed::{FeedContent, FeedEntry};
use millstream_workflow::graph_machine::{GraphTransitionNotice, transition_notices};

use super::GraphDeps;
use super::find::{find_graph, unreadable_graph};
use super::watch_position::WatchPosition;
use crate::admission::HeldPlace;
use crate::refusal::{RefusalKind, RequestRefusal};
use crate::waiters::{ExecutionSubscription, RereadPause};

/// Page sizes of the feed and of the transitions.
const ENTRIES: usize = 100;
const TRANSITIONS: usize = 100;

/// One event of the watch stream.
#[derive(Debug)]
pub(crate) struct WatchedEvent {
    pub(crate) place: WatchPosition,
    pub(crate) at: Timestamp,
    pub(crate) what: WatchedEventKind,
}

#[derive(Debug)]
pub(crate) enum WatchedEventKind {
    /// Derived from a transition on the log.
    Noticed(Seq, GraphTransitionNotice),
    /// Not on the log: an executor was chosen.
    Dispatched(NodeDispatched),
}

impl WatchedEventKind {
    /// Whether this is the last event.
    const fn is_end(&self) -> bool {
        match self {
            Self::Noticed(
                _,
                GraphTransitionNotice::Completed
                | GraphTransitionNotice::Failed { .. }
                | GraphTransitionNotice::Cancelled { .. },
            ) => true,
            Self::Noticed(
                _,
                GraphTransitionNotice::Created { .. }
                | GraphTransitionNotice::Edited { .. }
                | GraphTransitionNotice::Expanded { .. }
                | GraphTransitionNotice::Scheduled { .. }
                | GraphTransitionNotice::Retried { .. }
                | GraphTransitionNotice::NodeCompleted { .. },
            )
            | Self::Dispatched(_) => false,
        }
    }
}

/// The result of starting a watch.
pub(crate) enum GraphWatchStart {
    On(Box<GraphWatch>),
    /// The graph has ended and the caller has received all events.
    SeenAll,
}

pub(crate) struct GraphWatch {
    deps: Arc<GraphDeps>,
    graph: ExecutionKey,
    ear: ExecutionSubscription,
    pause: RereadPause,
    /// The last event that the caller has received.
    seen: Option<WatchPosition>,
    /// All feed entries up to this position have been read.
    taken: i64,
    entries: VecDeque<FeedEntry>,
    /// The entry whose transitions are being read.
    telling: Option<FeedCommitCursor>,
    waiting: VecDeque<WatchedEvent>,
    stage: GraphWatchStage,
    _permit: HeldPlace,
}

/// A commit whose transitions are partly read.
#[derive(Debug)]
struct FeedCommitCursor {
    position: i64,
    next: Seq,
    last: Seq,
    /// Index of the next event.
    index: u32,
}

#[derive(Debug, Clone, Copy)]
enum GraphWatchStage {
    Reading,
    /// Everything was read: wait for an announcement first.
    Listening,
    Done,
}

pub(crate) async fn watch_graph(
    deps: Arc<GraphDeps>,
    graph: ExecutionKey,
    after: Option<WatchPosition>,
) -> Result<GraphWatchStart, RequestRefusal> {
    let permit = deps.admission.stream_place(&graph.tenant)?;
    let ear = deps.news.subscribe_to(graph.clone());
    let found = find_graph(&deps, &graph).await?;
    let mut watch = GraphWatch {
        pause: RereadPause::of(deps.reread),
        deps,
        graph,
        ear,
        seen: after,
        // The entry of the last event may contain further events.
        taken: after.map_or(0, |place| place.position - 1),
        entries: VecDeque::new(),
        telling: None,
        waiting: VecDeque::new(),
        stage: GraphWatchStage::Reading,
        _permit: permit,
    };
    if after.is_some() && found.execution.state.phase.is_ended() {
        while watch.waiting.is_empty() && watch.read_step().await? == WatchRead::Something {}
        if watch.waiting.is_empty() {
            return Ok(GraphWatchStart::SeenAll);
        }
    }
    Ok(GraphWatchStart::On(Box::new(watch)))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WatchRead {
    /// There may be more.
    Something,
    Nothing,
}

impl GraphWatch {
    /// The next event. `None` at the end; an error means that the stream broke and can be resumed.
    pub(crate) async fn next_event(&mut self) -> Option<Result<WatchedEvent, RequestRefusal>> {
        loop {
            if let Some(happening) = self.waiting.pop_front() {
                if happening.what.is_end() {
                    self.stage = GraphWatchStage::Done;
                }
                return Some(Ok(happening));
            }
            match self.stage {
                GraphWatchStage::Done => return None,
                GraphWatchStage::Reading | GraphWatchStage::Listening
                    if self.deps.draining.is_cancelled() =>
                {
                    return Some(Err(self.break_stream(draining_refusal())));
                }
                GraphWatchStage::Listening => {
                    let draining = self.deps.draining.clone();
                    tokio::select! {
                        () = self.ear.wait_for_news(self.pause.next_pause(self.deps.entropy.next_u64())) => {}
                        () = draining.cancelled() => {}
                    }
                    self.stage = GraphWatchStage::Reading;
                }
                GraphWatchStage::Reading => match self.read_or_wait().await {
                    Ok(()) => {}
                    Err(refusal) => return Some(Err(self.break_stream(refusal))),
                },
            }
        }
    }

    fn break_stream(&mut self, refusal: RequestRefusal) -> RequestRefusal {
        self.stage = GraphWatchStage::Done;
        refusal
    }

    /// Reads new entries. Without new ones, the stream waits, or ends with the graph.
    async fn read_or_wait(&mut self) -> Result<(), RequestRefusal> {
        // Checked before the feed is read: if the graph has ended, its last entry is in the feed.
        let ended = match self.entries.is_empty() && self.telling.is_none() {
            false => false,
            true => self.has_ended().await?,
        };
        match self.read_step().await? {
            WatchRead::Something => self.pause.reset_backoff(),
            WatchRead::Nothing if ended => self.stage = GraphWatchStage::Done,
            WatchRead::Nothing => self.stage = GraphWatchStage::Listening,
        }
        Ok(())
    }

    async fn has_ended(&self) -> Result<bool, RequestRefusal> {
        let key = std::slice::from_ref(&self.graph);
        let found = self.deps.stores.execution_views.find_executions(key).await?;
        // Removed by retention: the graph had ended.
        Ok(found.into_iter().next().flatten().is_none_or(|view| view.state.phase.is_ended()))
    }

    /// One step: a page of transitions, one entry, or a page of entries.
    async fn read_step(&mut self) -> Result<WatchRead, RequestRefusal> {
        if let Some(telling) = self.telling.take() {
            self.telling = self.read_transitions(telling).await?;
            return Ok(WatchRead::Something);
        }
        if let Some(entry) = self.entries.pop_front() {
            match entry.what {
                FeedContent::Transitions { first, last } => {
                    self.telling =
                        Some(FeedCommitCursor { position: entry.position, next: first, last, index: 0 });
                }
                FeedContent::Dispatched(stored) => {
                    let dispatched = decode_dispatches(&stored).map_err(unreadable_graph)?;
                    for (index, dispatched) in (0..).zip(dispatched) {
                        let place = WatchPosition { position: entry.position, index };
                        self.push_event(place, entry.at, WatchedEventKind::Dispatched(dispatched));
                    }
                }
            }
            return Ok(WatchRead::Something);
        }
        let page = self.deps.stores.feed.read_feed(&self.graph, self.taken, ENTRIES).await?;
        let Some(last) = page.last() else { return Ok(WatchRead::Nothing) };
        self.taken = last.position;
        self.entries = page.into();
        Ok(WatchRead::Something)
    }

    /// Reads a page of transitions; returns the rest of the commit.
    async fn read_transitions(
        &mut self,
        mut telling: FeedCommitCursor,
    ) -> Result<Option<FeedCommitCursor>, RequestRefusal> {
        let before = Seq(telling.next.0 - 1);
        let views = &self.deps.stores.execution_views;
        let page = views.read_history(&self.graph, before, TRANSITIONS).await?;
        for entry in &page.entries {
            let transition = &entry.transition;
            if transition.seq > telling.last {
                return Ok(None);
            }
            for notice in transition_notices(transition) {
                let place = WatchPosition { position: telling.position, index: telling.index };
                self.push_event(place, transition.at, WatchedEventKind::Noticed(transition.seq, notice));
                telling.index += 1;
            }
            telling.next = transition.seq.next();
        }
        // An empty page means that retention has removed the transitions.
        Ok(Some(telling).filter(|telling| !page.entries.is_empty() && telling.next <= telling.last))
    }

    fn push_event(&mut self, place: WatchPosition, at: Timestamp, what: WatchedEventKind) {
        if self.seen.is_none_or(|seen| place > seen) {
            self.waiting.push_back(WatchedEvent { place, at, what });
        }
    }
}

fn draining_refusal() -> RequestRefusal {
    RequestRefusal::new(
        RefusalKind::Draining,
        "this process is shutting down; reconnect and resume after the last event",
    )
}
