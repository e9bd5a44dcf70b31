//! Admission control for gRPC calls, and metering of their messages: bounded in time and charged to the
//! same budget as HTTP bodies.
//!
//! A call is in flight until its answer is sent; a call that answers with a stream, until the stream
//! begins. From then on it holds no slot, and its incoming messages are bounded by the message size limit:
//! 32 KiB where clients stream (`routes`).

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use millstream_core::permission::Permission;
use tokio::time::Sleep;
use tonic::Status;

use super::methods::{self, Access, Answers};
use super::status::{response, status};
use super::whole_message::WholeMessage;
use crate::auth::{self, Caller};
use crate::body::{Budget, PaidBytes};
use crate::door::Door;
use crate::gate::{self, AnonymousBudget, AnsweredCall};
use crate::held_body::HeldBody;
use crate::http::problem::{Kind, Problem};
use crate::metrics::InFlight;
use crate::quotas::{RepeatAnswer, RequestClass};

/// Checks sizes and hosts, for every service.
pub(super) async fn admit(State(door): State<Arc<Door>>, request: Request, next: Next) -> Response {
    match gate::refused(request.uri(), request.headers(), request.extensions(), &door).await {
        Some(problem) => response(problem),
        None => next.run(request).await,
    }
}

/// Authenticates the caller by the metadata and checks the permission of the method, before the call takes
/// a slot and before its message is read.
pub(super) async fn identify(State(door): State<Arc<Door>>, mut request: Request, next: Next) -> Response {
    let needs = match methods::access(request.uri().path()) {
        None => return response(Problem::new(Kind::NoRoute, "there is no such service or method")),
        Some(Access::Anonymous) => return next.run(request).await,
        Some(Access::Needs(permission)) => permission,
    };
    let answered = match auth::authorize_call(&door, &mut request, needs).await {
        Ok(identity) => auth::run_while_live(&door.keys, identity.key(), next.run(request)).await,
        Err(problem) => Err(problem),
    };
    answered.unwrap_or_else(response)
}

/// Bounds the calls in flight and their bytes.
pub(super) async fn in_flight(State(door): State<Arc<Door>>, mut request: Request, next: Next) -> Response {
    let needs = match methods::access(request.uri().path()) {
        Some(Access::Needs(permission)) => Some(permission),
        Some(Access::Anonymous) | None => None,
    };
    // Methods that create or edit answer repeats by the idempotency key in their metadata.
    let repeats = match needs {
        Some(Permission::PostEvents) => RepeatAnswer::ByKey,
        Some(_) | None => RepeatAnswer::None,
    };
    let class = RequestClass::of(needs, repeats, request.headers());
    let slot = match door.request_slot(request.extensions().get::<Caller>(), class) {
        Ok(slot) => slot,
        Err(problem) => return response(problem),
    };
    request.extensions_mut().insert(class);
    let bodies = door.bodies.of_caller(request.extensions());
    let (account, answers) = (Account::new(bodies.clone()), methods::answers(request.uri().path()));
    let limit = door.options.limits.body_timeout;
    let mut request = request.map(|body| Body::new(Paid::new(body, account.clone(), limit)));
    request.extensions_mut().insert(slot.clone());
    let counted = InFlight::begin();
    let answer = next.run(request).await;
    drop(counted);
    account.close();
    match answers {
        Answers::Stream => {
            slot.give_back();
            answer
        }
        Answers::Message => {
            let call = match needs {
                Some(Permission::ReadData) => AnsweredCall::Read,
                Some(_) | None => AnsweredCall::Act,
            };
            let (answer, bytes) = whole_answer(answer).await;
            gate::hold_answer(answer, bytes, slot, &bodies, call).unwrap_or_else(response)
        }
    }
}

