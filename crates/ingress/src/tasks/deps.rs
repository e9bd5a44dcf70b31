//! Dependencies of tasks for external workers.

use std::sync::Arc;

use millstream_model::entropy::Entropy;
use millstream_store::action_store::ActionStore;
use millstream_store::clock::Clock;

use super::board::WorkerBoard;
use super::handed_out_tasks::HandedOutTasks;
use super::report::TaskBatcher;
use crate::definition_cache::DefinitionCache;

pub(crate) struct TaskDeps {
    /// External workers that wait for tasks.
    pub(crate) board: WorkerBoard,
    /// Tasks that external workers hold.
    pub(crate) handed: HandedOutTasks,
    /// Reports of external workers about their tasks.
    pub(crate) reports: Arc<TaskBatcher>,
    pub(crate) actions: Arc<dyn ActionStore>,
    pub(crate) machines: Arc<DefinitionCache>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
}
