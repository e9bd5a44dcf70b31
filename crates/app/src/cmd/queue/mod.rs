//! `millstream queue`: one file per matter.

mod import;
mod manage;
mod run;
mod stats;

pub(crate) use run::run;
