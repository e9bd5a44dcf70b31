//! Target of actions: an idempotent service that records keys and tokens.
//!
//! A key is performed once; repeats get the recorded answer. A token lower than the highest one seen for its
//! key is refused: its holder has been replaced. Answers echo the token.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use millstream_model::attempt::{ActionFailure, AttemptOutcome};
use millstream_model::error_class::ErrorClass;
use millstream_model::raw::RawJson;
use millstream_worker::{AttemptCredentials, HttpRequest, PerformHttp};
use serde_json::json;

use crate::check::{SimCheck, SimViolation};
use crate::history::SinkCall;
use crate::role::SimProcess;
use crate::tally::SimCount;
use crate::world::SimWorld;

#[derive(Debug, Default)]
pub(crate) struct SimSink(Mutex<SinkBook>);

#[derive(Debug, Default)]
struct SinkBook {
    highest: BTreeMap<String, i64>,
    done: BTreeMap<String, u64>,
    calls: Vec<SinkCall>,
}

/// Outcome of a request at the sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SinkServed {
    /// Performed, now or by an earlier request.
    Done { again: bool },
    /// Its holder has been replaced.
    OldToken,
}

impl SimSink {
    /// Performs or refuses the request at one instant.
    pub(crate) fn serve_call(&self, world: &SimWorld, key: &str, token: i64) -> SinkServed {
        let mut book = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let highest = book.highest.entry(key.to_owned()).or_insert(token);
        let is_old = token < *highest;
        *highest = token.max(*highest);
        let done = book.done.get(key).copied().unwrap_or(0);
        let effect = !is_old && done == 0;
        book.calls.push(SinkCall { key: key.to_owned(), token, effect, refused: is_old });
        if is_old {
            world.count(SimCount::OldTokenAtSink);
            return SinkServed::OldToken;
        }
        if effect {
            book.done.insert(key.to_owned(), 1);
            world.count(SimCount::Effects);
        } else {
            world.count(SimCount::KeyRepeatedAtSink);
        }
        SinkServed::Done { again: !effect }
    }

    pub(crate) fn calls(&self) -> Vec<SinkCall> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).calls.clone()
    }
}

/// The connection of one worker to the sink.
#[derive(Debug)]
pub(crate) struct SimSinkCalls(pub(crate) Arc<SimProcess>);

/// Fate of a request on its way and at the sink.
enum SimSinkReception {
    Served,
    /// A temporary refusal.
    Refused,
    /// A permanent refusal.
    Declined,
    /// No answer, and nothing was done.
    Silent,
    /// The request was performed and its answer is lost.
    AnswerLost,
    /// It arrives after the connection was given up.
    Late,
    /// It arrives after the worker was killed.
    Posthumous,
}

#[async_trait::async_trait]
impl PerformHttp for SimSinkCalls {
    async fn send_request(&self, request: &HttpRequest, credentials: &AttemptCredentials) -> AttemptOutcome {
        let (role, world) = (&self.0, &self.0.world);
        let (key, token) = (&credentials.idempotency_key, credentials.fencing_token);
        if !world.leases.may_begin(key, token) {
            let what = format!("{key} was begun under token {token} after the holder's own deadline");
            world.report_violation(SimViolation::new(SimCheck::C5, &execution_of(key), what));
        }
        role.wait_while_frozen().await;
        world.count(SimCount::Calls);
        let reception = self.reception();
        role.travel_delay().await;
        match reception {
            SimSinkReception::Silent => {
                world.count(SimCount::SinkSilent);
                role.trace_line(|| format!("http {key} #{token}: silence"));
                return std::future::pending().await;
            }
            SimSinkReception::Refused => {
                world.count(SimCount::SinkRefused);
                role.trace_line(|| format!("http {key} #{token} → 503"));
                role.travel_delay().await;
                return failed_attempt(503);
            }
            SimSinkReception::Declined => {
                world.count(SimCount::SinkFailed);
                role.trace_line(|| format!("http {key} #{token} → 422"));
                role.travel_delay().await;
                return failed_attempt(422);
            }
            SimSinkReception::Late | SimSinkReception::Posthumous => {
                let (sink, key, delay) = (Self(Arc::clone(role)), key.clone(), world.dice.millis(1, 3_000));
                tokio::spawn(async move {
                    tokio::time::sleep(delay).await;
                    let answer = sink.serve_attempt(&key, token);
                    sink.0.trace_line(|| format!("http {key} #{token} arrives late → {answer:?}"));
                });
                if matches!(reception, SimSinkReception::Posthumous) {
                    role.kill(SimCount::Posthumous);
                    return std::future::pending().await;
                }
                world.count(SimCount::Late);
                role.travel_delay().await;
                return cut_off();
            }
            SimSinkReception::Served | SimSinkReception::AnswerLost => {}
        }
        if !world.is_calm() && world.dice.one_in(8) {
            world.count(SimCount::SinkSlow);
            tokio::time::sleep(world.dice.millis(50, 1_000)).await;
            role.wait_while_frozen().await;
        }
        let answer = self.serve_attempt(key, token);
        role.trace_line(|| format!("http {key} #{token} {} → {answer:?}", request.url));
        if world.draws_fault(world.plan.rates.kill_after) {
            role.kill(SimCount::KillAfter);
        }
        role.travel_delay().await;
        match reception {
            SimSinkReception::AnswerLost => {
                world.count(SimCount::SinkAnswerLost);
                cut_off()
            }
            SimSinkReception::Served
            | SimSinkReception::Refused
            | SimSinkReception::Declined
            | SimSinkReception::Silent
            | SimSinkReception::Late
            | SimSinkReception::Posthumous => answer,
        }
    }
}

impl SimSinkCalls {
    fn reception(&self) -> SimSinkReception {
        let world = &self.0.world;
        let rates = &world.plan.rates;
        if world.draws_fault(rates.sink_silent) {
            SimSinkReception::Silent
        } else if world.draws_fault(rates.sink_refused) {
            SimSinkReception::Refused
        } else if world.draws_fault(rates.sink_failed) {
            SimSinkReception::Declined
        } else if world.draws_fault(rates.in_doubt * 3) {
            SimSinkReception::AnswerLost
        } else if world.draws_fault(rates.late * 3) {
            SimSinkReception::Late
        } else if world.draws_fault(rates.posthumous) {
            SimSinkReception::Posthumous
        } else {
            SimSinkReception::Served
        }
    }

    fn serve_attempt(&self, key: &str, token: i64) -> AttemptOutcome {
        let world = &self.0.world;
        match world.sink.serve_call(world, key, token) {
            SinkServed::OldToken => failed_attempt(409),
            SinkServed::Done { again } => {
                let body = json!({ "token": token, "again": again });
                let result = json!({ "status": 200, "headers": {}, "body": body });
                AttemptOutcome::Success { result: RawJson::from_value(&result) }
            }
        }
    }
}

fn cut_off() -> AttemptOutcome {
    let error = ActionFailure { class: ErrorClass::Network, message: "cut off".to_owned(), status: None };
    AttemptOutcome::Transient { error, retry_after: None }
}

fn failed_attempt(status: u16) -> AttemptOutcome {
    let message = format!("answered {status}");
    let error = ActionFailure { class: ErrorClass::Status, message, status: Some(status) };
    if status == 503 {
        AttemptOutcome::Transient { error, retry_after: None }
    } else {
        AttemptOutcome::Permanent { error }
    }
}

/// Keys begin with tenant and execution.
pub(crate) fn execution_of(key: &str) -> String {
    key.split('/').nth(1).unwrap_or(key).to_owned()
}
