//! `start`: a child execution, whose end is the outcome of the action.
//!
//! The child's id is derived from the action's key, so that an attempt after a lost answer finds its child
//! again. From then on the action awaits the child, whose last transition returns the outcome
//! ([`super::family`]). An outcome that was returned already belongs to an earlier life of the action: a
//! child that completed after it was given up is the outcome now; after a failed one another child is
//! started.

use std::sync::Arc;
use std::time::Duration;

use millstream_core::action::{ActionError, Attempt, ErrorClass};
use millstream_core::definition::ParentClose;
use millstream_core::entropy::derived_event_id;
use millstream_core::expr::{Budget, StopRule};
use millstream_core::graph::{GraphSpec, graph_check_bytes};
use millstream_core::id::{EventId, ExecutionId, ExecutionKey, Name};
use millstream_core::log::{Origin, Parent};
use millstream_core::machine::{self, ActionInput, CreationError, FirstTransition, Machine, StartInput};
use millstream_core::program::Program;
use millstream_core::quota::{CountedQuota, QuotaRefusal};
use millstream_core::raw::RawJson;
use millstream_core::schedule;
use millstream_core::status::ExecutionStatus;
use millstream_rpc::evaluation_pool::EvaluationPool;
use millstream_rpc::graph_start::{self, INLINE_CHECK_BYTES, NewGraph};
use millstream_store::Result;
use millstream_store::action_store::LeasedAction;
use millstream_store::event_log::{Append, Appended, NewEvent, NewExecution};
use sha2::{Digest, Sha256};

use super::emit::{append, refused, ring, unavailable};
use super::errand::{Credentials, Done};
use super::family::{self, cancel};
use crate::programs::Unusable;
use crate::worker::Worker;

/// Upper bound on children per action; more retries by an operator are unreasonable.
const CHILDREN: u32 = 20;
/// Delay before another look at a child whose outcome is about to be returned.
const TELLING: Duration = Duration::from_secs(2);

pub(crate) async fn perform(
    worker: &Worker,
    action: &LeasedAction,
    input: StartInput,
    credentials: &Credentials,
    timeouts: &millstream_core::definition::Timeouts,
) -> Done {
    let left = schedule::left(timeouts, action.ready_at, worker.now());
    let (close, wanted) = (input.parent_close, Child::Execution(input));
    let begun = match begin(worker, action, &wanted, credentials).await {
        Ok(Begun::Awaited(child)) => follow_parent(worker, action, close, child).await,
        begun => begun,
    };
    match begun {
        Ok(Begun::Awaited(_)) => Done::Awaiting { until: left.map(|left| worker.now().plus(left)) },
        Ok(Begun::Ended) => {
            let soon = left.map_or(TELLING, |left| left.min(TELLING));
            Done::Awaiting { until: Some(worker.now().plus(soon)) }
        }
        Ok(Begun::Not(attempt)) => Done::Attempt(attempt),
        Ok(Begun::OverQuota(refusal)) => Done::over_quota(worker, action, refusal),
        Err(error) => Done::Attempt(unavailable(&error)),
    }
}

/// The child to start.
#[derive(Debug)]
pub(crate) enum Child {
    Execution(StartInput),
    Graph(Box<GraphSpec>),
}

impl Child {
    fn execution_id(&self) -> Option<&String> {
        match self {
            Self::Execution(input) => input.execution_id.as_ref(),
            Self::Graph(_) => None,
        }
    }
}

/// Starts the child of a node, or finds it started.
pub(super) async fn begin_child(
    worker: &Worker,
    action: &LeasedAction,
    child: &Child,
    credentials: &Credentials,
) -> Result<Done> {
    let begun = match begin(worker, action, child, credentials).await? {
        Begun::Awaited(child) => follow_parent(worker, action, ParentClose::Cancel, child).await?,
        begun @ (Begun::Ended | Begun::Not(_) | Begun::OverQuota(_)) => begun,
    };
    Ok(match begun {
        Begun::Awaited(_) => Done::Awaiting { until: None },
        Begun::Ended => Done::Awaiting { until: Some(worker.now().plus(TELLING)) },
        Begun::Not(attempt) => Done::Attempt(attempt),
        Begun::OverQuota(refusal) => Done::over_quota(worker, action, refusal),
    })
}

