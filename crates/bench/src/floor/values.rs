//! Rows that the engine would write for a workload, computed once and copied per event.
//!
//! The machine decides one event of one execution; every other event gets the same rows under its own ids.
//! The floor thus writes exactly the columns and sizes of the engine at the cost of a copy.

use millstream_model::document::SourceFormat;
use millstream_model::id::{
    AcceptNo, ActionKey, DefinitionRef, Epoch, EventId, ExecutionId, ExecutionKey, Name, Seq, TenantId,
};
use millstream_model::raw::RawJson;
use millstream_model::status::{ActionStatus, EventStatus, PauseState};
use millstream_model::time::Timestamp;
use millstream_store::action_store::{FailureHandling, Lease, SettleOutcome, Settlement};
use millstream_store::definition_store::NewDefinition;
use millstream_store::event_log::{AppendRequest, EventSubmission, ExecutionStart};
use millstream_store::execution_store::{
    DecidedEvent, EventVerdict, ExecutionCommit, NewAction, OpenActions, SnapshotWrite,
};
use millstream_workflow::definition::Definition;
use millstream_workflow::definition_parser;
use millstream_workflow::lease_policy::LeasePolicy;
use millstream_workflow::log::{
    ActionPlan, EventOrigin, EventOutcome, ExecutionState, MailboxEvent, MailboxState,
};
use millstream_workflow::machine::{self, Machine};
use uuid::Uuid;

use crate::error::{BenchError, BenchResult};
use crate::workload::Workload;

/// As long as the trace that the ingress stores with every event.
const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// Produces rows for the executions of one workload.
#[derive(Debug)]
pub(super) struct FloorRows {
    machine: Machine,
    definition: DefinitionRef,
    tenant: TenantId,
    prefix: String,
    payload: RawJson,
    name: Name,
    commit: ExecutionCommit,
}

