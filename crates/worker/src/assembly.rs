//! Composes a worker from its dependencies: the part that decides, the part that performs, and what they share.
//!
//! ```text
//!                    WorkerEnvironment  (store, stream, time, randomness, options)
//!                            │
//!                      ActionLeasing    (slots, leases, queue of leased actions)
//!       CommitLeasing ───────┤
//!             │              │
//!      MailboxDecider  ActionPerformer
//! ```

use std::sync::Arc;

use millstream_model::id::TenantId;
use millstream_rpc::evaluation_pool::EvaluationPool;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::deps::WorkerDeps;
use crate::environment::WorkerEnvironment;
use crate::error::WorkerFailure;
use crate::leasing::{ActionLeasing, CommitLeasing, LeasedWork};
use crate::options::WorkerOptions;
use crate::outbound::Sink;
use crate::perform::dispatch_recorder::DispatchRequest;
use crate::perform::{ActionPerformer, PerformerClients};
use crate::pipeline::MailboxDecider;
use crate::program_cache::ProgramCache;
use crate::stream_loss::StreamLossWatch;

/// A worker that does not run yet.
#[derive(Debug)]
pub(crate) struct AssembledWorker {
    pub(crate) env: Arc<WorkerEnvironment>,
    pub(crate) decider: Arc<MailboxDecider>,
    pub(crate) leasing: Arc<ActionLeasing>,
    pub(crate) performer: Arc<ActionPerformer>,
    pub(crate) sinks: Vec<Arc<dyn Sink>>,
    pub(crate) losses: Arc<StreamLossWatch>,
}

/// Inputs of the loops that perform.
#[derive(Debug)]
pub(crate) struct PerformingInputs {
    pub(crate) leased: mpsc::Receiver<(TenantId, LeasedWork)>,
    pub(crate) dispatches: mpsc::Receiver<DispatchRequest>,
}

impl AssembledWorker {
    pub(crate) fn new(
        deps: WorkerDeps,
        options: WorkerOptions,
        stop: CancellationToken,
    ) -> Result<(Self, PerformingInputs), WorkerFailure> {
        let WorkerDeps { stores, streams, clock, entropy, http, calls, nodes, secrets, sinks } = deps;
        let env = Arc::new(WorkerEnvironment::new((stores, streams), (clock, entropy), options, stop));
        let place = env.options.evaluation_place;
        let programs = Arc::new(ProgramCache::compiled_at(place));
        let evaluations = EvaluationPool::new(env.options.decision_patience, place);
        let functions = calls.iter().flat_map(|calls| calls.action_names()).collect();
        let (leasing, leased) = ActionLeasing::new(Arc::clone(&env), functions);
        let leasing = Arc::new(leasing);
        let decider = MailboxDecider::new(
            Arc::clone(&env),
            (Arc::clone(&programs), evaluations.clone()),
            CommitLeasing::new(Arc::clone(&leasing)),
        );
        let clients = PerformerClients { http, calls, nodes, secrets };
        let (performer, dispatches) =
            ActionPerformer::new(Arc::clone(&leasing), (programs, evaluations), clients)?;
        let worker = Self {
            env,
            decider: Arc::new(decider),
            leasing,
            performer: Arc::new(performer),
            sinks,
            losses: Arc::default(),
        };
        Ok((worker, PerformingInputs { leased, dispatches }))
    }
}
