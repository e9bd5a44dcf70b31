//! What is measured: an engine that runs already, or one that is started for it.

mod child;
mod fleet;
mod guard;
mod port;
mod subject;

pub(crate) use guard::Guard;
pub(crate) use subject::{Data, Place, Role, Start, Subject, Workers};
