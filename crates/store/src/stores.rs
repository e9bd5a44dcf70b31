//! The bundle that roles receive: one handle per use case, all on the same database.

use std::sync::Arc;

use crate::action_store::ActionStore;
use crate::assignments::{AssignmentViews, Assignments};
use crate::definition_store::DefinitionStore;
use crate::device_store::DeviceStore;
use crate::event_log::EventLog;
use crate::execution_store::ExecutionStore;
use crate::executor_store::ExecutorStore;
use crate::feed::Feed;
use crate::graph_store::{GraphStore, GraphViews};
use crate::housekeeping::Housekeeping;
use crate::incidents::Incidents;
use crate::intervention::Interventions;
use crate::item_store::ItemStore;
use crate::key_store::KeyStore;
use crate::notices::Notices;
use crate::outbox::Outbox;
use crate::queue_store::{PeopleStore, QueueStore};
use crate::quota_store::QuotaStore;
use crate::relations::Relations;
use crate::run_store::{RunStore, RunViews};
use crate::task_board::TaskBoard;
use crate::timer_store::TimerStore;
use crate::views::{EventViews, ExecutionViews};
use crate::worker_store::WorkerStore;

/// Handles to one store.
#[derive(Clone)]
pub struct Stores {
    pub events: Arc<dyn EventLog>,
    pub executions: Arc<dyn ExecutionStore>,
    pub actions: Arc<dyn ActionStore>,
    pub timers: Arc<dyn TimerStore>,
    pub definitions: Arc<dyn DefinitionStore>,
    pub interventions: Arc<dyn Interventions>,
    pub execution_views: Arc<dyn ExecutionViews>,
    pub event_views: Arc<dyn EventViews>,
    pub keys: Arc<dyn KeyStore>,
    pub workers: Arc<dyn WorkerStore>,
    pub housekeeping: Arc<dyn Housekeeping>,
    pub tasks: Arc<dyn TaskBoard>,
    pub incidents: Arc<dyn Incidents>,
    pub relations: Arc<dyn Relations>,
    pub graphs: Arc<dyn GraphStore>,
    pub graph_views: Arc<dyn GraphViews>,
    pub executors: Arc<dyn ExecutorStore>,
    pub feed: Arc<dyn Feed>,
    pub outbox: Arc<dyn Outbox>,
    pub notices: Arc<dyn Notices>,
    pub devices: Arc<dyn DeviceStore>,
    pub runs: Arc<dyn RunStore>,
    pub run_views: Arc<dyn RunViews>,
    pub queues: Arc<dyn QueueStore>,
    pub people: Arc<dyn PeopleStore>,
    pub items: Arc<dyn ItemStore>,
    pub assignments: Arc<dyn Assignments>,
    pub assignment_views: Arc<dyn AssignmentViews>,
    pub quotas: Arc<dyn QuotaStore>,
}

impl Stores {
    /// A backend that implements everything on one handle.
    pub fn from_backend<S>(store: Arc<S>) -> Self
    where
        S: EventLog
            + ExecutionStore
            + ActionStore
            + TimerStore
            + DefinitionStore
            + Interventions
            + ExecutionViews
            + EventViews
            + KeyStore
            + WorkerStore
            + Housekeeping
            + TaskBoard
            + Incidents
            + Relations
            + GraphStore
            + GraphViews
            + ExecutorStore
            + Feed
            + Outbox
            + Notices
            + DeviceStore
            + RunStore
            + RunViews
            + QueueStore
            + PeopleStore
            + ItemStore
            + Assignments
            + AssignmentViews
            + QuotaStore
            + 'static,
    {
        Self {
            events: store.clone(),
            executions: store.clone(),
            actions: store.clone(),
            timers: store.clone(),
            definitions: store.clone(),
            interventions: store.clone(),
            execution_views: store.clone(),
            event_views: store.clone(),
            keys: store.clone(),
            workers: store.clone(),
            housekeeping: store.clone(),
            tasks: store.clone(),
            incidents: store.clone(),
            relations: store.clone(),
            graphs: store.clone(),
            graph_views: store.clone(),
            executors: store.clone(),
            feed: store.clone(),
            outbox: store.clone(),
            notices: store.clone(),
            devices: store.clone(),
            runs: store.clone(),
            run_views: store.clone(),
            queues: store.clone(),
            people: store.clone(),
            items: store.clone(),
            assignments: store.clone(),
            assignment_views: store.clone(),
            quotas: store,
        }
    }
}

impl std::fmt::Debug for Stores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stores").finish_non_exhaustive()
    }
}
