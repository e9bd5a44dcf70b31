//! What all visits of a worker share.

use std::sync::Arc;

use millstream_rpc::evaluation_pool::EvaluationPool;
use millstream_stream::doorbell::FullTenants;

use super::ended_graphs::EndedGraphs;
use super::queueing_times::QueueingTimes;
use super::state_cache::StateCache;
use super::visit_locks::VisitLocks;
use crate::alarm::Alarm;
use crate::environment::WorkerEnvironment;
use crate::leasing::CommitLeasing;
use crate::program_cache::ProgramCache;

#[derive(Debug)]
pub(crate) struct MailboxDecider {
    pub(crate) env: Arc<WorkerEnvironment>,
    pub(crate) programs: Arc<ProgramCache>,
    /// For visits with expensive expressions.
    pub(crate) evaluations: EvaluationPool,
    pub(crate) states: StateCache,
    pub(crate) locks: VisitLocks,
    /// All that deciding knows of performing.
    pub(crate) leasing: CommitLeasing,
    /// Due times of the timers that this worker armed.
    pub(crate) timers: Arc<Alarm>,
    pub(crate) ended_graphs: Arc<EndedGraphs>,
    pub(crate) queueing: Arc<QueueingTimes>,
    /// Tenants with enough held doorbells; the reader skips them.
    pub(crate) full_tenants: FullTenants,
}

impl MailboxDecider {
    pub(crate) fn new(
        env: Arc<WorkerEnvironment>,
        (programs, evaluations): (Arc<ProgramCache>, EvaluationPool),
        leasing: CommitLeasing,
    ) -> Self {
        Self {
            programs,
            evaluations,
            states: StateCache::with_capacity(env.options.state_cache_bytes),
            locks: VisitLocks::default(),
            leasing,
            timers: Arc::default(),
            ended_graphs: Arc::default(),
            queueing: Arc::default(),
            full_tenants: FullTenants::default(),
            env,
        }
    }
}
