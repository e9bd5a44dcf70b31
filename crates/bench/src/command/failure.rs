//! Failures of the command: their text, and exit codes with the meanings that `millstream --help` lists.

use millstream_bench::BenchError;

/// The causes of a [`BenchError`] are in its text already.
pub(crate) fn failure_text(error: &anyhow::Error) -> String {
    match error.downcast_ref::<BenchError>() {
        Some(error) => error.to_string(),
        None => format!("{error:#}"),
    }
}

/// Invalid settings and arguments are `anyhow` errors.
pub(crate) fn exit_code(error: &anyhow::Error) -> i32 {
    match error.downcast_ref::<BenchError>() {
        Some(BenchError::Wrong(_) | BenchError::Interrupted) => 1,
        Some(BenchError::Unreachable { .. }) => 4,
        Some(BenchError::Usage(_) | BenchError::Machine { .. }) | None => 2,
    }
}
