//! Watch stream of a graph: all its events in order, first the past ones, then new ones.
//!
//! ```text
//! feed (after a place) ─→ entries ─→ transitions of each, page by page ─→ notices
//!        ↑                                                                  │
//!        └──────── announced, or every so often ←── nothing new ────────────┘
//! ```
//!
//! Each event has its [`Place`]; a watcher that reconnects with the last one resumes after it. Nothing is
//! lost and nothing is repeated, because all events are derived deterministically from stored data.

use std::collections::VecDeque;
use std::sync::Arc;

use millstream_core::graph::{Notice, notices};
use millstream_core::id::{ExecutionKey, Seq};
use millstream_core::time::Timestamp;
use millstream_rpc::proto::NodeDispatched;
use millstream_rpc::write::dispatches;
use millstream_store::feed::{Fed, FeedEntry};

use super::find::{find, unreadable};
use super::place::Place;
use crate::door::Door;
use crate::http::problem::{Kind, Problem};
use crate::news::{Ear, RereadPause};
use crate::quotas::HeldPlace;

/// Page sizes of the feed and of the transitions.
const ENTRIES: usize = 100;
const TRANSITIONS: usize = 100;

/// One event of the watch stream.
#[derive(Debug)]
pub(crate) struct Happening {
    pub(crate) place: Place,
    pub(crate) at: Timestamp,
    pub(crate) what: What,
}

#[derive(Debug)]
pub(crate) enum What {
    /// Derived from a transition on the log.
    Noticed(Seq, Notice),
    /// Not on the log: an executor was chosen.
    Dispatched(NodeDispatched),
}

impl What {
    /// Whether this is the last event.
    const fn is_end(&self) -> bool {
        match self {
            Self::Noticed(_, Notice::Completed | Notice::Failed { .. } | Notice::Cancelled { .. }) => true,
            Self::Noticed(
                _,
                Notice::Created { .. }
                | Notice::Edited { .. }
                | Notice::Expanded { .. }
                | Notice::Scheduled { .. }
                | Notice::Retried { .. }
                | Notice::NodeCompleted { .. },
            )
            | Self::Dispatched(_) => false,
        }
    }
}

/// The result of starting a watch.
pub(crate) enum Watching {
    On(Box<Watch>),
    /// The graph has ended and the caller has received all events.
    SeenAll,
}

pub(crate) struct Watch {
    door: Arc<Door>,
    graph: ExecutionKey,
    ear: Ear,
    pause: RereadPause,
    /// The last event that the caller has received.
    seen: Option<Place>,
    /// All feed entries up to this position have been read.
    taken: i64,
    entries: VecDeque<FeedEntry>,
    /// The entry whose transitions are being read.
    telling: Option<Telling>,
    waiting: VecDeque<Happening>,
    stage: Stage,
    _permit: HeldPlace,
}

/// A commit whose transitions are partly read.
#[derive(Debug)]
struct Telling {
    position: i64,
    next: Seq,
    last: Seq,
    /// Index of the next event.
    index: u32,
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    Reading,
    /// Everything was read: wait for an announcement first.
    Listening,
    Done,
}

