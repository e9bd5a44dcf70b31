//! Creates runs on a schedule and records the device that each answer assigns.

use std::cell::RefCell;

use serde::Deserialize;

use super::roster::BenchRoster;
use crate::error::{BenchError, BenchResult};
use crate::generator::{AnsweredRequest, LoadErrand, OpenLane};
use crate::lists::parse_answer;

/// Creates runs `{prefix}{number}` of a kind.
#[derive(Debug)]
pub(crate) struct RunCreation {
    pub(crate) prefix: String,
    pub(crate) kind: String,
    pub(crate) roster: BenchRoster,
    /// Seat by run number.
    given: RefCell<Vec<Option<BenchSeat>>>,
}

/// The seat of a run, and the device that is asked to take it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct BenchSeat {
    pub(crate) status: String,
    pub(crate) device: Option<String>,
    pub(crate) token: Option<i64>,
    pub(crate) reassignments: usize,
}

#[derive(Debug, Deserialize)]
struct CreatedRun {
    seats: Vec<BenchSeat>,
}

impl RunCreation {
    pub(crate) fn for_roster(prefix: String, kind: String, roster: &BenchRoster, runs: usize) -> Self {
        Self { prefix, kind, roster: roster.clone(), given: RefCell::new(vec![None; runs]) }
    }

    pub(crate) fn run(&self, number: usize) -> String {
        format!("{}{number}", self.prefix)
    }

    /// Every run with its seat. Fails unless the create request of each assigned it to a device.
    pub(crate) fn assigned_seats(&self) -> BenchResult<Vec<BenchSeat>> {
        let given = self.given.borrow();
        let missing = given.iter().filter(|seat| seat.is_none()).count();
        if missing > 0 {
            return Err(BenchError::Wrong(format!("{missing} runs were created without a device")));
        }
        Ok(given.iter().flatten().cloned().collect())
    }

    fn record_created(&self, number: usize, created: CreatedRun) -> BenchResult<()> {
        let (run, wrong) = (self.run(number), BenchError::Wrong);
        let [seat] = &created.seats[..] else {
            return Err(wrong(format!("run {run} has {} seats", created.seats.len())));
        };
        let Some(device) = seat.device.as_deref().filter(|_| seat.status == "assigned") else {
            return Err(wrong(format!("run {run} is {} and has no device", seat.status)));
        };
        if !self.roster.can_perform(device, number) {
            return Err(wrong(format!("run {run} was assigned to {device}, which lacks the capability")));
        }
        if let Some(slot) = self.given.borrow_mut().get_mut(number) {
            *slot = Some(seat.clone());
        }
        Ok(())
    }
}

impl LoadErrand for RunCreation {
    async fn run(&self, lane: &mut OpenLane, number: usize) -> BenchResult<AnsweredRequest> {
        // No device accepts before all runs are created, so no seat may expire until then.
        let body = format!(
            "{{\"run_id\":\"{}\",\"kind\":\"{}\",\"requires\":[\"{}\"],\"input\":{{\"number\":{number}}},\
             \"settings\":{{\"assignment_timeout\":\"6h\",\"claim_timeout\":\"6h\"}}}}",
            self.run(number),
            self.kind,
            BenchRoster::required_capability(number)
        );
        let called =
            lane.connection.call_with_retry(&mut lane.request, "/v1/runs", body.as_bytes(), &[201]).await?;
        self.record_created(number, parse_answer("/v1/runs", &called.body)?)?;
        Ok(AnsweredRequest { at: called.at, pushed_back: called.pushed_back })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_run(status: &str, device: Option<&str>) -> CreatedRun {
        let seat = BenchSeat {
            status: status.to_owned(),
            device: device.map(str::to_owned),
            token: Some(1),
            reassignments: 0,
        };
        CreatedRun { seats: vec![seat] }
    }

    #[test]
    fn created_runs_have_capable_devices() {
        let roster = BenchRoster { prefix: "d-".to_owned(), devices: 100 };
        let creation = RunCreation::for_roster("m-".to_owned(), "bench".to_owned(), &roster, 2);
        assert!(creation.assigned_seats().is_err(), "nothing is created yet");
        for (wrong, words) in [
            (sample_run("created", None), "has no device"),
            (sample_run("reassigning", Some("d-1")), "has no device"),
            (sample_run("assigned", Some("d-2")), "lacks the capability"),
            (CreatedRun { seats: Vec::new() }, "0 seats"),
        ] {
            let said = creation.record_created(1, wrong).unwrap_err().to_string();
            assert!(said.contains(words), "{said}");
        }
        creation.record_created(1, sample_run("assigned", Some("d-1"))).unwrap();
        assert!(creation.assigned_seats().is_err(), "one is missing");
        creation.record_created(0, sample_run("assigned", Some("d-10"))).unwrap();
        let given = creation.assigned_seats().unwrap();
        assert_eq!(
            given.iter().map(|seat| seat.device.as_deref().unwrap()).collect::<Vec<_>>(),
            ["d-10", "d-1"]
        );
    }
}
