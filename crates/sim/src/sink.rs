//! Target of actions: an idempotent service that records keys and tokens.
//!
//! A key is performed once; repeats get the recorded answer. A token lower than the highest one seen for its
//! key is refused: its holder has been replaced. Answers echo the token.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use millstream_core::action::{ActionError, Attempt, ErrorClass};
use millstream_core::raw::RawJson;
use millstream_worker::{Credentials, HttpRequest, PerformHttp};
use serde_json::json;

use crate::check::{Check, Violation};
use crate::history::SinkCall;
use crate::role::Role;
use crate::tally::Count;
use crate::world::World;

#[derive(Debug, Default)]
pub(crate) struct Sink(Mutex<Book>);

#[derive(Debug, Default)]
struct Book {
    highest: BTreeMap<String, i64>,
    done: BTreeMap<String, u64>,
    calls: Vec<SinkCall>,
}

/// Outcome of a request at the sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Served {
    /// Performed, now or by an earlier request.
    Done { again: bool },
    /// Its holder has been replaced.
    OldToken,
}

impl Sink {
    /// Performs or refuses the request at one instant.
    pub(crate) fn serve(&self, world: &World, key: &str, token: i64) -> Served {
        let mut book = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let highest = book.highest.entry(key.to_owned()).or_insert(token);
        let is_old = token < *highest;
        *highest = token.max(*highest);
        let done = book.done.get(key).copied().unwrap_or(0);
        let effect = !is_old && done == 0;
        book.calls.push(SinkCall { key: key.to_owned(), token, effect, refused: is_old });
        if is_old {
            world.count(Count::OldTokenAtSink);
            return Served::OldToken;
        }
        if effect {
            book.done.insert(key.to_owned(), 1);
            world.count(Count::Effects);
        } else {
            world.count(Count::KeyRepeatedAtSink);
        }
        Served::Done { again: !effect }
    }

    pub(crate) fn calls(&self) -> Vec<SinkCall> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).calls.clone()
    }
}

/// The connection of one worker to the sink.
#[derive(Debug)]
pub(crate) struct ToSink(pub(crate) Arc<Role>);

/// Fate of a request on its way and at the sink.
enum Reception {
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
impl PerformHttp for ToSink {
    async fn perform(&self, request: &HttpRequest, credentials: &Credentials) -> Attempt {
        let (role, world) = (&self.0, &self.0.world);
        let (key, token) = (&credentials.idempotency_key, credentials.fencing_token);
        if !world.leases.may_begin(key, token) {
            let what = format!("{key} was begun under token {token} after the holder's own deadline");
            world.accuse(Violation::new(Check::C5, &execution_of(key), what));
        }
        role.alive().await;
        world.count(Count::Calls);
        let reception = self.reception();
        role.travel().await;
        match reception {
            Reception::Silent => {
                world.count(Count::SinkSilent);
                role.line(|| format!("http {key} #{token}: silence"));
                return std::future::pending().await;
            }
            Reception::Refused => {
                world.count(Count::SinkRefused);
                role.line(|| format!("http {key} #{token} → 503"));
                role.travel().await;
                return failed(503);
            }
            Reception::Declined => {
                world.count(Count::SinkFailed);
                role.line(|| format!("http {key} #{token} → 422"));
                role.travel().await;
                return failed(422);
            }
            Reception::Late | Reception::Posthumous => {
                let (sink, key, delay) = (Self(Arc::clone(role)), key.clone(), world.dice.millis(1, 3_000));
                tokio::spawn(async move {
                    tokio::time::sleep(delay).await;
                    let answer = sink.serve(&key, token);
                    sink.0.line(|| format!("http {key} #{token} arrives late → {answer:?}"));
                });
                if matches!(reception, Reception::Posthumous) {
                    role.kill(Count::Posthumous);
                    return std::future::pending().await;
                }
                world.count(Count::Late);
                role.travel().await;
                return cut_off();
            }
            Reception::Served | Reception::AnswerLost => {}
        }
        if !world.is_calm() && world.dice.one_in(8) {
            world.count(Count::SinkSlow);
            tokio::time::sleep(world.dice.millis(50, 1_000)).await;
            role.alive().await;
        }
        let answer = self.serve(key, token);
        role.line(|| format!("http {key} #{token} {} → {answer:?}", request.url));
        if world.strikes(world.plan.rates.kill_after) {
            role.kill(Count::KillAfter);
        }
        role.travel().await;
        match reception {
            Reception::AnswerLost => {
                world.count(Count::SinkAnswerLost);
                cut_off()
            }
            Reception::Served
            | Reception::Refused
            | Reception::Declined
            | Reception::Silent
            | Reception::Late
            | Reception::Posthumous => answer,
        }
    }
}

impl ToSink {
    fn reception(&self) -> Reception {
        let world = &self.0.world;
        let rates = &world.plan.rates;
        if world.strikes(rates.sink_silent) {
            Reception::Silent
        } else if world.strikes(rates.sink_refused) {
            Reception::Refused
        } else if world.strikes(rates.sink_failed) {
            Reception::Declined
        } else if world.strikes(rates.in_doubt * 3) {
            Reception::AnswerLost
        } else if world.strikes(rates.late * 3) {
            Reception::Late
        } else if world.strikes(rates.posthumous) {
            Reception::Posthumous
        } else {
            Reception::Served
        }
    }

    fn serve(&self, key: &str, token: i64) -> Attempt {
        let world = &self.0.world;
        match world.sink.serve(world, key, token) {
            Served::OldToken => failed(409),
            Served::Done { again } => {
                let body = json!({ "token": token, "again": again });
                let result = json!({ "status": 200, "headers": {}, "body": body });
                Attempt::Success { result: RawJson::of(&result) }
            }
        }
    }
}

fn cut_off() -> Attempt {
    let error = ActionError { class: ErrorClass::Network, message: "cut off".to_owned(), status: None };
    Attempt::Transient { error, retry_after: None }
}

fn failed(status: u16) -> Attempt {
    let message = format!("answered {status}");
    let error = ActionError { class: ErrorClass::Status, message, status: Some(status) };
    if status == 503 { Attempt::Transient { error, retry_after: None } } else { Attempt::Permanent { error } }
}

/// Keys begin with tenant and execution.
pub(crate) fn execution_of(key: &str) -> String {
    key.split('/').nth(1).unwrap_or(key).to_owned()
}