/// State after an attempt to start a child.
enum Begun {
    /// A child to wait for.
    Awaited(ExecutionKey),
    /// A child that has ended and is about to return its outcome.
    Ended,
    Not(Attempt),
    /// The tenant is over the rate limit of children, or at its limit; nothing was started, and no attempt is
    /// counted.
    OverQuota(QuotaRefusal),
}

/// Cancels a child that follows its parent, if the parent has ended. This closes the race with the closing of
/// an ended execution's children, which may have looked before this child existed: this check follows the
/// creation, so one of the two sees the other.
async fn follow_parent(
    worker: &Worker,
    action: &LeasedAction,
    close: ParentClose,
    child: ExecutionKey,
) -> Result<Begun> {
    if close == ParentClose::Cancel {
        let parent = &action.lease.key.execution;
        let found = worker.deps.stores.execution_views.executions(std::slice::from_ref(parent)).await?;
        if found.into_iter().flatten().any(|view| view.state.phase.is_ended()) {
            append(worker, Append::Event(cancel(parent, &child))).await?;
            ring(worker, &child).await;
        }
    }
    Ok(Begun::Awaited(child))
}

async fn begin(
    worker: &Worker,
    action: &LeasedAction,
    wanted: &Child,
    credentials: &Credentials,
) -> Result<Begun> {
    let tenant = &action.lease.key.execution.tenant;
    for number in 1..=CHILDREN {
        let child = match child_id(wanted.execution_id(), &credentials.idempotency_key, number) {
            Ok(execution) => ExecutionKey { tenant: tenant.clone(), execution },
            Err(attempt) => return Ok(Begun::Not(attempt)),
        };
        let found = worker.deps.stores.execution_views.executions(std::slice::from_ref(&child)).await?;
        match found.into_iter().flatten().next() {
            None => return create(worker, action, wanted, credentials, child).await,
            Some(view) if !is_ours(&view.state.parent, action) => {
                let message = format!(
                    "start: the execution {} exists and is not a child of this action",
                    child.execution
                );
                return Ok(Begun::Not(refused(message)));
            }
            Some(view) => match view.status {
                ExecutionStatus::Active | ExecutionStatus::Paused => return Ok(Begun::Awaited(child)),
                ExecutionStatus::Completed | ExecutionStatus::Failed | ExecutionStatus::Cancelled
                    if !family::has_told(worker, &view).await? =>
                {
                    return Ok(Begun::Ended);
                }
                ExecutionStatus::Completed => return Ok(Begun::Not(family::completed(&view))),
                ExecutionStatus::Failed | ExecutionStatus::Cancelled => {}
            },
        }
    }
    Ok(Begun::Not(refused(format!("start: {CHILDREN} children have failed"))))
}

fn is_ours(parent: &Option<Parent>, action: &LeasedAction) -> bool {
    let key = &action.lease.key;
    parent.as_ref().is_some_and(|parent| {
        (&parent.execution, parent.seq, &parent.action) == (&key.execution.execution, key.seq, &key.action)
    })
}

/// From the definition, or derived from the key; the children after the first have a number.
fn child_id(asked: Option<&String>, key: &str, number: u32) -> std::result::Result<ExecutionId, Attempt> {
    let id = match asked {
        Some(id) => id.clone(),
        None => format!("child-{}", derived_event_id(&format!("child {key}")).0.simple()),
    };
    let id = if number == 1 { id } else { format!("{id}.{number}") };
    ExecutionId::parse(&id).map_err(|error| refused(format!("start.execution_id: {id:?} {error}")))
}

