//! Applies commands to device runs, with optimistic concurrency: load, let the pure `devices` decide, commit if
//! the version still matches, else retry. Batched: one read, one commit for many commands.
//!
//! Refuses: domain decisions. [`RunEnvironment`] is the environment: the stores, the time, and the settlement of the
//! action that waits for a run.
//!
//! | file | what |
//! |---|---|
//! | [`command`] | commands and answers |
//! | [`retry_loop`] | the retry loop, until every command is answered |
//! | [`round_plan`] | the writes of a round, each command on top of those before it |
//! | [`placement`] | which device gets a free seat |
//! | [`roster_cache`] | cache of devices, so that not every choice reads them |
//! | [`draft_commit`] | one commit and its verdicts |
//! | [`run_counters`] | counters for metrics |

mod command;
mod draft_commit;
mod environment;
mod placement;
mod retry_loop;
mod roster_cache;
mod round_plan;
mod run_counters;

pub use command::{
    CreateRunReply, DeviceRunCommand, DeviceRunCommandKind, RunOperation, RunOperationReply, RunReply,
    apply_to_run, create_run,
};
pub use environment::{RunEnvironment, WrittenRuns};
pub use retry_loop::perform_commands;
pub use roster_cache::RosterCache;
pub use run_counters::RunCounters;
