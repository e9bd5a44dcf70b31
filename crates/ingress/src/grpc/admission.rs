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
use millstream_model::permission::Permission;
use tokio::time::Sleep;
use tonic::Status;

use super::methods::{self, MethodAccess, MethodAnswer};
use super::status::{refusal_response, status_of_refusal};
use super::whole_message::WholeMessage;
use crate::answer_body::{AnsweredCall, hold_answer};
use crate::auth::{TenantCaller, run_while_live};
use crate::body_budget::{BodyBudget, PaidBytes};
use crate::early_refusal::refuse_early;
use crate::gate::AnonymousBudget;
use crate::held_body::HeldBody;
use crate::metrics::InFlight;
use crate::quotas::{RepeatAnswer, RequestClass};
use crate::refusal::{RefusalKind, RequestRefusal};
use crate::state::IngressState;

/// Checks sizes and hosts, for every service.
pub(super) async fn check_call(
    State(door): State<Arc<IngressState>>,
    request: Request,
    next: Next,
) -> Response {
    match refuse_early(request.uri(), request.headers(), request.extensions(), &door).await {
        Some(refusal) => refusal_response(refusal),
        None => next.run(request).await,
    }
}

/// Authenticates the caller by the metadata and checks the permission of the method, before the call takes
/// a slot and before its message is read.
pub(super) async fn authenticate_call(
    State(door): State<Arc<IngressState>>,
    mut request: Request,
    next: Next,
) -> Response {
    let needs = match methods::access_of_method(request.uri().path()) {
        None => {
            return refusal_response(RequestRefusal::new(
                RefusalKind::NoRoute,
                "there is no such service or method",
            ));
        }
        Some(MethodAccess::Anonymous) => return next.run(request).await,
        Some(MethodAccess::Needs(permission)) => permission,
    };
    let answered = match door.auth.authorize_call(&mut request, needs).await {
        Ok(identity) => run_while_live(&door.auth.keys, identity.key(), next.run(request)).await,
        Err(refusal) => Err(refusal),
    };
    answered.unwrap_or_else(refusal_response)
}

/// Bounds the calls in flight and their bytes.
pub(super) async fn limit_in_flight(
    State(door): State<Arc<IngressState>>,
    mut request: Request,
    next: Next,
) -> Response {
    let needs = match methods::access_of_method(request.uri().path()) {
        Some(MethodAccess::Needs(permission)) => Some(permission),
        Some(MethodAccess::Anonymous) | None => None,
    };
    // Methods that create or edit answer repeats by the idempotency key in their metadata.
    let repeats = match needs {
        Some(Permission::PostEvents) => RepeatAnswer::ByKey,
        Some(_) | None => RepeatAnswer::None,
    };
    let class = RequestClass::of(needs, repeats, request.headers());
    let slot = match door.admission.request_slot(request.extensions().get::<TenantCaller>(), class) {
        Ok(slot) => slot,
        Err(refusal) => return refusal_response(refusal),
    };
    request.extensions_mut().insert(class);
    let bodies = door.bodies.for_caller(request.extensions());
    let (account, answers) =
        (GrpcByteAccount::new(bodies.clone()), methods::answer_of_method(request.uri().path()));
    let limit = door.options.limits.body_timeout;
    let mut request = request.map(|body| Body::new(ChargedBody::new(body, account.clone(), limit)));
    request.extensions_mut().insert(slot.clone());
    let counted = InFlight::begin();
    let answer = next.run(request).await;
    drop(counted);
    account.close_account();
    match answers {
        MethodAnswer::Stream => {
            slot.give_back();
            answer
        }
        MethodAnswer::Message => {
            let call = match needs {
                Some(Permission::ReadData) => AnsweredCall::Read,
                Some(_) | None => AnsweredCall::Act,
            };
            let (answer, bytes) = whole_answer(answer).await;
            hold_answer(answer, bytes, slot, &bodies, call).unwrap_or_else(refusal_response)
        }
    }
}