async fn create(
    worker: &Worker,
    action: &LeasedAction,
    wanted: &Child,
    credentials: &Credentials,
    child: ExecutionKey,
) -> Result<Begun> {
    let tenant = &child.tenant;
    if let Err(refusal) = worker.quotas.admit_child(tenant) {
        return Ok(Begun::OverQuota(refusal));
    }
    let depth = depth(worker, &action.lease.key.execution).await?;
    if let Err(refusal) = worker.quotas.admit_depth(tenant, depth) {
        let error =
            ActionError { class: ErrorClass::Quota, message: format!("start: {refusal}"), status: None };
        return Ok(Begun::Not(Attempt::Permanent { error }));
    }
    let store = &*worker.deps.stores.quotas;
    if let Err(refusal) = worker.quotas.admit_row(store, tenant, CountedQuota::OpenExecutions).await? {
        return Ok(Begun::OverQuota(refusal));
    }
    let new = match wanted {
        Child::Execution(input) => execution(worker, (action, depth), input, credentials, &child).await?,
        Child::Graph(spec) => graph(worker, (action, depth), (**spec).clone(), credentials, &child).await,
    };
    let new = match new {
        Ok(new) => new,
        Err(attempt) => return Ok(Begun::Not(attempt)),
    };
    match append(worker, Append::Start(Box::new(new))).await? {
        Some(Appended::Accepted { .. } | Appended::Repeat { .. }) => {
            ring(worker, &child).await;
            Ok(Begun::Awaited(child))
        }
        other => Ok(Begun::Not(refused(format!("start: {} was not created: {other:?}", child.execution)))),
    }
}

/// Depth of a child of `parent`: 1 if the parent has no parent itself.
async fn depth(worker: &Worker, parent: &ExecutionKey) -> Result<u64> {
    let found = worker.deps.stores.execution_views.executions(std::slice::from_ref(parent)).await?;
    let above = found.into_iter().flatten().next().and_then(|view| view.state.parent);
    Ok(above.map_or(1, |above| above.depth.saturating_add(1)))
}

fn parent(action: &LeasedAction, close: ParentClose, depth: u64) -> Parent {
    let key = &action.lease.key;
    let execution = key.execution.execution.clone();
    Parent { execution, seq: key.seq, action: key.action.clone(), close, depth }
}

fn input_hash(credentials: &Credentials) -> [u8; 32] {
    Sha256::digest(format!("child of {}", credentials.idempotency_key)).into()
}

async fn graph(
    worker: &Worker,
    (action, depth): (&LeasedAction, u64),
    spec: GraphSpec,
    credentials: &Credentials,
    child: &ExecutionKey,
) -> std::result::Result<NewExecution, Attempt> {
    let new = NewGraph {
        key: child.clone(),
        spec,
        event_ids: [worker.event_id(), worker.event_id()],
        input_hash: input_hash(credentials),
        idempotency: None,
        parent: Some(parent(action, ParentClose::Cancel, depth)),
        actor: Some(format!("action:{}", action.lease.key.action)),
        traceparent: action.traceparent.clone(),
    };
    let now = worker.now();
    let checked = if graph_check_bytes(&new.spec) < INLINE_CHECK_BYTES {
        graph_start::start(new, now)
    } else {
        let checked = worker.evaluations.run(move |_| graph_start::start(new, now)).await;
        checked.map_err(|closed| {
            let error = ActionError {
                class: ErrorClass::Internal,
                message: format!("graph: {closed}"),
                status: None,
            };
            Attempt::Transient { error, retry_after: None }
        })?
    };
    checked.map_err(|invalid| refused(format!("graph: {invalid}")))
}

