//! The command line of `millstream-bench`: its arguments, the plan made from them, and the output.

mod arguments;
mod failure;
mod measure;
mod plan;
mod work_arguments;

pub(crate) use arguments::BenchArgs;
pub(crate) use failure::{exit_code, failure_text};
pub(crate) use measure::run;
