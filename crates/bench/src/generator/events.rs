//! Single events, for the open loop.

use std::time::{Duration, Instant};

use super::open::{Answered, Errand, Lane};
use super::tally::{Verdict, judge};
use crate::error::{BenchError, Result};
use crate::request::{Requests, Until};

const BACK_OFF: Duration = Duration::from_millis(5);

impl Errand for Requests {
    async fn run(&self, lane: &mut Lane, number: usize) -> Result<Answered> {
        self.write(&mut lane.request, &mut lane.scratch, number, 1);
        let mut pushed_back = 0;
        loop {
            let reply = lane.connection.exchange(&lane.request).await;
            let reply = reply.map_err(|error| BenchError::unreachable("the ingress", error))?;
            match judge(reply.status, &reply.body)? {
                Verdict::Accepted => {
                    met(self.waits_for(), reply.status)?;
                    return Ok(Answered { at: Instant::now(), pushed_back });
                }
                Verdict::PushedBack => {
                    pushed_back += 1;
                    tokio::time::sleep(BACK_OFF).await;
                }
            }
        }
    }
}

/// A waiting request gets 200 when the stage was reached and 202 when its time was up.
fn met(until: Until, status: u16) -> Result<()> {
    match (until, status) {
        (Until::Accepted, _) | (Until::Applied | Until::Completed, 200) => Ok(()),
        (Until::Applied | Until::Completed, _) => {
            Err(BenchError::Wrong(format!("an event was not {until:?} within ten seconds").to_lowercase()))
        }
    }
}
