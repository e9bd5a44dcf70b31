//! `millstream graph`: one file per subcommand.

mod cancel;
mod check;
mod create;
mod edit;
mod executors;
mod follow;
mod get;
mod list;
mod path;
mod run;
mod show;
mod summary;
mod watch;

pub(crate) use run::run;
