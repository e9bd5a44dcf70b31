//! Single events, for the open loop.

use std::time::{Duration, Instant};

use super::open::{AnsweredRequest, LoadErrand, OpenLane};
use super::tally::{SubmissionVerdict, classify_answer};
use crate::error::{BenchError, BenchResult};
use crate::request::{AwaitedStage, EventRequests};

const BACK_OFF: Duration = Duration::from_millis(5);

impl LoadErrand for EventRequests {
    async fn run(&self, lane: &mut OpenLane, number: usize) -> BenchResult<AnsweredRequest> {
        self.write_request(&mut lane.request, &mut lane.scratch, number, 1);
        let mut pushed_back = 0;
        loop {
            let reply = lane.connection.exchange_request(&lane.request).await;
            let reply = reply.map_err(|error| BenchError::unreachable("the ingress", error))?;
            match classify_answer(reply.status, &reply.body)? {
                SubmissionVerdict::Accepted => {
                    check_stage_reached(self.waits_for(), reply.status)?;
                    return Ok(AnsweredRequest { at: Instant::now(), pushed_back });
                }
                SubmissionVerdict::PushedBack => {
                    pushed_back += 1;
                    tokio::time::sleep(BACK_OFF).await;
                }
            }
        }
    }
}

/// A waiting request gets 200 when the stage was reached and 202 when its time was up.
fn check_stage_reached(until: AwaitedStage, status: u16) -> BenchResult<()> {
    match (until, status) {
        (AwaitedStage::Accepted, _) | (AwaitedStage::Applied | AwaitedStage::Completed, 200) => Ok(()),
        (AwaitedStage::Applied | AwaitedStage::Completed, _) => {
            Err(BenchError::Wrong(format!("an event was not {until:?} within ten seconds").to_lowercase()))
        }
    }
}
