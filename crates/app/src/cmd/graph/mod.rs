//! `millstream graph`: one file per subcommand.

mod cancel;
mod check;
mod create;
mod edit;
mod executors;
mod get;
mod list;
mod run;
mod show;
mod shown;
mod summary;
mod watch;

pub(crate) use run::run;
