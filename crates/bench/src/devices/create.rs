//! Creates runs on a schedule and records the device that each answer assigns.

use std::cell::RefCell;

use serde::Deserialize;

use super::roster::Roster;
use crate::error::{BenchError, Result};
use crate::generator::{Answered, Errand, Lane};
use crate::lists::read;

/// Creates runs `{prefix}{number}` of a kind.
#[derive(Debug)]
pub(crate) struct Creation {
    pub(crate) prefix: String,
    pub(crate) kind: String,
    pub(crate) roster: Roster,
    /// Seat by run number.
    given: RefCell<Vec<Option<Seat>>>,
}

/// The seat of a run, and the device that is asked to take it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Seat {
    pub(crate) status: String,
    pub(crate) device: Option<String>,
    pub(crate) token: Option<i64>,
    pub(crate) reassignments: usize,
}

#[derive(Debug, Deserialize)]
struct Created {
    seats: Vec<Seat>,
}

impl Creation {
    pub(crate) fn of(prefix: String, kind: String, roster: &Roster, runs: usize) -> Self {
        Self { prefix, kind, roster: roster.clone(), given: RefCell::new(vec![None; runs]) }
    }

    pub(crate) fn run(&self, number: usize) -> String {
        format!("{}{number}", self.prefix)
    }

    /// Every run with its seat. Fails unless the create request of each assigned it to a device.
    pub(crate) fn given(&self) -> Result<Vec<Seat>> {
        let given = self.given.borrow();
        let missing = given.iter().filter(|seat| seat.is_none()).count();
        if missing > 0 {
            return Err(BenchError::Wrong(format!("{missing} runs were created without a device")));
        }
        Ok(given.iter().flatten().cloned().collect())
    }

    fn take(&self, number: usize, created: Created) -> Result<()> {
        let (run, wrong) = (self.run(number), BenchError::Wrong);
        let [seat] = &created.seats[..] else {
            return Err(wrong(format!("run {run} has {} seats", created.seats.len())));
        };
        let Some(device) = seat.device.as_deref().filter(|_| seat.status == "assigned") else {
            return Err(wrong(format!("run {run} is {} and has no device", seat.status)));
        };
        if !self.roster.suits(device, number) {
            return Err(wrong(format!("run {run} was assigned to {device}, which lacks the capability")));
        }
        if let Some(slot) = self.given.borrow_mut().get_mut(number) {
            *slot = Some(seat.clone());
        }
        Ok(())
    }
}

impl Errand for Creation {
    async fn run(&self, lane: &mut Lane, number: usize) -> Result<Answered> {
        // No device accepts before all runs are created, so no seat may expire until then.
        let body = format!(
            "{{\"run_id\":\"{}\",\"kind\":\"{}\",\"requires\":[\"{}\"],\"input\":{{\"number\":{number}}},\
             \"settings\":{{\"assignment_timeout\":\"6h\",\"claim_timeout\":\"6h\"}}}}",
            self.run(number),
            self.kind,
            Roster::requirement(number)
        );
        let called = lane.connection.call(&mut lane.request, "/v1/runs", body.as_bytes(), &[201]).await?;
        self.take(number, read("/v1/runs", &called.body)?)?;
        Ok(Answered { at: called.at, pushed_back: called.pushed_back })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seat(status: &str, device: Option<&str>) -> Created {
        let seat = Seat {
            status: status.to_owned(),
            device: device.map(str::to_owned),
            token: Some(1),
            reassignments: 0,
        };
        Created { seats: vec![seat] }
    }

    #[test]
    fn every_run_is_given_in_its_request_to_a_device_that_can_do_it() {
        let roster = Roster { prefix: "d-".to_owned(), devices: 100 };
        let creation = Creation::of("m-".to_owned(), "bench".to_owned(), &roster, 2);
        assert!(creation.given().is_err(), "nothing is created yet");
        for (wrong, words) in [
            (seat("created", None), "has no device"),
            (seat("reassigning", Some("d-1")), "has no device"),
            (seat("assigned", Some("d-2")), "lacks the capability"),
            (Created { seats: Vec::new() }, "0 seats"),
        ] {
            let said = creation.take(1, wrong).unwrap_err().to_string();
            assert!(said.contains(words), "{said}");
        }
        creation.take(1, seat("assigned", Some("d-1"))).unwrap();
        assert!(creation.given().is_err(), "one is missing");
        creation.take(0, seat("assigned", Some("d-10"))).unwrap();
        let given = creation.given().unwrap();
        assert_eq!(
            given.iter().map(|seat| seat.device.as_deref().unwrap()).collect::<Vec<_>>(),
            ["d-10", "d-1"]
        );
    }
}
