//! Verification after the clock has stopped: every accepted event was applied, once, to its execution.
//!
//! It asks over HTTP, so that it works for every target and schema: an execution's `seq` is 1 after its start
//! and grows by one with every applied event. Together with zero undecided events, zero dead events and zero
//! open actions, this rules out every kind of loss.

use serde::Deserialize;

use crate::error::{BenchError, Result};
use crate::target::Subject;
use crate::workload::Workload;

const PAGE: usize = 500;

#[derive(Debug, Deserialize)]
struct Page {
    items: Vec<Item>,
    next_cursor: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Item {
    execution_id: String,
    seq: u64,
    status: String,
}

/// Executions `{prefix}{number}`, which received `events` events in rotation (round robin).
pub(crate) async fn applied(
    subject: &mut Subject,
    workload: Workload,
    prefix: &str,
    executions: usize,
    events: usize,
) -> Result<()> {
    let mut seen = vec![Seen::Nothing; executions];
    let mut found = 0;
    let mut cursor = String::new();
    // Newest first: our executions precede all older ones.
    while found < executions {
        let path = format!("/v1/executions?definition=bench_{workload}&limit={PAGE}{cursor}");
        let body = subject.front().get(&path).await?;
        let page: Page = serde_json::from_slice(&body)
            .map_err(|error| BenchError::Wrong(format!("a list of executions cannot be read: {error}")))?;
        for item in page.items {
            let number = item.execution_id.strip_prefix(prefix).and_then(|text| text.parse::<usize>().ok());
            if let Some(slot) = number.and_then(|number| seen.get_mut(number)) {
                found += usize::from(*slot == Seen::Nothing);
                *slot = if item.status == "active" { Seen::At(item.seq) } else { Seen::Stopped };
            }
        }
        match page.next_cursor {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    judge(&seen, events)?;
    nothing_left(subject).await
}

/// Verifies that nothing new is undecided, open, dead or paused.
pub(crate) async fn nothing_left(subject: &mut Subject) -> Result<()> {
    let metrics = subject.front_metrics().await?;
    for (name, what) in [
        ("millstream_undecided", "undecided events"),
        ("millstream_open_actions", "open actions"),
        ("millstream_dead", "dead events"),
        ("millstream_paused", "paused executions"),
    ] {
        let count = metrics.sum(name, "") - subject.before(name);
        if count > 0.0 {
            return Err(BenchError::Wrong(format!("{count} {what} are left after the run")));
        }
    }
    Ok(())
}

/// State of one execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Nothing,
    /// Active, at this seq.
    At(u64),
    /// Paused or ended, which no workload causes.
    Stopped,
}

fn judge(seen: &[Seen], events: usize) -> Result<()> {
    let executions = seen.len();
    let mut wrong = Vec::new();
    for (number, seen) in seen.iter().enumerate() {
        let wanted = 1 + (events / executions + usize::from(number < events % executions)) as u64;
        match seen {
            Seen::At(seq) if *seq == wanted => {}
            Seen::At(seq) => wrong.push(format!("execution {number} is at seq {seq}, not {wanted}")),
            Seen::Stopped => wrong.push(format!("execution {number} is not active any more")),
            Seen::Nothing => wrong.push(format!("execution {number} is missing")),
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
    fn events_go_round_and_a_missing_one_is_found() {
        let judged = |seqs: &[u64]| judge(&seqs.iter().map(|seq| Seen::At(*seq)).collect::<Vec<_>>(), 7);
        assert!(judged(&[4, 3, 3]).is_ok());
        for wrong in [&[3, 3, 3][..], &[4, 4, 3], &[4, 3]] {
            assert!(judged(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn an_execution_that_stopped_or_is_missing_is_wrong() {
        let said = judge(&[Seen::At(2), Seen::Stopped, Seen::Nothing], 3).unwrap_err().to_string();
        assert!(said.contains("2 of those") && said.contains("execution 1 is not active"), "{said}");
    }
}
