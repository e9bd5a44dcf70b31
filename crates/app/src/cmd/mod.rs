//! One file per subcommand.

pub(crate) mod apply;
pub(crate) mod bench;
pub(crate) mod bench_engine;
pub(crate) mod cancel;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod dead;
pub(crate) mod demo;
pub(crate) mod dev;
pub(crate) mod get;
pub(crate) mod graph;
pub(crate) mod incidents;
pub(crate) mod ingress;
pub(crate) mod keys;
pub(crate) mod list;
pub(crate) mod migrate;
pub(crate) mod new;
pub(crate) mod replay;
pub(crate) mod send;
pub(crate) mod signal;
pub(crate) mod start;
pub(crate) mod tail;
pub(crate) mod why;
pub(crate) mod worker;
pub(crate) mod workers;
