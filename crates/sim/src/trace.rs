//! Trace of a run, line by line: virtual time, process, call, fate.
//!
//! Written only on request: a run is the same with and without it, so a failing seed is run again.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Whether a run records its trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceRecording {
    Nothing,
    Everything,
}

#[derive(Debug)]
pub(crate) struct SimTrace {
    record: TraceRecording,
    lines: Mutex<Vec<String>>,
}

impl SimTrace {
    pub(crate) fn new(record: TraceRecording) -> Self {
        Self { record, lines: Mutex::default() }
    }

    pub(crate) fn line(&self, at: Duration, role: &str, text: impl FnOnce() -> String) {
        match self.record {
            TraceRecording::Nothing => {}
            TraceRecording::Everything => {
                let line = format!("{:>9.3} {role:<6} {}", at.as_secs_f64(), text());
                self.lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            }
        }
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The lines about these executions, and the last of all the others.
pub fn trace_excerpt(lines: &[String], executions: &[String], last: usize) -> Vec<String> {
    let tail = lines.len().saturating_sub(last);
    let about = |line: &String| {
        let words = |line: &String| line.split([' ', ',', '/']).map(str::to_owned).collect::<Vec<_>>();
        words(line).iter().any(|word| executions.contains(word))
    };
    lines.iter().enumerate().filter(|(at, line)| *at >= tail || about(line)).map(|(_, l)| l.clone()).collect()
}
