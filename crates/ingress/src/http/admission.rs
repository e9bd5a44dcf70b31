//! The layers of a route: size and host checks, authorization of the caller, and the limits on requests in
//! flight.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use millstream_model::permission::Permission;

use crate::answer_body::{AnswerHold, AnsweredCall, hold_answer, whole_bytes};
use crate::auth::{TenantCaller, run_while_live};
use crate::early_refusal::refuse_early;
use crate::gate::AnonymousBudget;
use crate::metrics::InFlight;
use crate::quotas::{RepeatAnswer, RequestClass};
use crate::state::IngressState;

/// Middleware for every path: checks sizes, hosts and connection limits.
pub(crate) async fn check_request(
    State(door): State<Arc<IngressState>>,
    request: Request,
    next: Next,
) -> Response {
    match refuse_early(request.uri(), request.headers(), request.extensions(), &door).await {
        Some(refusal) => refusal.into_response(),
        None => next.run(request).await,
    }
}

/// In front of a route: refuses a caller whose key does not permit what the route needs.
pub(crate) async fn authorize_request(
    State((door, needs)): State<(Arc<IngressState>, Permission)>,
    mut request: Request,
    next: Next,
) -> Response {
    let answered = match door.auth.authorize_call(&mut request, needs).await {
        Ok(identity) => run_while_live(&door.auth.keys, identity.key(), next.run(request)).await,
        Err(refusal) => Err(refusal),
    };
    answered.unwrap_or_else(IntoResponse::into_response)
}

/// Middleware: bounds the requests in flight. Health and metrics are exempt.
pub(crate) async fn limit_in_flight(
    State((door, needs, repeats)): State<(Arc<IngressState>, Option<Permission>, RepeatAnswer)>,
    mut request: Request,
    next: Next,
) -> Response {
    let class = RequestClass::of(needs, repeats, request.headers());
    let slot = match door.admission.request_slot(request.extensions().get::<TenantCaller>(), class) {
        Ok(slot) => slot,
        Err(refusal) => return refusal.into_response(),
    };
    request.extensions_mut().insert(slot.clone());
    request.extensions_mut().insert(class);
    let bodies = door.bodies.for_caller(request.extensions());
    let call = if request.method().is_safe() { AnsweredCall::Read } else { AnsweredCall::Act };
    let counted = InFlight::begin();
    let response = next.run(request).await;
    drop(counted);
    match whole_bytes(response.body()) {
        Some(bytes) => {
            hold_answer(response, bytes, slot, &bodies, call).unwrap_or_else(IntoResponse::into_response)
        }
        None => {
            slot.give_back();
            response
        }
    }
}

/// Middleware: bounds anonymous HTTP calls by the budget of their kind.
pub(crate) async fn limit_anonymous_calls(
    State((door, budget)): State<(Arc<IngressState>, AnonymousBudget)>,
    request: Request,
    next: Next,
) -> Response {
    let place = match door.admission.gate.admit_anonymous(budget) {
        Ok(place) => place,
        Err(refusal) => return refusal.into_response(),
    };
    let mut response = next.run(request).await;
    match budget {
        // Short answers: a client that does not read one must not occupy the place of the next probe.
        AnonymousBudget::Probe => drop(place),
        AnonymousBudget::OpenApi
        | AnonymousBudget::HealthCheck
        | AnonymousBudget::HealthWatch
        | AnonymousBudget::Reflection => {
            response.extensions_mut().insert(AnswerHold::of_anonymous(place));
        }
    }
    response
}
