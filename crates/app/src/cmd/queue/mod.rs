//! `millstream queue`: one file per topic.

mod import;
mod manage;
mod run;
mod stats;

pub(crate) use run::run;
