//! `start`: a child execution, whose end is the outcome of the action.
//!
//! The child's id is derived from the action's key, so that an attempt after a lost answer finds its child
//! again. From then on the action awaits the child, whose last transition returns the outcome
//! ([`super::parent_child`]). An outcome that was returned already belongs to an earlier life of the action: a
//! child that completed after it was given up is the outcome now; after a failed one another child is
//! started.

use std::sync::Arc;
use std::time::Duration;

use millstream_expr::{ExprBudget, StopRule};
use millstream_model::attempt::{ActionFailure, AttemptOutcome};
use millstream_model::entropy::derived_event_id;
use millstream_model::error_class::ErrorClass;
use millstream_model::id::{EventId, ExecutionId, ExecutionKey, Name};
use millstream_model::quota::{CountedQuota, QuotaRefusal};
use millstream_model::raw::RawJson;
use millstream_model::status::ExecutionStatus;
use millstream_rpc::evaluation_pool::EvaluationPool;
use millstream_rpc::graph_start::{self, GraphStart, INLINE_CHECK_BYTES};
use millstream_store::StoreResult;
use millstream_store::action_store::LeasedAction;
use millstream_store::event_log::{AppendRequest, Appended, EventSubmission, ExecutionStart};
use millstream_workflow::definition::ParentClose;
use millstream_workflow::graph::{GraphSpec, graph_check_bytes};
use millstream_workflow::log::{EventOrigin, ExecutionParent};
use millstream_workflow::machine::{self, ActionInput, CreationError, FirstTransition, Machine, StartInput};
use millstream_workflow::program::ExecutionProgram;
use millstream_workflow::schedule;
use sha2::{Digest, Sha256};

use super::attempt_contract::{AttemptCredentials, PerformOutcome};
use super::emit::{append_event, refuse_target, ring_execution, store_unavailable};
use super::parent_child::{self, cancel_event};
use super::performer::ActionPerformer;
use crate::program_cache::UnusableProgram;

/// Upper bound on children per action; more retries by an operator are unreasonable.
const CHILDREN: u32 = 20;
/// Delay before another look at a child whose outcome is about to be returned.
const TELLING: Duration = Duration::from_secs(2);

pub(crate) async fn perform_start(
    performer: &ActionPerformer,
    action: &LeasedAction,
    input: StartInput,
    credentials: &AttemptCredentials,
    timeouts: &millstream_workflow::definition::ActionTimeouts,
) -> PerformOutcome {
    let left = schedule::remaining_time(timeouts, action.ready_at, performer.env.now());
    let (close, wanted) = (input.parent_close, ChildStart::Execution(input));
    let begun = match start_or_find_child(performer, action, &wanted, credentials).await {
        Ok(ChildState::Awaited(child)) => cancel_if_parent_ended(performer, action, close, child).await,
        begun => begun,
    };
    match begun {
        Ok(ChildState::Awaited(_)) => {
            PerformOutcome::Awaiting { until: left.map(|left| performer.env.now().plus(left)) }
        }
        Ok(ChildState::Ended) => {
            let soon = left.map_or(TELLING, |left| left.min(TELLING));
            PerformOutcome::Awaiting { until: Some(performer.env.now().plus(soon)) }
        }
        Ok(ChildState::Not(attempt)) => PerformOutcome::Attempt(attempt),
        Ok(ChildState::OverQuota(refusal)) => PerformOutcome::over_quota(&performer.env, action, refusal),
        Err(error) => PerformOutcome::Attempt(store_unavailable(&error)),
    }
}

/// The child to start.
#[derive(Debug)]
pub(crate) enum ChildStart {
    Execution(StartInput),
    Graph(Box<GraphSpec>),
}

impl ChildStart {
    fn execution_id(&self) -> Option<&String> {
        match self {
            Self::Execution(input) => input.execution_id.as_ref(),
            Self::Graph(_) => None,
        }
    }
}

/// Starts the child of a node, or finds it started.
pub(super) async fn begin_child(
    performer: &ActionPerformer,
    action: &LeasedAction,
    child: &ChildStart,
    credentials: &AttemptCredentials,
) -> StoreResult<PerformOutcome> {
    let begun = match start_or_find_child(performer, action, child, credentials).await? {
        ChildState::Awaited(child) => {
            cancel_if_parent_ended(performer, action, ParentClose::Cancel, child).await?
        }
        begun @ (ChildState::Ended | ChildState::Not(_) | ChildState::OverQuota(_)) => begun,
    };
    Ok(match begun {
        ChildState::Awaited(_) => PerformOutcome::Awaiting { until: None },
        ChildState::Ended => PerformOutcome::Awaiting { until: Some(performer.env.now().plus(TELLING)) },
        ChildState::Not(attempt) => PerformOutcome::Attempt(attempt),
        ChildState::OverQuota(refusal) => PerformOutcome::over_quota(&performer.env, action, refusal),
    })
}

