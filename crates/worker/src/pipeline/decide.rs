//! Decides one loaded execution: pure code between two calls of the store.
//!
//! A visit is decided on the current thread as long as its expressions stay cheap, which costs no thread
//! switch. An expensive visit is left undecided after a few milliseconds of work and decided again on the
//! worker's [`EvaluationPool`], after the cheap visits of its group have been committed. A long visit ends
//! early with the events decided so far and rings a new doorbell for the rest, so that other executions get
//! their turn in between. An event that exceeds the time limit of the pool is undecided and counts under the
//! poison rule.

use millstream_expr::STEP_UNITS;
use millstream_model::id::AcceptNo;
use millstream_model::status::PauseState;
use millstream_rpc::evaluation_pool::{EvaluationPool, PoolClosed};
use millstream_store::execution_store::{ExecutionCommit, LoadedExecution, PageRemainder};
use millstream_workflow::log::{UnfinishedReason, VisitDecisions};
use millstream_workflow::machine;
use millstream_workflow::program::ExecutionProgram;
use millstream_workflow::visit_limits::VisitLimits;

use super::commit_builder::{self, LogLine, StateBeforeTurn};
use super::decider::MailboxDecider;
use super::load::{DecidedBy, LoadedVisit};
use super::post_commit::PostCommit;
use crate::crash_point;

const TOO_LONG: &str = "deciding it exceeded the time limit";

/// The rest of a visit, needed once its commit is durable.
#[derive(Debug)]
pub(crate) struct VisitMember {
    pub(crate) at: usize,
    pub(crate) position: AcceptNo,
    pub(crate) more: PageRemainder,
    pub(crate) lines: Vec<LogLine>,
}

/// Result of deciding a visit.
#[derive(Debug)]
pub(crate) enum DecidedVisit {
    Commit(Box<VisitMember>, Box<ExecutionCommit>),
    Nothing,
    /// Its first event takes more work than is allowed on a thread of the runtime.
    Dear(Box<LoadedVisit>),
    /// The time limit ended the evaluation of its first event.
    Abandoned {
        why: String,
    },
}

/// Decides as many events as are cheap.
pub(crate) fn decide_inline(
    decider: &MailboxDecider,
    found: LoadedVisit,
    effects: &mut PostCommit,
) -> DecidedVisit {
    let limits = VisitLimits { units: EvaluationPool::inline().units, stop: EvaluationPool::inline() };
    let before = state_before_turn(&found);
    let LoadedVisit { at, loaded, state, by, company } = found;
    let turn = match &by {
        DecidedBy::Program(program) => {
            crash_point::crash_on_event(decider.env.options.crash_on.as_ref(), &loaded.mailbox);
            program.decide_mailbox_within(state, &loaded.mailbox, loaded.pause, decider.env.now(), limits)
        }
        DecidedBy::Closing => machine::decide_without_definition(state, &loaded.mailbox, decider.env.now()),
    };
    match turn.unfinished {
        Some(UnfinishedReason::Abandoned(_)) if turn.outcomes.is_empty() => {
            DecidedVisit::Dear(Box::new(LoadedVisit { at, loaded, state: turn.state, by, company }))
        }
        Some(UnfinishedReason::Abandoned(_) | UnfinishedReason::Rest) | None => {
            let program = match &by {
                DecidedBy::Program(program) => Some(program),
                DecidedBy::Closing => None,
            };
            decided_visit(decider, at, loaded, before, (turn, program), effects)
        }
    }
}

/// Decides on a thread of the pool, within its time limit.
pub(crate) async fn decide_in_pool(
    decider: &MailboxDecider,
    found: LoadedVisit,
    effects: &mut PostCommit,
) -> Result<DecidedVisit, PoolClosed> {
    let (at, before) = (found.visit_index(), state_before_turn(&found));
    let program = match &found.by {
        DecidedBy::Program(program) => program.clone(),
        // Needs no expression, so it is never expensive.
        DecidedBy::Closing => return Ok(DecidedVisit::Dear(Box::new(found))),
    };
    let LoadedVisit { loaded, state, .. } = found;
    let (now, deciding) = (decider.env.now(), program.clone());
    let (turn, loaded) = decider
        .evaluations
        .run(move |stop| {
            let limits = VisitLimits { units: STEP_UNITS, stop };
            let turn = deciding.decide_mailbox_within(state, &loaded.mailbox, loaded.pause, now, limits);
            (turn, loaded)
        })
        .await?;
    match turn.unfinished {
        Some(UnfinishedReason::Abandoned(event_id)) if turn.outcomes.is_empty() => {
            tracing::warn!(execution.key = %loaded.execution, event.id = %event_id, "{TOO_LONG}");
            Ok(DecidedVisit::Abandoned { why: TOO_LONG.to_owned() })
        }
        Some(UnfinishedReason::Abandoned(_) | UnfinishedReason::Rest) | None => {
            Ok(decided_visit(decider, at, loaded, before, (turn, Some(&program)), effects))
        }
    }
}

/// Returns the decoded state to the cache, for the retry that follows soon.
pub(crate) fn return_state_to_cache(decider: &MailboxDecider, found: LoadedVisit) {
    decider.states.put_state(found.loaded.execution, found.loaded.position, found.state);
}

fn state_before_turn(found: &LoadedVisit) -> StateBeforeTurn {
    let loaded = &found.loaded;
    StateBeforeTurn::of_state(
        loaded.execution.clone(),
        loaded.definition.clone(),
        loaded.snapshot_seq,
        &found.state,
    )
}

fn decided_visit(
    decider: &MailboxDecider,
    at: usize,
    mut loaded: LoadedExecution,
    before: StateBeforeTurn,
    (turn, program): (VisitDecisions, Option<&ExecutionProgram>),
    effects: &mut PostCommit,
) -> DecidedVisit {
    if turn.unfinished.is_some() {
        loaded.more = PageRemainder::Remains;
    }
    if turn.outcomes.is_empty() {
        if loaded.more == PageRemainder::Remains {
            effects.notifications.ring_mailbox(loaded.execution.clone());
        }
        decider.states.put_state(loaded.execution, loaded.position, turn.state);
        return DecidedVisit::Nothing;
    }
    let mut new_id = || decider.env.new_event_id();
    let decision = commit_builder::build_commit(program, before, turn, &loaded.mailbox, &mut new_id);
    let Some(decision) = decision else { return DecidedVisit::Nothing };
    // A paused mailbox was loaded without its waiting events; its cancellation makes them available.
    let more = match loaded.pause {
        PauseState::Running => loaded.more,
        PauseState::Paused => PageRemainder::Remains,
    };
    let member = VisitMember { at, position: loaded.position, more, lines: decision.lines };
    DecidedVisit::Commit(Box::new(member), Box::new(decision.commit))
}
