//! Access from outside to the ingresses: HTTP to the real router of an ingress, without a socket.
//!
//! A request can get lost on its way, and so can its answer; a dead ingress does not answer.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderValue, Request, StatusCode, header};
use serde_json::Value;
use tower::ServiceExt;

use crate::dice::SimDice;
use crate::process::SimIngress;
use crate::tally::SimCount;
use crate::tenants::SimTenant;
use crate::world::SimWorld;

/// Client timeout of a request.
const PATIENCE: Duration = Duration::from_secs(4);
const LONGEST_ANSWER: usize = 1 << 20;

pub(crate) type IngressSlots = Arc<Vec<Arc<Mutex<Option<SimIngress>>>>>;

/// An answer, if there is one.
pub(crate) type SimReply = Option<(StatusCode, Value)>;

#[derive(Debug)]
pub(crate) struct SimWire {
    pub(crate) world: Arc<SimWorld>,
    doors: IngressSlots,
    tenant: SimTenant,
    pub(crate) dice: SimDice,
}

impl SimWire {
    pub(crate) fn new(world: &Arc<SimWorld>, doors: &IngressSlots) -> Self {
        Self::of_tenant(world, doors, SimTenant::Quiet)
    }

    pub(crate) fn of_tenant(world: &Arc<SimWorld>, doors: &IngressSlots, tenant: SimTenant) -> Self {
        Self {
            world: Arc::clone(world),
            doors: Arc::clone(doors),
            tenant,
            dice: world.dice.independent_stream(),
        }
    }

    /// Repeats until there is a definite answer; occasionally gives up.
    pub(crate) async fn until_answered(&self, request: impl Fn() -> Request<Body>) -> SimReply {
        for tries in 0..200 {
            if tries > 0 {
                self.world.count(SimCount::PostedAgain);
                tokio::time::sleep(self.dice.millis(20, 600)).await;
            }
            match self.exchange_request(request()).await {
                Some((status, body)) if !is_doubtful(status) => {
                    if tries > 0 && status.is_success() {
                        self.world.count(SimCount::AnsweredAsRepeat);
                    }
                    return Some((status, body));
                }
                Some(_) | None if tries > 0 && self.dice.one_in(12) => return None,
                Some(_) | None => {}
            }
        }
        None
    }

    /// One request and its answer, if it arrives.
    pub(crate) async fn exchange_request(&self, request: Request<Body>) -> SimReply {
        let world = &self.world;
        world.count(SimCount::Posts);
        let door = self.doors.get(self.dice.index(self.doors.len()))?;
        let door = door.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        tokio::time::sleep(world.draw_delay()).await;
        if world.draws_fault(world.plan.rates.lost_request) {
            world.count(SimCount::RequestLost);
            return None;
        }
        let answered = async {
            door.role.wait_while_frozen().await;
            let mut request = request;
            request.headers_mut().insert(header::HOST, HeaderValue::from_static("localhost"));
            if world.plan.tenants.len() > 1
                && let Ok(key) = HeaderValue::try_from(format!("Bearer {}", self.tenant.secret()))
            {
                request.headers_mut().insert(header::AUTHORIZATION, key);
            }
            let response = door.router.clone().oneshot(request).await.ok()?;
            let status = response.status();
            let bytes = to_bytes(response.into_body(), LONGEST_ANSWER).await.ok()?;
            door.role.wait_while_frozen().await;
            Some((status, serde_json::from_slice(&bytes).unwrap_or(Value::Null)))
        };
        let heard = tokio::select! {
            biased;
            () = door.role.wait_until_dead() => None,
            heard = tokio::time::timeout(PATIENCE, answered) => heard.ok().flatten(),
        };
        if world.draws_fault(world.plan.rates.lost_answer) {
            world.count(SimCount::AnswerLost);
            return None;
        }
        tokio::time::sleep(world.draw_delay()).await;
        heard
    }
}

pub(crate) fn get_request(path: &str) -> Request<Body> {
    Request::get(path).body(Body::empty()).unwrap_or_default()
}

pub(crate) fn post_request(path: &str, key: Option<&str>, media: &str, body: String) -> Request<Body> {
    let mut request = Request::post(path).header(header::CONTENT_TYPE, media);
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    request.body(Body::from(body)).unwrap_or_default()
}

pub(crate) fn post_json(path: &str, body: &Value) -> Request<Body> {
    post_request(path, None, "application/json", body.to_string())
}

/// Whether the post may or may not have become durable.
pub(crate) fn is_doubtful(status: StatusCode) -> bool {
    status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS
}