/// State after an attempt to start a child.
enum ChildState {
    /// A child to wait for.
    Awaited(ExecutionKey),
    /// A child that has ended and is about to return its outcome.
    Ended,
    Not(AttemptOutcome),
    /// The tenant is over the rate limit of children, or at its limit; nothing was started, and no attempt is
    /// counted.
    OverQuota(QuotaRefusal),
}

/// Cancels a child that follows its parent, if the parent has ended. This closes the race with the closing of
/// an ended execution's children, which may have looked before this child existed: this check follows the
/// creation, so one of the two sees the other.
async fn cancel_if_parent_ended(
    performer: &ActionPerformer,
    action: &LeasedAction,
    close: ParentClose,
    child: ExecutionKey,
) -> StoreResult<ChildState> {
    if close == ParentClose::Cancel {
        let parent = &action.lease.key.execution;
        let found =
            performer.env.stores.execution_views.find_executions(std::slice::from_ref(parent)).await?;
        if found.into_iter().flatten().any(|view| view.state.phase.is_ended()) {
            append_event(performer, AppendRequest::Event(cancel_event(parent, &child))).await?;
            ring_execution(performer, &child).await;
        }
    }
    Ok(ChildState::Awaited(child))
}

async fn start_or_find_child(
    performer: &ActionPerformer,
    action: &LeasedAction,
    wanted: &ChildStart,
    credentials: &AttemptCredentials,
) -> StoreResult<ChildState> {
    let tenant = &action.lease.key.execution.tenant;
    for number in 1..=CHILDREN {
        let child = match child_id(wanted.execution_id(), &credentials.idempotency_key, number) {
            Ok(execution) => ExecutionKey { tenant: tenant.clone(), execution },
            Err(attempt) => return Ok(ChildState::Not(attempt)),
        };
        let found =
            performer.env.stores.execution_views.find_executions(std::slice::from_ref(&child)).await?;
        match found.into_iter().flatten().next() {
            None => return create_child(performer, action, wanted, credentials, child).await,
            Some(view) if !is_ours(&view.state.parent, action) => {
                let message = format!(
                    "start: the execution {} exists and is not a child of this action",
                    child.execution
                );
                return Ok(ChildState::Not(refuse_target(message)));
            }
            Some(view) => match view.status {
                ExecutionStatus::Active | ExecutionStatus::Paused => return Ok(ChildState::Awaited(child)),
                ExecutionStatus::Completed | ExecutionStatus::Failed | ExecutionStatus::Cancelled
                    if !parent_child::has_returned(performer, &view).await? =>
                {
                    return Ok(ChildState::Ended);
                }
                ExecutionStatus::Completed => {
                    return Ok(ChildState::Not(parent_child::completed_child(&view)));
                }
                ExecutionStatus::Failed | ExecutionStatus::Cancelled => {}
            },
        }
    }
    Ok(ChildState::Not(refuse_target(format!("start: {CHILDREN} children have failed"))))
}

fn is_ours(parent: &Option<ExecutionParent>, action: &LeasedAction) -> bool {
    let key = &action.lease.key;
    parent.as_ref().is_some_and(|parent| {
        (&parent.execution, parent.seq, &parent.action) == (&key.execution.execution, key.seq, &key.action)
    })
}

/// From the definition, or derived from the key; the children after the first have a number.
fn child_id(
    asked: Option<&String>,
    key: &str,
    number: u32,
) -> std::result::Result<ExecutionId, AttemptOutcome> {
    let id = match asked {
        Some(id) => id.clone(),
        None => format!("child-{}", derived_event_id(&format!("child {key}")).0.simple()),
    };
    let id = if number == 1 { id } else { format!("{id}.{number}") };
    ExecutionId::parse(&id).map_err(|error| refuse_target(format!("start.execution_id: {id:?} {error}")))
}

