//! After the clock has stopped: every event that was accepted was applied, once, to its execution.
//!
//! Asked over HTTP, so that it holds for every target and whatever the tables look like: an
//! execution's `seq` is 1 after its start and grows by one with every event that is applied. Together
//! with nothing undecided, nothing dead and no open action, that is all there is to lose.

use std::collections::BTreeMap;

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

/// Executions of `{prefix}{number}` that got `events` in turn, round and round.
pub(crate) async fn applied(
    subject: &mut Subject,
    workload: Workload,
    prefix: &str,
    executions: usize,
    events: usize,
) -> Result<()> {
    let mut seen = BTreeMap::new();
    let mut cursor = String::new();
    // Newest first: ours are all there before anything that was there before us.
    while seen.len() < executions {
        let path = format!("/v1/executions?definition=bench_{workload}&limit={PAGE}{cursor}");
        let body = subject.front().get(&path).await?;
        let page: Page = serde_json::from_slice(&body)
            .map_err(|error| BenchError::Wrong(format!("a list of executions cannot be read: {error}")))?;
        for item in page.items {
            if let Some(number) = item.execution_id.strip_prefix(prefix).and_then(|text| text.parse().ok()) {
                seen.insert(number, (item.seq, item.status));
            }
        }
        match page.next_cursor {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    judge(&seen, executions, events)?;
    let metrics = subject.front_metrics().await?;
    for (name, what) in [
        ("millstream_undecided", "undecided events"),
        ("millstream_open_actions", "open actions"),
        ("millstream_dead", "dead events"),
        ("millstream_paused", "paused executions"),
    ] {
        let count = metrics.sum(name, "") - subject.before(name);
        if count > 0.0 {
            return Err(BenchError::Wrong(format!("{count} {what} are left when everything should be done")));
        }
    }
    Ok(())
}

fn judge(seen: &BTreeMap<usize, (u64, String)>, executions: usize, events: usize) -> Result<()> {
    let mut wrong = Vec::new();
    for number in 0..executions {
        let wanted = 1 + (events / executions + usize::from(number < events % executions)) as u64;
        match seen.get(&number) {
            Some((seq, status)) if *seq == wanted && status == "active" => {}
            Some((seq, status)) => {
                wrong.push(format!("execution {number} is {status} at seq {seq}, not {wanted}"))
            }
            None => wrong.push(format!("execution {number} is not there")),
        }
    }
    if wrong.is_empty() {
        return Ok(());
    }
    let (count, some) = (wrong.len(), wrong[..wrong.len().min(3)].join("; "));
    Err(BenchError::Wrong(format!(
        "{events} events were accepted for {executions} executions, and {count} of those are not as they should be: {some}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(seqs: &[u64]) -> BTreeMap<usize, (u64, String)> {
        seqs.iter().copied().map(|seq| (seq, "active".to_owned())).enumerate().collect()
    }

    #[test]
    fn events_go_round_and_a_missing_one_is_found() {
        assert!(judge(&seen(&[4, 3, 3]), 3, 7).is_ok());
        for wrong in [&[3, 3, 3][..], &[4, 4, 3], &[4, 3]] {
            assert!(judge(&seen(wrong), 3, 7).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_paused_execution_is_wrong() {
        let mut seen = seen(&[2]);
        seen.insert(0, (2, "paused".to_owned()));
        let said = judge(&seen, 1, 1).unwrap_err().to_string();
        assert!(said.contains("execution 0 is paused"), "{said}");
    }
}
