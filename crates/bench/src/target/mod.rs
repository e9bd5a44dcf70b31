//! The engine under test: one that is already running, or one that is started.

mod child;
mod fleet;
mod guard;
mod port;
mod subject;

pub(crate) use guard::CleanupGuard;
pub(crate) use subject::{
    EngineRole, EngineStart, EngineStorage, EngineUnderTest, RoleLocation, WorkerStart,
};
