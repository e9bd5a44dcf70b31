//! Rows that the engine would write for a workload, computed once and copied per event.
//!
//! The machine decides one event of one execution; every other event gets the same rows under its own ids.
//! The floor thus writes exactly the columns and sizes of the engine at the cost of a copy.

use millstream_core::definition::{self, Definition, Format};
use millstream_core::id::{
    AcceptNo, ActionKey, DefinitionRef, Epoch, EventId, ExecutionId, ExecutionKey, Name, Seq, TenantId,
};
use millstream_core::log::{Kept, Origin, Outcome, Plan, State, Waiting};
use millstream_core::machine::{self, Machine};
use millstream_core::raw::RawJson;
use millstream_core::status::{ActionStatus, EventStatus, PauseState};
use millstream_core::terms::Terms;
use millstream_core::time::Timestamp;
use millstream_store::action_store::{Handling, Lease, Settlement, Settling};
use millstream_store::definition_store::NewDefinition;
use millstream_store::event_log::{Append, NewEvent, NewExecution};
use millstream_store::execution_store::{
    Commit, Decided, EventVerdict, NewAction, OpenActions, SnapshotWrite,
};
use uuid::Uuid;

use crate::error::{BenchError, Result};
use crate::workload::Workload;

/// As long as the trace that the ingress stores with every event.
const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// Produces rows for the executions of one workload.
#[derive(Debug)]
pub(super) struct Values {
    machine: Machine,
    definition: DefinitionRef,
    tenant: TenantId,
    prefix: String,
    payload: RawJson,
    name: Name,
    commit: Commit,
}

impl Values {
    pub(super) fn of(workload: Workload, prefix: &str, now: Timestamp) -> Result<Self> {
        // The actions are not performed: the sink's address only needs a realistic length.
        let parsed = definition::parse(&workload.definition("http://127.0.0.1:40000"), Format::Yaml)
            .map_err(|problems| BenchError::Wrong(format!("the definition of {workload}: {problems}")))?;
        let definition = DefinitionRef { name: parsed.name().clone(), version: 1 };
        let machine = Machine::compile(parsed)
            .map_err(|problems| BenchError::Wrong(format!("the definition of {workload}: {problems}")))?;
        let payload = RawJson::parse(&workload.payload()).map_err(wrong)?;
        let (tenant, name) = (TenantId::default_tenant(), Name::parse("go").map_err(wrong)?);
        let execution = ExecutionKey {
            tenant: tenant.clone(),
            execution: ExecutionId::parse("template").map_err(wrong)?,
        };
        let commit = decide(&machine, &definition, execution, &name, &payload, now)?;
        Ok(Self { machine, definition, tenant, prefix: prefix.to_owned(), payload, name, commit })
    }

    pub(super) fn new_definition(&self) -> NewDefinition {
        let parsed = self.machine.definition();
        NewDefinition {
            name: parsed.name().clone(),
            dialect: i32::try_from(Definition::DIALECT).unwrap_or(1),
            source: parsed.canonical_json(),
            checksum: parsed.checksum(),
        }
    }

    fn execution(&self, number: usize) -> Result<ExecutionKey> {
        let execution = ExecutionId::parse(format!("{}{number}", self.prefix)).map_err(wrong)?;
        Ok(ExecutionKey { tenant: self.tenant.clone(), execution })
    }

    /// The start of an execution, as `POST /v1/executions` with this input creates it.
    pub(super) fn start(&self, number: usize, now: Timestamp) -> Result<Append> {
        let (key, start_id) = (self.execution(number)?, EventId(Uuid::now_v7()));
        let input = RawJson::trusted(format!("{{\"at\":\"{number}\"}}"));
        let (applied, state) = machine::create(&self.machine, start_id, &input, now).map_err(wrong)?;
        let start = NewEvent {
            event_id: start_id,
            execution: key.clone(),
            name: Name::start(),
            payload: input,
            origin: Origin::Posted,
            idempotency: None,
            actor: None,
            traceparent: Some(TRACE.to_owned()),
        };
        let definition = self.definition.clone();
        let new = NewExecution {
            key,
            definition,
            input_hash: [7; 32],
            start,
            applied,
            state,
            events: Vec::new(),
            graph: None,
        };
        Ok(Append::Start(Box::new(new)))
    }

    pub(super) fn event(&self, number: usize) -> Result<NewEvent> {
        Ok(NewEvent {
            event_id: EventId(Uuid::now_v7()),
            execution: self.execution(number)?,
            name: self.name.clone(),
            payload: self.payload.clone(),
            origin: Origin::Posted,
            idempotency: None,
            actor: None,
            traceparent: Some(TRACE.to_owned()),
        })
    }

