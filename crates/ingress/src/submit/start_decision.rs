//! The decision of a start, from the client's request to the rows that are made durable.
//!
//! ```text
//!   request ── definition, id ──→ PendingStart ── quota ── decide_starts ──→ ReadyStart
//! ```
//!
//! Only `correlate` can make a decision expensive. The starts of a request are decided in order: on the
//! caller's thread until they have used the budget of an inline evaluation, the rest on the evaluation pool
//! until it has used the budget of one step. Each start has the budget of a step, so a rejection does not
//! depend on the other starts. An undecided start is neither rejected nor accepted: its answer asks the
//! client to send it again.

use std::sync::Arc;

use millstream_expr::STEP_UNITS;
use millstream_model::entropy;
use millstream_model::id::{DefinitionRef, ExecutionId, ExecutionKey, Name};
use millstream_model::problem::ValidationProblem as Fault;
use millstream_model::raw::RawJson;
use millstream_rpc::evaluation_pool::EvaluationPool;
use millstream_store::event_log::{EventSubmission, ExecutionStart, IdempotencyKey};
use millstream_workflow::definition::ResponseMode;
use millstream_workflow::log::EventOrigin;
use millstream_workflow::machine::{self, ExecutionCreation, FirstTransition, Machine};
use millstream_workflow::visit_limits::VisitLimits;

use super::SubmitDeps;
use super::event_draft::{self, EventContent, EventDraft};
use crate::admission::StartCharge;
use crate::auth::TenantCaller;
use crate::refusal::{RefusalKind, RequestRefusal};
use crate::request_hash::hash_parts;
use crate::trace::TraceContext;

/// A start as requested by a client.
#[derive(Debug)]
pub(crate) struct StartRequest {
    pub(crate) definition: Name,
    pub(crate) version: Option<i32>,
    pub(crate) execution_id: Option<ExecutionId>,
    pub(crate) input: RawJson,
    pub(crate) events: Vec<EventContent>,
}

/// A start with a known definition and id, without its first transition.
pub(crate) struct PendingStart {
    key: ExecutionKey,
    id_from: ExecutionIdSource,
    idempotency: Option<IdempotencyKey>,
    definition: DefinitionRef,
    input_hash: [u8; 32],
    creation: ExecutionCreation,
    events: Vec<EventContent>,
}

/// A decided start, ready to be made durable.
pub(crate) struct ReadyStart {
    pub(crate) new: ExecutionStart,
    pub(crate) mode: ResponseMode,
    pub(crate) id_from: ExecutionIdSource,
}

/// Where the execution's id comes from, which decides what a collision means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExecutionIdSource {
    Caller,
    /// Derived from the idempotency key: the same key gives the same execution.
    Key,
    Chance,
}

/// A compiled definition.
pub(crate) type FoundMachine = (DefinitionRef, Arc<Machine>);

pub(crate) async fn find_start_machine(
    deps: &SubmitDeps,
    caller: &TenantCaller,
    wish: &StartRequest,
) -> Result<FoundMachine, RequestRefusal> {
    let found = deps.machines.find_machine(&caller.tenant, &wish.definition, wish.version).await?;
    found.ok_or_else(|| match wish.version {
        None => RequestRefusal::not_found("definition", &wish.definition),
        Some(version) => {
            RequestRefusal::not_found("definition", format_args!("{}@{version}", wish.definition))
        }
    })
}

impl PendingStart {
    pub(crate) fn new(
        deps: &SubmitDeps,
        caller: &TenantCaller,
        wish: StartRequest,
        idempotency: Option<IdempotencyKey>,
        (definition, machine): FoundMachine,
    ) -> Result<Self, RequestRefusal> {
        for event in &wish.events {
            event_draft::check_mentioned(&machine, &event.name)?;
        }
        let now = deps.clock.now();
        let event_id = entropy::event_id(now, &*deps.entropy);
        let input_hash = input_hash(&wish);
        let (execution, id_from) = match (wish.execution_id, &idempotency) {
            (Some(id), _) => (id, ExecutionIdSource::Caller),
            (None, Some(idempotency)) => {
                (event_draft::execution_id_of_key(&caller.tenant, &idempotency.key)?, ExecutionIdSource::Key)
            }
            (None, None) => (
                event_draft::parse_execution_id(entropy::uuid_v7(now, &*deps.entropy))?,
                ExecutionIdSource::Chance,
            ),
        };
        let key = ExecutionKey { tenant: caller.tenant.clone(), execution };
        let creation = ExecutionCreation { machine, event_id, input: wish.input, now };
        Ok(Self { key, id_from, idempotency, definition, input_hash, creation, events: wish.events })
    }

    /// The charge against the tenant's quotas.
    pub(crate) fn charge(&self) -> StartCharge<'_> {
        let of_events: usize = self.events.iter().map(|event| event.payload.len()).sum();
        StartCharge {
            key: &self.key,
            events: 1 + self.events.len(),
            bytes: self.creation.input.len() + of_events,
        }
    }

    fn into_ready(
        self,
        deps: &SubmitDeps,
        caller: &TenantCaller,
        trace: &TraceContext,
        first: FirstTransition,
    ) -> ReadyStart {
        let Self { key, id_from, idempotency, definition, input_hash, creation, events } = self;
        let ExecutionCreation { machine, event_id, input, now: _ } = creation;
        let start = EventSubmission {
            event_id,
            execution: key.clone(),
            name: Name::start_event(),
            payload: input,
            origin: EventOrigin::Posted,
            idempotency,
            actor: caller.actor.clone(),
            traceparent: Some(trace.traceparent.to_string()),
        };
        let events = events.into_iter().map(|EventContent { name, payload }| {
            let draft = EventDraft { execution: key.clone(), name, payload, idempotency_key: None };
            event_draft::new_event(deps, caller, trace, draft)
        });
        let events = events.collect();
        let (applied, state) = first;
        let new = ExecutionStart { key, definition, input_hash, start, applied, state, events, graph: None };
        ReadyStart { new, mode: machine.definition().mode(), id_from }
    }
}