/// Encodes the answer and returns it with its length, which is unknown before the encoding.
async fn whole_answer(answer: Response) -> (Response, usize) {
    let (parts, body) = answer.into_parts();
    match WholeMessage::of(body).await {
        Ok((body, bytes)) => (Response::from_parts(parts, Body::new(body)), bytes),
        Err(error) => {
            (response(Problem::new(Kind::Internal, format!("reading the answer failed: {error}"))), 0)
        }
    }
}

/// Time for a client without a key to send its message.
const ANONYMOUS_MESSAGE: Duration = Duration::from_secs(5);
/// Bytes that a client without a key may send over the life of one call.
const ANONYMOUS_BYTES: usize = 64 * 1024;
/// Lifetime of one reflection stream.
const REFLECTION_LIFE: Duration = Duration::from_secs(60);

/// Bounds the anonymous calls, each kind by a small budget of its own. The place is held until the answer
/// is complete.
pub(super) async fn anonymous(State(door): State<Arc<Door>>, request: Request, next: Next) -> Response {
    let budget = match request.uri().path() {
        "/grpc.health.v1.Health/Watch" => AnonymousBudget::HealthWatch,
        path if path.starts_with("/grpc.reflection.") => AnonymousBudget::Reflection,
        _ => AnonymousBudget::HealthCheck,
    };
    let permit = match door.gate.anonymous(budget) {
        Ok(permit) => permit,
        Err(problem) => return response(problem),
    };
    let limit = match budget {
        AnonymousBudget::HealthCheck
        | AnonymousBudget::HealthWatch
        | AnonymousBudget::Probe
        | AnonymousBudget::OpenApi => ANONYMOUS_MESSAGE.min(door.options.limits.body_timeout),
        AnonymousBudget::Reflection => REFLECTION_LIFE,
    };
    let account = Account::new(Budget::of(ANONYMOUS_BYTES, door.quotas.clone()));
    let answer = next.run(request.map(|body| Body::new(Paid::new(body, account, limit)))).await;
    answer.map(|body| Body::new(HeldBody::new(body, permit)))
}

/// Bytes charged by a call; closed once the call is answered.
#[derive(Debug, Clone)]
struct Account(Arc<Mutex<Option<Open>>>);

#[derive(Debug)]
struct Open {
    budget: Budget,
    bytes: usize,
    kib: usize,
    paid: Vec<PaidBytes>,
}

impl Account {
    fn new(budget: Budget) -> Self {
        Self(Arc::new(Mutex::new(Some(Open { budget, bytes: 0, kib: 0, paid: Vec::new() }))))
    }

    fn close(&self) {
        *self.lock() = None;
    }

    fn is_open(&self) -> bool {
        self.lock().is_some()
    }

    fn charge(&self, bytes: usize) -> Result<(), Problem> {
        let mut lock = self.lock();
        let Some(open) = lock.as_mut() else { return Ok(()) };
        open.bytes += bytes;
        let due = open.bytes.div_ceil(1024) - open.kib;
        if due > 0 {
            let more = open.budget.pay(due)?;
            open.kib += due;
            match open.paid.last_mut() {
                Some(paid) => paid.merge(more),
                None => open.paid.push(more),
            }
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Open>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request body that is charged as it arrives, with a deadline.
struct Paid {
    body: Body,
    account: Account,
    limit: Duration,
    late: Pin<Box<Sleep>>,
}

impl Paid {
    fn new(body: Body, account: Account, limit: Duration) -> Self {
        Self { body, account, limit, late: Box::pin(tokio::time::sleep(limit)) }
    }
}

impl hyper::body::Body for Paid {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                Poll::Ready(Some(self.account.charge(bytes).map(|()| frame).map_err(status)))
            }
            Poll::Ready(Some(Err(error))) => {
                Poll::Ready(Some(Err(Status::cancelled(format!("reading the call failed: {error}")))))
            }
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending if self.account.is_open() => self.late.as_mut().poll(context).map(|()| {
                let detail = format!("the message did not arrive within {} s", self.limit.as_secs());
                Some(Err(status(Problem::new(Kind::BodyTimeout, detail))))
            }),
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