async fn execution(
    worker: &Worker,
    (action, depth): (&LeasedAction, u64),
    input: &StartInput,
    credentials: &Credentials,
    child: &ExecutionKey,
) -> Result<std::result::Result<NewExecution, Attempt>> {
    let tenant = &child.tenant;
    let stored = worker.deps.stores.definitions.get(tenant, &input.definition, input.version).await?;
    let Some(definition) = stored.map(|stored| stored.definition) else {
        return Ok(Err(refused(format!("start.definition: unknown {}", named(input)))));
    };
    let machine = match worker.programs.get(&*worker.deps.stores.definitions, tenant, &definition).await? {
        Ok(Program::Machine(machine)) => machine,
        Ok(Program::Graph) => {
            return Ok(Err(refused("start.definition: a graph cannot be started by its name".to_owned())));
        }
        Err(Unusable::Gone(reason) | Unusable::Foreign(reason)) => {
            return Ok(Err(refused(format!("start.definition: {reason}"))));
        }
    };
    let parent = parent(action, input.parent_close, depth);
    let event_id = worker.event_id();
    let (applied, state) = match decide(worker, &machine, event_id, &input.input, parent).await {
        Ok(created) => created,
        Err(CreationError::Rejected(reason)) => {
            let message = format!("start.input: {reason}");
            let error = ActionError { class: ErrorClass::Input, message, status: None };
            return Ok(Err(Attempt::Permanent { error }));
        }
        Err(stopped @ CreationError::Stopped) => {
            let message = format!("start.definition: {stopped}");
            let error = ActionError { class: ErrorClass::Internal, message, status: None };
            return Ok(Err(Attempt::Transient { error, retry_after: None }));
        }
    };
    let start = NewEvent {
        event_id,
        execution: child.clone(),
        name: Name::start(),
        payload: input.input.clone(),
        origin: Origin::Posted,
        idempotency: None,
        actor: Some(format!("action:{}", action.lease.key.action)),
        traceparent: action.traceparent.clone(),
    };
    Ok(Ok(NewExecution {
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
async fn decide(
    worker: &Worker,
    machine: &Arc<Machine>,
    event_id: EventId,
    input: &RawJson,
    parent: Parent,
) -> std::result::Result<FirstTransition, CreationError> {
    let now = worker.now();
    let create = move |machine: &Machine, input: &RawJson, parent: Parent, stop: StopRule<'_>| {
        machine::create_within(machine, event_id, input, Some(parent), now, &Budget::of_step(stop))
    };
    match create(machine, input, parent.clone(), EvaluationPool::inline()) {
        Err(CreationError::Stopped) => {
            let (machine, input) = (machine.clone(), input.clone());
            let decided = worker.evaluations.run(move |stop| create(&machine, &input, parent, stop));
            decided.await.unwrap_or(Err(CreationError::Stopped))
        }
        decided @ (Ok(_) | Err(CreationError::Rejected(_))) => decided,
    }
}

fn named(input: &StartInput) -> String {
    match input.version {
        Some(version) => format!("version {version} of {:?}", input.definition.as_str()),
        None => format!("definition {:?}", input.definition.as_str()),
    }
}

/// The schedule of a `start` is missed: cancels a child that follows its parent.
pub(crate) async fn give_up(worker: &Worker, action: &LeasedAction) {
    let Some(Ok(ActionInput::Start(input))) = action.input.as_ref().map(|input| input.decode()) else {
        return;
    };
    if input.parent_close == ParentClose::Abandon {
        return;
    }
    cancel_children(worker, action, &Child::Execution(input)).await;
}

/// Ends the children of an action that was given up.
pub(super) async fn cancel_children(worker: &Worker, action: &LeasedAction, child: &Child) {
    let parent = &action.lease.key.execution;
    let key = action.lease.key.with_revision(action.revision);
    let children = (1..=CHILDREN).map_while(|number| child_id(child.execution_id(), &key, number).ok());
    let children: Vec<ExecutionKey> =
        children.map(|execution| ExecutionKey { tenant: parent.tenant.clone(), execution }).collect();
    let Ok(views) = worker.deps.stores.execution_views.executions(&children).await else { return };
    for view in views.into_iter().flatten().filter(|view| !view.state.phase.is_ended()) {
        if is_ours(&view.state.parent, action)
            && append(worker, Append::Event(cancel(parent, &view.execution))).await.is_ok()
        {
            ring(worker, &view.execution).await;
        }
    }
}
