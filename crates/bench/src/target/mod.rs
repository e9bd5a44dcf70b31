//! The engine under test: one that is already running, or one that is started.

mod child;
mod fleet;
mod guard;
mod port;
mod subject;

pub(crate) use guard::Guard;
pub(crate) use subject::{Data, Place, Role, Start, Subject, Workers};