pub(crate) async fn watch(
    door: Arc<Door>,
    graph: ExecutionKey,
    after: Option<Place>,
) -> Result<Watching, Problem> {
    let permit = door.stream_place(&graph.tenant)?;
    let ear = door.news.about(graph.clone());
    let found = find(&door, &graph).await?;
    let mut watch = Watch {
        pause: RereadPause::of(door.options.reread),
        door,
        graph,
        ear,
        seen: after,
        // The entry of the last event may contain further events.
        taken: after.map_or(0, |place| place.position - 1),
        entries: VecDeque::new(),
        telling: None,
        waiting: VecDeque::new(),
        stage: Stage::Reading,
        _permit: permit,
    };
    if after.is_some() && found.execution.state.phase.is_ended() {
        while watch.waiting.is_empty() && watch.read().await? == Read::Something {}
        if watch.waiting.is_empty() {
            return Ok(Watching::SeenAll);
        }
    }
    Ok(Watching::On(Box::new(watch)))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Read {
    /// There may be more.
    Something,
    Nothing,
}

impl Watch {
    /// The next event. `None` at the end; an error means that the stream broke and can be resumed.
    pub(crate) async fn next(&mut self) -> Option<Result<Happening, Problem>> {
        loop {
            if let Some(happening) = self.waiting.pop_front() {
                if happening.what.is_end() {
                    self.stage = Stage::Done;
                }
                return Some(Ok(happening));
            }
            match self.stage {
                Stage::Done => return None,
                Stage::Reading | Stage::Listening if self.door.draining.is_cancelled() => {
                    return Some(Err(self.broken(draining())));
                }
                Stage::Listening => {
                    let draining = self.door.draining.clone();
                    tokio::select! {
                        () = self.ear.listen(self.pause.next(self.door.entropy.next_u64())) => {}
                        () = draining.cancelled() => {}
                    }
                    self.stage = Stage::Reading;
                }
                Stage::Reading => match self.look().await {
                    Ok(()) => {}
                    Err(problem) => return Some(Err(self.broken(problem))),
                },
            }
        }
    }

    fn broken(&mut self, problem: Problem) -> Problem {
        self.stage = Stage::Done;
        problem
    }

    /// Reads new entries. Without new ones, the stream waits, or ends with the graph.
    async fn look(&mut self) -> Result<(), Problem> {
        // Checked before the feed is read: if the graph has ended, its last entry is in the feed.
        let ended = match self.entries.is_empty() && self.telling.is_none() {
            false => false,
            true => self.has_ended().await?,
        };
        match self.read().await? {
            Read::Something => self.pause.reset(),
            Read::Nothing if ended => self.stage = Stage::Done,
            Read::Nothing => self.stage = Stage::Listening,
        }
        Ok(())
    }

    async fn has_ended(&self) -> Result<bool, Problem> {
        let key = std::slice::from_ref(&self.graph);
        let found = self.door.stores.execution_views.executions(key).await?;
        // Removed by retention: the graph had ended.
        Ok(found.into_iter().next().flatten().is_none_or(|view| view.state.phase.is_ended()))
    }

    /// One step: a page of transitions, one entry, or a page of entries.
    async fn read(&mut self) -> Result<Read, Problem> {
        if let Some(telling) = self.telling.take() {
            self.telling = self.transitions(telling).await?;
            return Ok(Read::Something);
        }
        if let Some(entry) = self.entries.pop_front() {
            match entry.what {
                Fed::Transitions { first, last } => {
                    self.telling = Some(Telling { position: entry.position, next: first, last, index: 0 });
                }
                Fed::Dispatched(stored) => {
                    let dispatched = dispatches(&stored).map_err(unreadable)?;
                    for (index, dispatched) in (0..).zip(dispatched) {
                        let place = Place { position: entry.position, index };
                        self.tell(place, entry.at, What::Dispatched(dispatched));
                    }
                }
            }
            return Ok(Read::Something);
        }
        let page = self.door.stores.feed.feed(&self.graph, self.taken, ENTRIES).await?;
        let Some(last) = page.last() else { return Ok(Read::Nothing) };
        self.taken = last.position;
        self.entries = page.into();
        Ok(Read::Something)
    }

    /// Reads a page of transitions; returns the rest of the commit.
    async fn transitions(&mut self, mut telling: Telling) -> Result<Option<Telling>, Problem> {
        let before = Seq(telling.next.0 - 1);
        let views = &self.door.stores.execution_views;
        let page = views.history(&self.graph, before, TRANSITIONS).await?;
        for entry in &page.entries {
            let transition = &entry.transition;
            if transition.seq > telling.last {
                return Ok(None);
            }
            for notice in notices(transition) {
                let place = Place { position: telling.position, index: telling.index };
                self.tell(place, transition.at, What::Noticed(transition.seq, notice));
                telling.index += 1;
            }
            telling.next = transition.seq.next();
        }
        // An empty page means that retention has removed the transitions.
        Ok(Some(telling).filter(|telling| !page.entries.is_empty() && telling.next <= telling.last))
    }

    fn tell(&mut self, place: Place, at: Timestamp, what: What) {
        if self.seen.is_none_or(|seen| place > seen) {
            self.waiting.push_back(Happening { place, at, what });
        }
    }
}

fn draining() -> Problem {
    Problem::new(Kind::Draining, "this process is shutting down; reconnect and resume after the last event")
}
