//! Verification after the clock has stopped: every run exists, with its assigned device and the expected
//! status.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::create::{Creation, Seat};
use crate::error::{BenchError, Result};
use crate::lists::{all, nothing_wrong};
use crate::wire::Connection;

#[derive(Debug, Clone, Deserialize)]
struct Run {
    run_id: String,
    status: String,
    seats: Vec<Seat>,
}

/// Fails unless all runs have this status and their seats are the assigned ones.
pub(crate) async fn all_are(
    front: &mut Connection,
    creation: &Creation,
    given: &[Seat],
    status: &str,
) -> Result<()> {
    let found: Vec<Run> = all(front, &format!("/v1/runs?kind={}", creation.kind)).await?;
    let wanted = given.iter().enumerate().map(|(number, seat)| (creation.run(number), seat));
    judge(wanted, &found, status)
        .map_err(|text| BenchError::Wrong(format!("of {} runs that should be {status}: {text}", given.len())))
}

fn judge<'a>(
    wanted: impl Iterator<Item = (String, &'a Seat)>,
    found: &[Run],
    status: &str,
) -> std::result::Result<(), String> {
    let mut by_id: BTreeMap<&str, &Run> = found.iter().map(|run| (run.run_id.as_str(), run)).collect();
    let mut wrong = Vec::new();
    if by_id.len() != found.len() {
        wrong.push(format!("{} runs are listed twice", found.len() - by_id.len()));
    }
    for (id, seat) in wanted {
        let Some(run) = by_id.remove(id.as_str()) else {
            wrong.push(format!("run {id} is missing"));
            continue;
        };
        let now = Seat { status: status.to_owned(), ..seat.clone() };
        if run.status != status || run.seats != [now] {
            wrong.push(format!("run {id} is {}, with {:?}", run.status, run.seats));
        }
    }
    wrong.extend(by_id.keys().map(|id| format!("run {id} was not created")));
    nothing_wrong(&wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seat(status: &str, device: &str, token: i64, reassignments: usize) -> Seat {
        Seat { status: status.to_owned(), device: Some(device.to_owned()), token: Some(token), reassignments }
    }

    fn run(id: &str, status: &str, seat: Seat) -> Run {
        Run { run_id: id.to_owned(), status: status.to_owned(), seats: vec![seat] }
    }

    #[test]
    fn runs_stay_with_whom_they_were_given_to() {
        let given = [seat("assigned", "a", 1, 0), seat("assigned", "b", 1, 0)];
        let judged = |found: &[Run]| {
            let wanted = ["m-0", "m-1"].map(str::to_owned).into_iter().zip(&given);
            judge(wanted, found, "completed").err().unwrap_or_default()
        };
        let good = [
            run("m-1", "completed", seat("completed", "b", 1, 0)),
            run("m-0", "completed", seat("completed", "a", 1, 0)),
        ];
        assert_eq!(judged(&good), "");
        assert!(judged(&good[..1]).contains("run m-0 is missing"));
        let with = |other: Run| judged(&[good[1].clone(), other]);
        assert!(
            with(run("m-1", "completed", seat("completed", "c", 1, 0)))
                .contains("run m-1 is completed, with")
        );
        assert!(with(run("m-1", "completed", seat("completed", "b", 2, 1))).contains("run m-1"));
        assert!(with(run("m-1", "processing", seat("processing", "b", 1, 0))).contains("is processing"));
        assert!(
            with(run("m-2", "completed", seat("completed", "b", 1, 0))).contains("run m-2 was not created")
        );
        assert!(with(good[1].clone()).contains("1 runs are listed twice"));
    }
}