async fn create_child(
    performer: &ActionPerformer,
    action: &LeasedAction,
    wanted: &ChildStart,
    credentials: &AttemptCredentials,
    child: ExecutionKey,
) -> StoreResult<ChildState> {
    let tenant = &child.tenant;
    if let Err(refusal) = performer.leasing.quotas.admit_child(tenant) {
        return Ok(ChildState::OverQuota(refusal));
    }
    let depth = child_depth(performer, &action.lease.key.execution).await?;
    if let Err(refusal) = performer.leasing.quotas.admit_depth(tenant, depth) {
        let error =
            ActionFailure { class: ErrorClass::Quota, message: format!("start: {refusal}"), status: None };
        return Ok(ChildState::Not(AttemptOutcome::Permanent { error }));
    }
    let store = &*performer.env.stores.quotas;
    if let Err(refusal) =
        performer.leasing.quotas.admit_row(store, tenant, CountedQuota::OpenExecutions).await?
    {
        return Ok(ChildState::OverQuota(refusal));
    }
    let new = match wanted {
        ChildStart::Execution(input) => {
            create_child_execution(performer, (action, depth), input, credentials, &child).await?
        }
        ChildStart::Graph(spec) => {
            create_child_graph(performer, (action, depth), (**spec).clone(), credentials, &child).await
        }
    };
    let new = match new {
        Ok(new) => new,
        Err(attempt) => return Ok(ChildState::Not(attempt)),
    };
    match append_event(performer, AppendRequest::Start(Box::new(new))).await? {
        Some(Appended::Accepted { .. } | Appended::Repeat { .. }) => {
            ring_execution(performer, &child).await;
            Ok(ChildState::Awaited(child))
        }
        other => Ok(ChildState::Not(refuse_target(format!(
            "start: {} was not created: {other:?}",
            child.execution
        )))),
    }
}

/// Depth of a child of `parent`: 1 if the parent has no parent itself.
async fn child_depth(performer: &ActionPerformer, parent: &ExecutionKey) -> StoreResult<u64> {
    let found = performer.env.stores.execution_views.find_executions(std::slice::from_ref(parent)).await?;
    let above = found.into_iter().flatten().next().and_then(|view| view.state.parent);
    Ok(above.map_or(1, |above| above.depth.saturating_add(1)))
}

fn parent_of_child(action: &LeasedAction, close: ParentClose, depth: u64) -> ExecutionParent {
    let key = &action.lease.key;
    let execution = key.execution.execution.clone();
    ExecutionParent { execution, seq: key.seq, action: key.action.clone(), close, depth }
}

fn input_hash(credentials: &AttemptCredentials) -> [u8; 32] {
    Sha256::digest(format!("child of {}", credentials.idempotency_key)).into()
}

async fn create_child_graph(
    performer: &ActionPerformer,
    (action, depth): (&LeasedAction, u64),
    spec: GraphSpec,
    credentials: &AttemptCredentials,
    child: &ExecutionKey,
) -> std::result::Result<ExecutionStart, AttemptOutcome> {
    let new = GraphStart {
        key: child.clone(),
        spec,
        event_ids: [performer.env.new_event_id(), performer.env.new_event_id()],
        input_hash: input_hash(credentials),
        idempotency: None,
        parent: Some(parent_of_child(action, ParentClose::Cancel, depth)),
        actor: Some(format!("action:{}", action.lease.key.action)),
        traceparent: action.traceparent.clone(),
    };
    let now = performer.env.now();
    let checked = if graph_check_bytes(&new.spec) < INLINE_CHECK_BYTES {
        graph_start::start_graph(new, now)
    } else {
        let checked = performer.evaluations.run(move |_| graph_start::start_graph(new, now)).await;
        checked.map_err(|closed| {
            let error = ActionFailure {
                class: ErrorClass::Internal,
                message: format!("graph: {closed}"),
                status: None,
            };
            AttemptOutcome::Transient { error, retry_after: None }
        })?
    };
    checked.map_err(|invalid| refuse_target(format!("graph: {invalid}")))
}