impl FloorRows {
    pub(super) fn for_workload(workload: Workload, prefix: &str, now: Timestamp) -> BenchResult<Self> {
        // The actions are not performed: the sink's address only needs a realistic length.
        let parsed =
            definition_parser::parse(&workload.definition("http://127.0.0.1:40000"), SourceFormat::Yaml)
                .map_err(|problems| BenchError::Wrong(format!("the definition of {workload}: {problems}")))?;
        let definition = DefinitionRef { name: parsed.name().clone(), version: 1 };
        let machine = Machine::compile(parsed)
            .map_err(|problems| BenchError::Wrong(format!("the definition of {workload}: {problems}")))?;
        let payload = RawJson::parse(&workload.payload()).map_err(floor_error)?;
        let (tenant, name) = (TenantId::default_tenant(), Name::parse("go").map_err(floor_error)?);
        let execution = ExecutionKey {
            tenant: tenant.clone(),
            execution: ExecutionId::parse("template").map_err(floor_error)?,
        };
        let commit = decide_once(&machine, &definition, execution, &name, &payload, now)?;
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

    fn execution_key(&self, number: usize) -> BenchResult<ExecutionKey> {
        let execution = ExecutionId::parse(format!("{}{number}", self.prefix)).map_err(floor_error)?;
        Ok(ExecutionKey { tenant: self.tenant.clone(), execution })
    }

    /// The start of an execution, as `POST /v1/executions` with this input creates it.
    pub(super) fn execution_start(&self, number: usize, now: Timestamp) -> BenchResult<AppendRequest> {
        let (key, start_id) = (self.execution_key(number)?, EventId(Uuid::now_v7()));
        let input = RawJson::from_trusted_text(format!("{{\"at\":\"{number}\"}}"));
        let (applied, state) =
            machine::create_execution(&self.machine, start_id, &input, now).map_err(floor_error)?;
        let start = EventSubmission {
            event_id: start_id,
            execution: key.clone(),
            name: Name::start_event(),
            payload: input,
            origin: EventOrigin::Posted,
            idempotency: None,
            actor: None,
            traceparent: Some(TRACE.to_owned()),
        };
        let definition = self.definition.clone();
        let new = ExecutionStart {
            key,
            definition,
            input_hash: [7; 32],
            start,
            applied,
            state,
            events: Vec::new(),
            graph: None,
        };
        Ok(AppendRequest::Start(Box::new(new)))
    }

    pub(super) fn new_event(&self, number: usize) -> BenchResult<EventSubmission> {
        Ok(EventSubmission {
            event_id: EventId(Uuid::now_v7()),
            execution: self.execution_key(number)?,
            name: self.name.clone(),
            payload: self.payload.clone(),
            origin: EventOrigin::Posted,
            idempotency: None,
            actor: None,
            traceparent: Some(TRACE.to_owned()),
        })
    }

    /// The commit for the decision of this event, the first of its execution.
    pub(super) fn commit(
        &self,
        execution: &ExecutionKey,
        event_id: EventId,
        accept_no: AcceptNo,
    ) -> ExecutionCommit {
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
    pub(super) fn settlements(&self, commit: &ExecutionCommit) -> Vec<Settlement> {
        let settle = |action: &NewAction| Settlement {
            lease: Lease { key: action.key.clone(), epoch: Epoch::FIRST },
            event_id: action.event_id,
            outcome: SettleOutcome::Succeeded { result: RawJson::from_trusted_text("7"), emit: None },
        };
        commit.actions.iter().map(settle).collect()
    }
}

/// Decides one event of one new execution.
fn decide_once(
    machine: &Machine,
    definition: &DefinitionRef,
    execution: ExecutionKey,
    name: &Name,
    payload: &RawJson,
    now: Timestamp,
) -> BenchResult<ExecutionCommit> {
    let event_id = EventId(Uuid::now_v7());
    let (_, state) =
        machine::create_execution(machine, event_id, &RawJson::from_trusted_text("{\"at\":\"0\"}"), now)
            .map_err(floor_error)?;
    let waiting = MailboxEvent {
        event_id,
        accept_no: AcceptNo(0),
        name: name.clone(),
        payload: payload.clone(),
        accepted_at: now,
        origin: EventOrigin::Posted,
        kept: MailboxState::Undecided,
        attempts: 0,
        traceparent: Some(TRACE.to_owned()),
    };
    let entered: Seq = state.entered_seq;
    let turn =
        machine::decide_mailbox(machine, state, std::slice::from_ref(&waiting), PauseState::Running, now);
    let Some((_, EventOutcome::Applied(applied))) = turn.outcomes.into_iter().next() else {
        return Err(BenchError::Wrong("the definition does not apply its own event".to_owned()));
    };
    let transition = applied.transition;
    let mut actions = Vec::new();
    for planned in applied.actions {
        let ActionPlan::Ready { input } = planned.plan else {
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
            handling: FailureHandling::Unhandled,
            terms: LeasePolicy::engine_for_all(),
            undoes: None,
            incident: None,
            company: millstream_store::execution_store::ActionRelation::Together,
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
    let after: ExecutionState = turn.state;
    Ok(ExecutionCommit {
        execution,
        definition: definition.clone(),
        expected: Seq::FIRST,
        cancelled_timers: if after.entered_seq == entered { Vec::new() } else { vec![entered] },
        state: after,
        snapshot: SnapshotWrite::Write,
        transitions: vec![transition],
        decided: vec![DecidedEvent { event_id, accept_no: AcceptNo(0), verdict }],
        timers: Vec::new(),
        actions,
        emitted: Vec::new(),
        open_actions: OpenActions::Keep,
        graph: None,
    })
}

fn floor_error(error: impl std::fmt::Display) -> BenchError {
    BenchError::Wrong(format!("the floor's values: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floor_rows_exist_for_workloads() {
        let now = Timestamp::from_millis(1_700_000_000_000);
        for workload in Workload::ALL {
            let values = FloorRows::for_workload(workload, "m-", now).unwrap();
            let event = values.new_event(3).unwrap();
            let commit = values.commit(&event.execution, event.event_id, AcceptNo(9));
            assert_eq!(commit.execution.execution.as_str(), "m-3");
            assert_eq!(commit.transitions[0].event_id, event.event_id);
            assert_eq!(commit.decided[0].accept_no, AcceptNo(9));
            assert_eq!(values.settlements(&commit).len(), workload.actions_per_event(), "{workload}");
        }
    }
}