/// Encodes the answer and returns it with its length, which is unknown before the encoding.
async fn whole_answer(answer: Response) -> (Response, usize) {
    let (parts, body) = answer.into_parts();
    match WholeMessage::of(body).await {
        Ok((body, bytes)) => (Response::from_parts(parts, Body::new(body)), bytes),
        Err(error) => (
            refusal_response(RequestRefusal::new(
                RefusalKind::Internal,
                format!("reading the answer failed: {error}"),
            )),
            0,
        ),
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
pub(super) async fn limit_anonymous_calls(
    State(door): State<Arc<IngressState>>,
    request: Request,
    next: Next,
) -> Response {
    let budget = match request.uri().path() {
        "/grpc.health.v1.Health/Watch" => AnonymousBudget::HealthWatch,
        path if path.starts_with("/grpc.reflection.") => AnonymousBudget::Reflection,
        _ => AnonymousBudget::HealthCheck,
    };
    let permit = match door.admission.gate.admit_anonymous(budget) {
        Ok(permit) => permit,
        Err(refusal) => return refusal_response(refusal),
    };
    let limit = match budget {
        AnonymousBudget::HealthCheck
        | AnonymousBudget::HealthWatch
        | AnonymousBudget::Probe
        | AnonymousBudget::OpenApi => ANONYMOUS_MESSAGE.min(door.options.limits.body_timeout),
        AnonymousBudget::Reflection => REFLECTION_LIFE,
    };
    let account = GrpcByteAccount::new(BodyBudget::of(ANONYMOUS_BYTES, door.quotas.clone()));
    let answer = next.run(request.map(|body| Body::new(ChargedBody::new(body, account, limit)))).await;
    answer.map(|body| Body::new(HeldBody::new(body, permit)))
}

/// Bytes charged by a call; closed once the call is answered.
#[derive(Debug, Clone)]
struct GrpcByteAccount(Arc<Mutex<Option<OpenByteAccount>>>);

#[derive(Debug)]
struct OpenByteAccount {
    budget: BodyBudget,
    bytes: usize,
    kib: usize,
    paid: Vec<PaidBytes>,
}

impl GrpcByteAccount {
    fn new(budget: BodyBudget) -> Self {
        Self(Arc::new(Mutex::new(Some(OpenByteAccount { budget, bytes: 0, kib: 0, paid: Vec::new() }))))
    }

    fn close_account(&self) {
        *self.lock() = None;
    }

    fn is_open(&self) -> bool {
        self.lock().is_some()
    }

    fn charge_bytes(&self, bytes: usize) -> Result<(), RequestRefusal> {
        let mut lock = self.lock();
        let Some(open) = lock.as_mut() else { return Ok(()) };
        open.bytes += bytes;
        let due = open.bytes.div_ceil(1024) - open.kib;
        if due > 0 {
            let more = open.budget.charge_kib(due)?;
            open.kib += due;
            match open.paid.last_mut() {
                Some(paid) => paid.merge_charge(more),
                None => open.paid.push(more),
            }
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Option<OpenByteAccount>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request body that is charged as it arrives, with a deadline.
struct ChargedBody {
    body: Body,
    account: GrpcByteAccount,
    limit: Duration,
    late: Pin<Box<Sleep>>,
}

impl ChargedBody {
    fn new(body: Body, account: GrpcByteAccount, limit: Duration) -> Self {
        Self { body, account, limit, late: Box::pin(tokio::time::sleep(limit)) }
    }
}

impl hyper::body::Body for ChargedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                Poll::Ready(Some(self.account.charge_bytes(bytes).map(|()| frame).map_err(status_of_refusal)))
            }
            Poll::Ready(Some(Err(error))) => {
                Poll::Ready(Some(Err(Status::cancelled(format!("reading the call failed: {error}")))))
            }
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending if self.account.is_open() => self.late.as_mut().poll(context).map(|()| {
                let detail = format!("the message did not arrive within {} s", self.limit.as_secs());
                Some(Err(status_of_refusal(RequestRefusal::new(RefusalKind::BodyTimeout, detail))))
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