async fn create_child_execution(
    performer: &ActionPerformer,
    (action, depth): (&LeasedAction, u64),
    input: &StartInput,
    credentials: &AttemptCredentials,
    child: &ExecutionKey,
) -> StoreResult<std::result::Result<ExecutionStart, AttemptOutcome>> {
    let tenant = &child.tenant;
    let stored =
        performer.env.stores.definitions.get_definition(tenant, &input.definition, input.version).await?;
    let Some(definition) = stored.map(|stored| stored.definition) else {
        return Ok(Err(refuse_target(format!("start.definition: unknown {}", definition_label(input)))));
    };
    let machine =
        match performer.programs.get(&*performer.env.stores.definitions, tenant, &definition).await? {
            Ok(ExecutionProgram::Machine(machine)) => machine,
            Ok(ExecutionProgram::Graph) => {
                return Ok(Err(refuse_target(
                    "start.definition: a graph cannot be started by its name".to_owned(),
                )));
            }
            Err(UnusableProgram::Gone(reason) | UnusableProgram::Foreign(reason)) => {
                return Ok(Err(refuse_target(format!("start.definition: {reason}"))));
            }
        };
    let parent = parent_of_child(action, input.parent_close, depth);
    let event_id = performer.env.new_event_id();
    let (applied, state) =
        match decide_first_transition(performer, &machine, event_id, &input.input, parent).await {
            Ok(created) => created,
            Err(CreationError::Rejected(reason)) => {
                let message = format!("start.input: {reason}");
                let error = ActionFailure { class: ErrorClass::Input, message, status: None };
                return Ok(Err(AttemptOutcome::Permanent { error }));
            }
            Err(stopped @ CreationError::Stopped) => {
                let message = format!("start.definition: {stopped}");
                let error = ActionFailure { class: ErrorClass::Internal, message, status: None };
                return Ok(Err(AttemptOutcome::Transient { error, retry_after: None }));
            }
        };
    let start = EventSubmission {
        event_id,
        execution: child.clone(),
        name: Name::start_event(),
        payload: input.input.clone(),
        origin: EventOrigin::Posted,
        idempotency: None,
        actor: Some(format!("action:{}", action.lease.key.action)),
        traceparent: action.traceparent.clone(),
    };
    Ok(Ok(ExecutionStart {
        key: child.clone(),
        definition,
        input_hash: input_hash(credentials),
        start,
        applied,
        state,
        events: Vec::new(),
        graph: None,
    }))
}

/// Decides the first transition of a child: in place if it is cheap, else on the pool.
async fn decide_first_transition(
    performer: &ActionPerformer,
    machine: &Arc<Machine>,
    event_id: EventId,
    input: &RawJson,
    parent: ExecutionParent,
) -> std::result::Result<FirstTransition, CreationError> {
    let now = performer.env.now();
    let create = move |machine: &Machine, input: &RawJson, parent: ExecutionParent, stop: StopRule<'_>| {
        machine::create_execution_within(
            machine,
            event_id,
            input,
            Some(parent),
            now,
            &ExprBudget::of_step(stop),
        )
    };
    match create(machine, input, parent.clone(), EvaluationPool::inline()) {
        Err(CreationError::Stopped) => {
            let (machine, input) = (machine.clone(), input.clone());
            let decided = performer.evaluations.run(move |stop| create(&machine, &input, parent, stop));
            decided.await.unwrap_or(Err(CreationError::Stopped))
        }
        decided @ (Ok(_) | Err(CreationError::Rejected(_))) => decided,
    }
}

fn definition_label(input: &StartInput) -> String {
    match input.version {
        Some(version) => format!("version {version} of {:?}", input.definition.as_str()),
        None => format!("definition {:?}", input.definition.as_str()),
    }
}

/// The schedule of a `start` is missed: cancels a child that follows its parent.
pub(crate) async fn give_up_child(performer: &ActionPerformer, action: &LeasedAction) {
    let Some(Ok(ActionInput::Start(input))) = action.input.as_ref().map(|input| input.decode()) else {
        return;
    };
    if input.parent_close == ParentClose::Abandon {
        return;
    }
    cancel_children(performer, action, &ChildStart::Execution(input)).await;
}

/// Ends the children of an action that was given up.
pub(super) async fn cancel_children(performer: &ActionPerformer, action: &LeasedAction, child: &ChildStart) {
    let parent = &action.lease.key.execution;
    let key = action.lease.key.with_revision(action.revision);
    let children = (1..=CHILDREN).map_while(|number| child_id(child.execution_id(), &key, number).ok());
    let children: Vec<ExecutionKey> =
        children.map(|execution| ExecutionKey { tenant: parent.tenant.clone(), execution }).collect();
    let Ok(views) = performer.env.stores.execution_views.find_executions(&children).await else { return };
    for view in views.into_iter().flatten().filter(|view| !view.state.phase.is_ended()) {
        if is_ours(&view.state.parent, action)
            && append_event(performer, AppendRequest::Event(cancel_event(parent, &view.execution)))
                .await
                .is_ok()
        {
            ring_execution(performer, &view.execution).await;
        }
    }
}
