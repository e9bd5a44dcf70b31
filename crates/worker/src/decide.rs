//! Decides one loaded execution: pure code between two calls of the store.
//!
//! A visit is decided on the current thread as long as its expressions stay cheap, which costs no thread
//! switch. An expensive visit is left undecided after a few milliseconds of work and decided again on the
//! worker's [`EvaluationPool`], after the cheap visits of its group have been committed. A long visit ends
//! early with the events decided so far and rings a new doorbell for the rest, so that other executions get
//! their turn in between. An event that exceeds the time limit of the pool is undecided and counts under the
//! poison rule.

use millstream_core::effort::VisitLimits;
use millstream_core::expr::STEP_UNITS;
use millstream_core::id::AcceptNo;
use millstream_core::log::{Turn, Unfinished};
use millstream_core::machine;
use millstream_core::program::Program;
use millstream_core::status::PauseState;
use millstream_rpc::evaluation_pool::{EvaluationPool, PoolClosed};
use millstream_store::execution_store::{Commit, LoadedExecution, More};

use crate::aftermath::Aftermath;
use crate::crash;
use crate::load::{DecidedBy, Found};
use crate::turn::{self, Before, Line};
use crate::worker::Worker;

const TOO_LONG: &str = "deciding it exceeded the time limit";

/// The rest of a visit, needed once its commit is durable.
#[derive(Debug)]
pub(crate) struct VisitMember {
    pub(crate) at: usize,
    pub(crate) position: AcceptNo,
    pub(crate) more: More,
    pub(crate) lines: Vec<Line>,
}

/// Result of deciding a visit.
#[derive(Debug)]
pub(crate) enum DecidedVisit {
    Commit(Box<VisitMember>, Box<Commit>),
    Nothing,
    /// Its first event takes more work than is allowed on a thread of the runtime.
    Dear(Box<Found>),
    /// The time limit ended the evaluation of its first event.
    Abandoned {
        why: String,
    },
}

/// Decides as many events as are cheap.
pub(crate) fn inline(worker: &Worker, found: Found, aftermath: &mut Aftermath) -> DecidedVisit {
    let limits = VisitLimits { units: EvaluationPool::inline().units, stop: EvaluationPool::inline() };
    let before = before(&found);
    let Found { at, loaded, state, by, company } = found;
    let turn = match &by {
        DecidedBy::Program(program) => {
            crash::on_event(worker.options.crash_on.as_ref(), &loaded.mailbox);
            program.turn_within(state, &loaded.mailbox, loaded.pause, worker.now(), limits)
        }
        DecidedBy::Closing => machine::closing(state, &loaded.mailbox, worker.now()),
    };
    match turn.unfinished {
        Some(Unfinished::Abandoned(_)) if turn.outcomes.is_empty() => {
            DecidedVisit::Dear(Box::new(Found { at, loaded, state: turn.state, by, company }))
        }
        Some(Unfinished::Abandoned(_) | Unfinished::Rest) | None => {
            let program = match &by {
                DecidedBy::Program(program) => Some(program),
                DecidedBy::Closing => None,
            };
            decided(worker, at, loaded, before, (turn, program), aftermath)
        }
    }
}

/// Decides on a thread of the pool, within its time limit.
pub(crate) async fn in_pool(
    worker: &Worker,
    found: Found,
    aftermath: &mut Aftermath,
) -> Result<DecidedVisit, PoolClosed> {
    let (at, before) = (found.at(), before(&found));
    let program = match &found.by {
        DecidedBy::Program(program) => program.clone(),
        // Needs no expression, so it is never expensive.
        DecidedBy::Closing => return Ok(DecidedVisit::Dear(Box::new(found))),
    };
    let Found { loaded, state, .. } = found;
    let (now, deciding) = (worker.now(), program.clone());
    let (turn, loaded) = worker
        .evaluations
        .run(move |stop| {
            let limits = VisitLimits { units: STEP_UNITS, stop };
            let turn = deciding.turn_within(state, &loaded.mailbox, loaded.pause, now, limits);
            (turn, loaded)
        })
        .await?;
    match turn.unfinished {
        Some(Unfinished::Abandoned(event_id)) if turn.outcomes.is_empty() => {
            tracing::warn!(execution.key = %loaded.execution, event.id = %event_id, "{TOO_LONG}");
            Ok(DecidedVisit::Abandoned { why: TOO_LONG.to_owned() })
        }
        Some(Unfinished::Abandoned(_) | Unfinished::Rest) | None => {
            Ok(decided(worker, at, loaded, before, (turn, Some(&program)), aftermath))
        }
    }
}

/// Returns the decoded state to the cache, for the retry that follows soon.
pub(crate) fn put_back(worker: &Worker, found: Found) {
    worker.states.put(found.loaded.execution, found.loaded.position, found.state);
}

fn before(found: &Found) -> Before {
    let loaded = &found.loaded;
    Before::of(loaded.execution.clone(), loaded.definition.clone(), loaded.snapshot_seq, &found.state)
}

fn decided(
    worker: &Worker,
    at: usize,
    mut loaded: LoadedExecution,
    before: Before,
    (turn, program): (Turn, Option<&Program>),
    aftermath: &mut Aftermath,
) -> DecidedVisit {
    if turn.unfinished.is_some() {
        loaded.more = More::Remains;
    }
    if turn.outcomes.is_empty() {
        if loaded.more == More::Remains {
            aftermath.ring_mailbox(loaded.execution.clone());
        }
        worker.states.put(loaded.execution, loaded.position, turn.state);
        return DecidedVisit::Nothing;
    }
    let mut new_id = || worker.event_id();
    let decision = turn::decision(program, before, turn, &loaded.mailbox, &mut new_id);
    let Some(decision) = decision else { return DecidedVisit::Nothing };
    // A paused mailbox was loaded without its waiting events; its cancellation makes them available.
    let more = match loaded.pause {
        PauseState::Running => loaded.more,
        PauseState::Paused => More::Remains,
    };
    let member = VisitMember { at, position: loaded.position, more, lines: decision.lines };
    DecidedVisit::Commit(Box::new(member), Box::new(decision.commit))
}