    /// The commit for the decision of this event, the first of its execution.
    pub(super) fn commit(&self, execution: &ExecutionKey, event_id: EventId, accept_no: AcceptNo) -> Commit {
        let mut commit = self.commit.clone();
        commit.execution = execution.clone();
        for transition in &mut commit.transitions {
            transition.event_id = event_id;
        }
        for decided in &mut commit.decided {
            (decided.event_id, decided.accept_no) = (event_id, accept_no);
        }
        for action in &mut commit.actions {
            action.event_id = event_id;
            action.key.execution = execution.clone();
        }
        commit
    }

    /// Settlements of the actions of a commit, which were leased with it.
    pub(super) fn settlements(&self, commit: &Commit) -> Vec<Settlement> {
        let settle = |action: &NewAction| Settlement {
            lease: Lease { key: action.key.clone(), epoch: Epoch::FIRST },
            event_id: action.event_id,
            outcome: Settling::Succeeded { result: RawJson::trusted("7"), emit: None },
        };
        commit.actions.iter().map(settle).collect()
    }
}

/// Decides one event of one new execution.
fn decide(
    machine: &Machine,
    definition: &DefinitionRef,
    execution: ExecutionKey,
    name: &Name,
    payload: &RawJson,
    now: Timestamp,
) -> Result<Commit> {
    let event_id = EventId(Uuid::now_v7());
    let (_, state) =
        machine::create(machine, event_id, &RawJson::trusted("{\"at\":\"0\"}"), now).map_err(wrong)?;
    let waiting = Waiting {
        event_id,
        accept_no: AcceptNo(0),
        name: name.clone(),
        payload: payload.clone(),
        accepted_at: now,
        origin: Origin::Posted,
        kept: Kept::Undecided,
        attempts: 0,
        traceparent: Some(TRACE.to_owned()),
    };
    let entered: Seq = state.entered_seq;
    let turn = machine::turn(machine, state, std::slice::from_ref(&waiting), PauseState::Running, now);
    let Some((_, Outcome::Applied(applied))) = turn.outcomes.into_iter().next() else {
        return Err(BenchError::Wrong("the definition does not apply its own event".to_owned()));
    };
    let transition = applied.transition;
    let mut actions = Vec::new();
    for planned in applied.actions {
        let Plan::Ready { input } = planned.plan else {
            return Err(BenchError::Wrong(format!("action {} is not ready at once", planned.name)));
        };
        actions.push(NewAction {
            key: ActionKey { execution: execution.clone(), seq: transition.seq, action: planned.name },
            event_id,
            traceparent: Some(TRACE.to_owned()),
            ordinal: planned.ordinal,
            needs: planned.needs,
            status: ActionStatus::Ready,
            input: Some(input),
            scope: None,
            result: None,
            error: None,
            handling: Handling::Unhandled,
            terms: Terms::engine(),
            undoes: None,
            incident: None,
            company: millstream_store::execution_store::Company::Together,
        });
    }
    let status = if actions.is_empty() { EventStatus::Completed } else { EventStatus::Processing };
    let verdict = EventVerdict::Applied {
        seq: transition.seq,
        from: transition.decision.from.clone(),
        to: transition.decision.to.clone(),
        status,
        error: None,
    };
    let after: State = turn.state;
    Ok(Commit {
        execution,
        definition: definition.clone(),
        expected: Seq::FIRST,
        cancelled_timers: if after.entered_seq == entered { Vec::new() } else { vec![entered] },
        state: after,
        snapshot: SnapshotWrite::Write,
        transitions: vec![transition],
        decided: vec![Decided { event_id, accept_no: AcceptNo(0), verdict }],
        timers: Vec::new(),
        actions,
        emitted: Vec::new(),
        open_actions: OpenActions::Keep,
        graph: None,
    })
}

fn wrong(error: impl std::fmt::Display) -> BenchError {
    BenchError::Wrong(format!("the floor's values: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workload_that_has_a_floor_can_be_stamped_out() {
        let now = Timestamp::from_millis(1_700_000_000_000);
        for workload in Workload::ALL {
            let values = Values::of(workload, "m-", now).unwrap();
            let event = values.event(3).unwrap();
            let commit = values.commit(&event.execution, event.event_id, AcceptNo(9));
            assert_eq!(commit.execution.execution.as_str(), "m-3");
            assert_eq!(commit.transitions[0].event_id, event.event_id);
            assert_eq!(commit.decided[0].accept_no, AcceptNo(9));
            assert_eq!(values.settlements(&commit).len(), workload.actions(), "{workload}");
        }
    }
}
