//! People at work: each requests an item, starts it, submits an answer and repeats, until no item is left.
//!
//! One connection each, all on one thread. A person leaves when no item is open: the number of open items can
//! only shrink.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use serde::Deserialize;
use tokio::task::JoinSet;

use super::queue::BenchQueue;
use crate::error::{BenchError, BenchResult};
use crate::latency::LatencyHistogram;
use crate::lists::parse_answer;
use crate::wire::{BenchConnection, ServerAddress, TimedCall};

/// Result of the work.
#[derive(Debug)]
pub(crate) struct PeopleWork {
    pub(crate) began: Instant,
    /// Time of the last accepted answer.
    pub(crate) ended: Instant,
    pub(crate) next: LatencyHistogram,
    pub(crate) start: LatencyHistogram,
    pub(crate) submit: LatencyHistogram,
    pub(crate) answers: Vec<AcknowledgedAnswer>,
    /// Retries after backpressure: 429 and 503.
    pub(crate) pushed_back: usize,
}

/// An answer that the engine has acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AcknowledgedAnswer {
    pub(crate) assignment: String,
    pub(crate) item: String,
    pub(crate) person: String,
}

#[derive(Debug, Deserialize)]
struct PeopleNextReply {
    assignment: Option<PeopleAssignment>,
    #[serde(default)]
    already_assigned: bool,
}

#[derive(Debug, Deserialize)]
struct PeopleAssignment {
    assignment_id: String,
    item_id: String,
}

/// All people work until no item is left; `done` counts the answers.
pub(crate) async fn run_people(
    address: ServerAddress,
    queue: BenchQueue,
    done: Arc<AtomicUsize>,
) -> BenchResult<PeopleWork> {
    let mut lines = Vec::with_capacity(queue.people);
    for _ in 0..queue.people {
        let line = BenchConnection::open(&address).await;
        lines.push(line.map_err(|error| BenchError::unreachable(address.url(), error))?);
    }
    let began = Instant::now();
    let worked = Rc::new(RefCell::new(PeopleWork {
        began,
        ended: began,
        next: LatencyHistogram::new()?,
        start: LatencyHistogram::new()?,
        submit: LatencyHistogram::new()?,
        answers: Vec::with_capacity(queue.items * queue.overlap),
        pushed_back: 0,
    }));
    let mut crowd = JoinSet::new();
    for (number, line) in lines.into_iter().enumerate() {
        let person = BenchPerson {
            line,
            buffer: Vec::new(),
            name: queue.person_name(number),
            worked: worked.clone(),
            done: done.clone(),
        };
        crowd.spawn_local(person.work_off_queue(queue.name.clone()));
    }
    while let Some(ended) = crowd.join_next().await {
        ended.map_err(|error| BenchError::Wrong(format!("a person stopped: {error}")))??;
    }
    let worked = Rc::try_unwrap(worked).map(RefCell::into_inner);
    worked.map_err(|_| BenchError::Wrong("a person is still at work".to_owned()))
}

struct BenchPerson {
    line: BenchConnection,
    buffer: Vec<u8>,
    name: String,
    worked: Rc<RefCell<PeopleWork>>,
    done: Arc<AtomicUsize>,
}

impl BenchPerson {
    async fn work_off_queue(mut self, queue: String) -> BenchResult<()> {
        let wish = format!("{{\"person\":\"{}\",\"queues\":[\"{queue}\"]}}", self.name);
        let who = format!("{{\"person\":\"{}\"}}", self.name);
        loop {
            let asked = self.call_with_latency("/v1/assignments/next", &wish).await?;
            let given: PeopleNextReply = parse_answer("next", &asked.body)?;
            let Some(PeopleAssignment { assignment_id: assignment, item_id: item }) = given.assignment else {
                return Ok(());
            };
            if given.already_assigned {
                let text = format!("{} submitted all answers and got {assignment} again", self.name);
                return Err(BenchError::Wrong(text));
            }
            let begun = self.call_with_latency(&format!("/v1/assignments/{assignment}/start"), &who).await?;
            let answer =
                format!("{{\"person\":\"{}\",\"answer\":{}}}", self.name, expected_answer(&item, &self.name));
            let handed_in =
                self.call_with_latency(&format!("/v1/assignments/{assignment}/submit"), &answer).await?;
            let mut worked = self.worked.borrow_mut();
            worked.next.record(asked.took);
            worked.start.record(begun.took);
            worked.submit.record(handed_in.took);
            worked.ended = worked.ended.max(handed_in.at);
            worked.answers.push(AcknowledgedAnswer { assignment, item, person: self.name.clone() });
            self.done.fetch_add(1, Ordering::Relaxed);
        }
    }

    async fn call_with_latency(&mut self, path: &str, body: &str) -> BenchResult<TimedCall> {
        let called = self.line.call_with_retry(&mut self.buffer, path, body.as_bytes(), &[200]).await?;
        self.worked.borrow_mut().pushed_back += called.pushed_back;
        Ok(called)
    }
}

/// The answer of a person for an item.
pub(super) fn expected_answer(item: &str, person: &str) -> serde_json::Value {
    serde_json::json!({ "about": item, "by": person })
}
