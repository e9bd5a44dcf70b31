//! Verification after the clock has stopped: every run exists, with its assigned device and the expected
//! status.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::create::{BenchSeat, RunCreation};
use crate::error::{BenchError, BenchResult};
use crate::lists::{check_deviations, read_all_pages};
use crate::wire::BenchConnection;

#[derive(Debug, Clone, Deserialize)]
struct BenchRun {
    run_id: String,
    status: String,
    seats: Vec<BenchSeat>,
}

/// Fails unless all runs have this status and their seats are the assigned ones.
pub(crate) async fn verify_all_have_status(
    front: &mut BenchConnection,
    creation: &RunCreation,
    given: &[BenchSeat],
    status: &str,
) -> BenchResult<()> {
    let found: Vec<BenchRun> = read_all_pages(front, &format!("/v1/runs?kind={}", creation.kind)).await?;
    let wanted = given.iter().enumerate().map(|(number, seat)| (creation.run(number), seat));
    judge_runs(wanted, &found, status)
        .map_err(|text| BenchError::Wrong(format!("of {} runs that should be {status}: {text}", given.len())))
}

fn judge_runs<'a>(
    wanted: impl Iterator<Item = (String, &'a BenchSeat)>,
    found: &[BenchRun],
    status: &str,
) -> std::result::Result<(), String> {
    let mut by_id: BTreeMap<&str, &BenchRun> = found.iter().map(|run| (run.run_id.as_str(), run)).collect();
    let mut wrong = Vec::new();
    if by_id.len() != found.len() {
        wrong.push(format!("{} runs are listed twice", found.len() - by_id.len()));
    }
    for (id, seat) in wanted {
        let Some(run) = by_id.remove(id.as_str()) else {
            wrong.push(format!("run {id} is missing"));
            continue;
        };
        let now = BenchSeat { status: status.to_owned(), ..seat.clone() };
        if run.status != status || run.seats != [now] {
            wrong.push(format!("run {id} is {}, with {:?}", run.status, run.seats));
        }
    }
    wrong.extend(by_id.keys().map(|id| format!("run {id} was not created")));
    check_deviations(&wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_seat(status: &str, device: &str, token: i64, reassignments: usize) -> BenchSeat {
        BenchSeat {
            status: status.to_owned(),
            device: Some(device.to_owned()),
            token: Some(token),
            reassignments,
        }
    }

    fn sample_run(id: &str, status: &str, seat: BenchSeat) -> BenchRun {
        BenchRun { run_id: id.to_owned(), status: status.to_owned(), seats: vec![seat] }
    }

    #[test]
    fn runs_keep_their_assigned_devices() {
        let given = [sample_seat("assigned", "a", 1, 0), sample_seat("assigned", "b", 1, 0)];
        let judged = |found: &[BenchRun]| {
            let wanted = ["m-0", "m-1"].map(str::to_owned).into_iter().zip(&given);
            judge_runs(wanted, found, "completed").err().unwrap_or_default()
        };
        let good = [
            sample_run("m-1", "completed", sample_seat("completed", "b", 1, 0)),
            sample_run("m-0", "completed", sample_seat("completed", "a", 1, 0)),
        ];
        assert_eq!(judged(&good), "");
        assert!(judged(&good[..1]).contains("run m-0 is missing"));
        let with = |other: BenchRun| judged(&[good[1].clone(), other]);
        assert!(
            with(sample_run("m-1", "completed", sample_seat("completed", "c", 1, 0)))
                .contains("run m-1 is completed, with")
        );
        assert!(
            with(sample_run("m-1", "completed", sample_seat("completed", "b", 2, 1))).contains("run m-1")
        );
        assert!(
            with(sample_run("m-1", "processing", sample_seat("processing", "b", 1, 0)))
                .contains("is processing")
        );
        assert!(
            with(sample_run("m-2", "completed", sample_seat("completed", "b", 1, 0)))
                .contains("run m-2 was not created")
        );
        assert!(with(good[1].clone()).contains("1 runs are listed twice"));
    }
}
