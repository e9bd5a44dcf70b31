//! Verification after the clock has stopped: every accepted event was applied, once, to its execution.
//!
//! It asks over HTTP, so that it works for every target and schema: an execution's `seq` is 1 after its start
//! and grows by one with every applied event. Together with zero undecided events, zero dead events and zero
//! open actions, this rules out every kind of loss.

use millstream_store::backlog_gauges;
use serde::Deserialize;

use crate::error::{BenchError, BenchResult};
use crate::target::EngineUnderTest;
use crate::workload::Workload;

const PAGE: usize = 500;

#[derive(Debug, Deserialize)]
struct ExecutionPage {
    items: Vec<ListedExecution>,
    next_cursor: Option<String>,
}

#[derive(Debug, Deserialize)]
struct ListedExecution {
    execution_id: String,
    seq: u64,
    status: String,
}

/// Executions `{prefix}{number}`, which received `events` events in rotation (round robin).
pub(crate) async fn verify_applied(
    subject: &mut EngineUnderTest,
    workload: Workload,
    prefix: &str,
    executions: usize,
    events: usize,
) -> BenchResult<()> {
    let mut seen = vec![VerifiedExecution::Nothing; executions];
    let mut found = 0;
    let mut cursor = String::new();
    // Newest first: our executions precede all older ones.
    while found < executions {
        let path = format!("/v1/executions?definition=bench_{workload}&limit={PAGE}{cursor}");
        let body = subject.front_connection().get(&path).await?;
        let page: ExecutionPage = serde_json::from_slice(&body)
            .map_err(|error| BenchError::Wrong(format!("a list of executions cannot be read: {error}")))?;
        for item in page.items {
            let number = item.execution_id.strip_prefix(prefix).and_then(|text| text.parse::<usize>().ok());
            if let Some(slot) = number.and_then(|number| seen.get_mut(number)) {
                found += usize::from(*slot == VerifiedExecution::Nothing);
                *slot = if item.status == "active" {
                    VerifiedExecution::At(item.seq)
                } else {
                    VerifiedExecution::Stopped
                };
            }
        }
        match page.next_cursor {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    judge_executions(&seen, events)?;
    verify_nothing_left(subject).await
}

/// Verifies that nothing new is undecided, open, dead or paused.
pub(crate) async fn verify_nothing_left(subject: &mut EngineUnderTest) -> BenchResult<()> {
    let metrics = subject.front_metrics().await?;
    for (name, what) in [
        (backlog_gauges::UNDECIDED_EVENTS, "undecided events"),
        (backlog_gauges::OPEN_ACTIONS, "open actions"),
        (backlog_gauges::DEAD_EVENTS, "dead events"),
        (backlog_gauges::PAUSED_EXECUTIONS, "paused executions"),
    ] {
        let count = metrics.sum_series(name, "") - subject.initial_gauge(name);
        if count > 0.0 {
            return Err(BenchError::Wrong(format!("{count} {what} are left after the run")));
        }
    }
    Ok(())
}

/// State of one execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum VerifiedExecution {
    Nothing,
    /// Active, at this seq.
    At(u64),
    /// Paused or ended, which no workload causes.
    Stopped,
}

fn judge_executions(seen: &[VerifiedExecution], events: usize) -> BenchResult<()> {
    let executions = seen.len();
    let mut wrong = Vec::new();
    for (number, seen) in seen.iter().enumerate() {
        let wanted = 1 + (events / executions + usize::from(number < events % executions)) as u64;
        match seen {
            VerifiedExecution::At(seq) if *seq == wanted => {}
            VerifiedExecution::At(seq) => {
                wrong.push(format!("execution {number} is at seq {seq}, not {wanted}"))
            }
            VerifiedExecution::Stopped => wrong.push(format!("execution {number} is not active any more")),
            VerifiedExecution::Nothing => wrong.push(format!("execution {number} is missing")),
        }
    }
    if wrong.is_empty() {
        return Ok(());
    }
    let (count, some) = (wrong.len(), wrong[..wrong.len().min(3)].join("; "));
    Err(BenchError::Wrong(format!(
        "{events} events were accepted for {executions} executions, and {count} of those deviate: {some}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verify_finds_missing_event() {
        let judged = |seqs: &[u64]| {
            judge_executions(&seqs.iter().map(|seq| VerifiedExecution::At(*seq)).collect::<Vec<_>>(), 7)
        };
        assert!(judged(&[4, 3, 3]).is_ok());
        for wrong in [&[3, 3, 3][..], &[4, 4, 3], &[4, 3]] {
            assert!(judged(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn verify_finds_stopped_or_missing_execution() {
        let said = judge_executions(
            &[VerifiedExecution::At(2), VerifiedExecution::Stopped, VerifiedExecution::Nothing],
            3,
        )
        .unwrap_err()
        .to_string();
        assert!(said.contains("2 of those") && said.contains("execution 1 is not active"), "{said}");
    }
}
