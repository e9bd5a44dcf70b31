//! The decision of a start, from the client's request to the rows that are made durable.
//!
//! ```text
//!   request ── definition, id ──→ PendingStart ── quota ── decide ──→ ReadyStart
//! ```
//!
//! Only `correlate` can make a decision expensive. The starts of a request are decided in order: on the
//! caller's thread until they have used the budget of an inline evaluation, the rest on the evaluation pool
//! until it has used the budget of one step. Each start has the budget of a step, so a rejection does not
//! depend on the other starts. An undecided start is neither rejected nor accepted: its answer asks the
//! client to send it again.

use std::sync::Arc;

use millstream_core::definition::Mode;
use millstream_core::effort::VisitLimits;
use millstream_core::entropy;
use millstream_core::expr::STEP_UNITS;
use millstream_core::id::{DefinitionRef, ExecutionId, ExecutionKey, Name};
use millstream_core::log::Origin;
use millstream_core::machine::{self, ExecutionCreation, FirstTransition, Machine};
use millstream_core::problem::Problem as Fault;
use millstream_core::raw::RawJson;
use millstream_rpc::evaluation_pool::EvaluationPool;
use millstream_store::event_log::{Idempotency, NewEvent, NewExecution};

use super::posting::{self, Draft, Said};
use super::problem::{Kind, Problem};
use crate::auth::Caller;
use crate::door::Door;
use crate::quotas::StartCharge;
use crate::trace::Trace;

/// A start as requested by a client.
#[derive(Debug)]
pub(super) struct Wish {
    pub(super) definition: Name,
    pub(super) version: Option<i32>,
    pub(super) execution_id: Option<ExecutionId>,
    pub(super) input: RawJson,
    pub(super) events: Vec<Said>,
}

/// A start with a known definition and id, without its first transition.
pub(super) struct PendingStart {
    key: ExecutionKey,
    id_from: IdFrom,
    idempotency: Option<Idempotency>,
    definition: DefinitionRef,
    input_hash: [u8; 32],
    creation: ExecutionCreation,
    events: Vec<Said>,
}

/// A decided start, ready to be made durable.
pub(super) struct ReadyStart {
    pub(super) new: NewExecution,
    pub(super) mode: Mode,
    pub(super) id_from: IdFrom,
}

/// Where the execution's id comes from, which decides what a collision means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdFrom {
    Caller,
    /// Derived from the idempotency key: the same key gives the same execution.
    Key,
    Chance,
}

/// A compiled definition.
pub(super) type FoundMachine = (DefinitionRef, Arc<Machine>);

pub(super) async fn find(door: &Door, caller: &Caller, wish: &Wish) -> Result<FoundMachine, Problem> {
    let found = door.machines.find(&caller.tenant, &wish.definition, wish.version).await?;
    found.ok_or_else(|| match wish.version {
        None => Problem::not_found("definition", &wish.definition),
        Some(version) => Problem::not_found("definition", format_args!("{}@{version}", wish.definition)),
    })
}

impl PendingStart {
    pub(super) fn new(
        door: &Door,
        caller: &Caller,
        wish: Wish,
        idempotency: Option<Idempotency>,
        (definition, machine): FoundMachine,
    ) -> Result<Self, Problem> {
        for event in &wish.events {
            posting::known(&machine, &event.name)?;
        }
        let now = door.clock.now();
        let event_id = entropy::event_id(now, &*door.entropy);
        let input_hash = input_hash(&wish);
        let (execution, id_from) = match (wish.execution_id, &idempotency) {
            (Some(id), _) => (id, IdFrom::Caller),
            (None, Some(idempotency)) => (posting::id_of_key(&caller.tenant, &idempotency.key)?, IdFrom::Key),
            (None, None) => (posting::parse_id(entropy::uuid_v7(now, &*door.entropy))?, IdFrom::Chance),
        };
        let key = ExecutionKey { tenant: caller.tenant.clone(), execution };
        let creation = ExecutionCreation { machine, event_id, input: wish.input, now };
        Ok(Self { key, id_from, idempotency, definition, input_hash, creation, events: wish.events })
    }

    /// The charge against the tenant's quotas.
    pub(super) fn charge(&self) -> StartCharge<'_> {
        let of_events: usize = self.events.iter().map(|event| event.payload.len()).sum();
        StartCharge {
            key: &self.key,
            events: 1 + self.events.len(),
            bytes: self.creation.input.len() + of_events,
        }
    }

    fn ready(self, door: &Door, caller: &Caller, trace: &Trace, first: FirstTransition) -> ReadyStart {
        let Self { key, id_from, idempotency, definition, input_hash, creation, events } = self;
        let ExecutionCreation { machine, event_id, input, now: _ } = creation;
        let start = NewEvent {
            event_id,
            execution: key.clone(),
            name: Name::start(),
            payload: input,
            origin: Origin::Posted,
            idempotency,
            actor: caller.actor.clone(),
            traceparent: Some(trace.traceparent.to_string()),
        };
        let events = events.into_iter().map(|Said { name, payload }| {
            let draft = Draft { execution: key.clone(), name, payload, idempotency_key: None };
            posting::new_event(door, caller, trace, draft)
        });
        let events = events.collect();
        let (applied, state) = first;
        let new = NewExecution { key, definition, input_hash, start, applied, state, events, graph: None };
        ReadyStart { new, mode: machine.definition().mode(), id_from }
    }
}