/// Decides seq 1 of each start, in order, together with its initial events.
pub(crate) async fn decide_starts(
    deps: &SubmitDeps,
    caller: &TenantCaller,
    trace: &TraceContext,
    starts: Vec<PendingStart>,
) -> Vec<Result<ReadyStart, RequestRefusal>> {
    let creations = starts.iter().map(|start| start.creation.clone()).collect();
    let mut decided = create_executions(&deps.machines.evaluations, creations).await.into_iter();
    let decided = starts.into_iter().map(|start| match decided.next() {
        Some(Ok(first)) => Ok(start.into_ready(deps, caller, trace, first)),
        Some(Err(reason)) => Err(RequestRefusal::invalid(vec![Fault::new("input", reason)])),
        None => Err(undecided_start()),
    });
    decided.collect()
}

/// Decides a prefix of the starts; those missing at the end are undecided.
async fn create_executions(
    pool: &EvaluationPool,
    mut creations: Vec<ExecutionCreation>,
) -> Vec<Result<FirstTransition, String>> {
    let mut decided = create_inline(&creations);
    let rest = creations.split_off(decided.len());
    if !rest.is_empty() {
        let more = pool
            .run(move |stop| machine::create_executions(&rest, VisitLimits { units: STEP_UNITS, stop }))
            .await;
        decided.extend(more.unwrap_or_default());
    }
    decided
}

fn create_inline(creations: &[ExecutionCreation]) -> Vec<Result<FirstTransition, String>> {
    let stop = EvaluationPool::inline();
    machine::create_executions(creations, VisitLimits { units: stop.units, stop })
}

fn undecided_start() -> RequestRefusal {
    let detail = "the start was not decided: \"correlate\" of this start, or of the starts before it in the array, \
                  takes much work. Nothing was accepted; send it again, in a smaller array";
    RequestRefusal::new(RefusalKind::Busy, detail)
}

/// The hash that identifies a repeat. It covers the request, not the version that "latest" resolves to now.
pub(crate) fn input_hash(wish: &StartRequest) -> [u8; 32] {
    let version = wish.version.map(|version| version.to_string()).unwrap_or_default();
    let mut parts: Vec<&[u8]> =
        vec![wish.definition.as_str().as_bytes(), version.as_bytes(), wish.input.as_str().as_bytes()];
    for event in &wish.events {
        parts.push(event.name.as_str().as_bytes());
        parts.push(event.payload.as_str().as_bytes());
    }
    hash_parts(&parts)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use millstream_model::document::SourceFormat;
    use millstream_model::entropy::derived_event_id;
    use millstream_model::time::Timestamp;
    use millstream_rpc::evaluation_pool::EvaluationPlace;
    use millstream_workflow::definition_parser;

    use super::*;

    /// A start whose `correlate` compares every pair of a list of this length.
    fn correlated_creation(items: usize) -> ExecutionCreation {
        let correlate = "context.l.all(a, context.l.all(b, a == b)) ? 'same' : 'other'";
        let source = format!(
            r#"{{"name":"h","initial":"a","correlate":"{correlate}","states":{{"a":{{"final":true}}}}}}"#
        );
        let machine =
            definition_parser::parse(&source, SourceFormat::Json).and_then(Machine::compile).unwrap();
        let input = RawJson::parse(&format!(r#"{{"l":[{}1]}}"#, "1,".repeat(items - 1))).unwrap();
        let (event_id, now) = (derived_event_id("start"), Timestamp::EPOCH);
        ExecutionCreation { machine: Arc::new(machine), event_id, input, now }
    }

    fn thread_pool() -> EvaluationPool {
        EvaluationPool::new(Duration::from_secs(600), EvaluationPlace::Threads)
    }

    #[tokio::test]
    async fn expensive_correlation_uses_evaluation_pool() {
        let pool = thread_pool();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let (releases, blocked): (Vec<_>, Vec<_>) = (0..cores)
            .map(|_| {
                let (release, released) = mpsc::channel::<()>();
                (release, Box::pin(pool.run(move |_| released.recv().is_err())))
            })
            .unzip();
        let mut blocked = futures::future::join_all(blocked);
        assert!(futures::poll!(&mut blocked).is_pending(), "every thread of the pool is busy");

        let cheap = Box::pin(create_executions(&pool, vec![correlated_creation(3)]));
        assert!(futures::poll!(cheap).is_ready(), "decided here");
        let mut dear = Box::pin(create_executions(&pool, vec![correlated_creation(400)]));
        assert!(futures::poll!(&mut dear).is_pending(), "waits for a thread");
        drop(releases);
        blocked.await;
        assert!(matches!(dear.await[..], [Ok(_)]));
    }

    #[tokio::test]
    async fn start_batch_evaluation_is_bounded() {
        let decided = create_executions(&thread_pool(), vec![correlated_creation(400); 1_000]).await;
        assert!((1..20).contains(&decided.len()), "{} decided", decided.len());
        assert!(decided.iter().all(Result::is_ok), "no start is rejected because of the earlier ones");
    }
}