/// Decides seq 1 of each start, in order, together with its initial events.
pub(super) async fn decide(
    door: &Door,
    caller: &Caller,
    trace: &Trace,
    starts: Vec<PendingStart>,
) -> Vec<Result<ReadyStart, Problem>> {
    let creations = starts.iter().map(|start| start.creation.clone()).collect();
    let mut decided = create(&door.machines.evaluations, creations).await.into_iter();
    let decided = starts.into_iter().map(|start| match decided.next() {
        Some(Ok(first)) => Ok(start.ready(door, caller, trace, first)),
        Some(Err(reason)) => Err(Problem::invalid(vec![Fault::new("input", reason)])),
        None => Err(undecided()),
    });
    decided.collect()
}

/// Decides a prefix of the starts; those missing at the end are undecided.
async fn create(
    pool: &EvaluationPool,
    mut creations: Vec<ExecutionCreation>,
) -> Vec<Result<FirstTransition, String>> {
    let mut decided = create_inline(&creations);
    let rest = creations.split_off(decided.len());
    if !rest.is_empty() {
        let more =
            pool.run(move |stop| machine::create_some(&rest, VisitLimits { units: STEP_UNITS, stop })).await;
        decided.extend(more.unwrap_or_default());
    }
    decided
}

fn create_inline(creations: &[ExecutionCreation]) -> Vec<Result<FirstTransition, String>> {
    let stop = EvaluationPool::inline();
    machine::create_some(creations, VisitLimits { units: stop.units, stop })
}

fn undecided() -> Problem {
    let detail = "the start was not decided: \"correlate\" of this start, or of the starts before it in the array, \
                  takes much work. Nothing was accepted; send it again, in a smaller array";
    Problem::new(Kind::Busy, detail)
}

/// The hash that identifies a repeat. It covers the request, not the version that "latest" resolves to now.
pub(super) fn input_hash(wish: &Wish) -> [u8; 32] {
    let version = wish.version.map(|version| version.to_string()).unwrap_or_default();
    let mut parts: Vec<&[u8]> =
        vec![wish.definition.as_str().as_bytes(), version.as_bytes(), wish.input.as_str().as_bytes()];
    for event in &wish.events {
        parts.push(event.name.as_str().as_bytes());
        parts.push(event.payload.as_str().as_bytes());
    }
    posting::hash(&parts)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use millstream_core::definition::{self, Format};
    use millstream_core::entropy::derived_event_id;
    use millstream_core::time::Timestamp;
    use millstream_rpc::evaluation_pool::EvaluationPlace;

    use super::*;

    /// A start whose `correlate` compares every pair of a list of this length.
    fn correlated(items: usize) -> ExecutionCreation {
        let correlate = "context.l.all(a, context.l.all(b, a == b)) ? 'same' : 'other'";
        let source = format!(
            r#"{{"name":"h","initial":"a","correlate":"{correlate}","states":{{"a":{{"final":true}}}}}}"#
        );
        let machine = definition::parse(&source, Format::Json).and_then(Machine::compile).unwrap();
        let input = RawJson::parse(&format!(r#"{{"l":[{}1]}}"#, "1,".repeat(items - 1))).unwrap();
        let (event_id, now) = (derived_event_id("start"), Timestamp::EPOCH);
        ExecutionCreation { machine: Arc::new(machine), event_id, input, now }
    }

    fn pool() -> EvaluationPool {
        EvaluationPool::new(Duration::from_secs(600), EvaluationPlace::Threads)
    }

    #[tokio::test]
    async fn a_dear_correlation_leaves_the_thread_of_its_caller() {
        let pool = pool();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let (releases, blocked): (Vec<_>, Vec<_>) = (0..cores)
            .map(|_| {
                let (release, released) = mpsc::channel::<()>();
                (release, Box::pin(pool.run(move |_| released.recv().is_err())))
            })
            .unzip();
        let mut blocked = futures::future::join_all(blocked);
        assert!(futures::poll!(&mut blocked).is_pending(), "every thread of the pool is busy");

        let cheap = Box::pin(create(&pool, vec![correlated(3)]));
        assert!(futures::poll!(cheap).is_ready(), "decided here");
        let mut dear = Box::pin(create(&pool, vec![correlated(400)]));
        assert!(futures::poll!(&mut dear).is_pending(), "waits for a thread");
        drop(releases);
        blocked.await;
        assert!(matches!(dear.await[..], [Ok(_)]));
    }

    #[tokio::test]
    async fn starts_of_one_request_take_the_work_of_few_steps() {
        let decided = create(&pool(), vec![correlated(400); 1_000]).await;
        assert!((1..20).contains(&decided.len()), "{} decided", decided.len());
        assert!(decided.iter().all(Result::is_ok), "no start is rejected because of the earlier ones");
    }
}
