//! Batching: many events in one request, as a JSON array or as one JSON document per line (NDJSON).
//!
//! Each item gets its own verdict, in order; the valid items become durable in one commit. Only a fault of
//! the batch as a whole (its size, its syntax, an unavailable store) fails the request.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use millstream_core::id::{ExecutionId, ExecutionKey};
use millstream_core::permission::Permission;
use millstream_core::problem::Problem as Fault;
use millstream_store::event_log::{Append, NewEvent};

use super::posting::{self, Draft, Said};
use super::problem::{Kind, Problem};
use super::route::Route;
use super::views::{AcceptedOut, Item, Items};
use crate::auth::Caller;
use crate::body::{Allowance, Body, Media};
use crate::door::Door;
use crate::fields::{self, Fields, ItemsError};
use crate::options::Limits;
use crate::query::Params;
use crate::trace::Trace;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/events", "post_events", post)
            .summary("Accept many events, for any executions, in one commit")
            .needs(Permission::PostEvents)
            .headers(&["traceparent", "x-request-id"])
            .body("application/json", "NewEventBatch")
            .body("application/x-ndjson", "NewEventLine")
            .answer(
                202,
                "EventVerdicts",
                "One verdict per item, in order; those with an event_id are durable",
            ),
    ]
}

async fn post(
    State(door): State<Arc<Door>>,
    caller: Caller,
    trace: Trace,
    params: Params,
    request: Request,
) -> Result<Response, Problem> {
    params.finish()?;
    let (parts, body) = request.into_parts();
    let media = Media::of(&parts.headers, &[Media::Json, Media::Ndjson])?;
    if parts.headers.contains_key("idempotency-key") {
        return Err(Problem::bad_request(
            "a batch takes an idempotency_key per item and no Idempotency-Key header",
        ));
    }
    let limits = &door.options.limits;
    let allowed = Allowance { bytes: limits.batch_bytes, time: limits.body_timeout };
    let body = Body::read(body, &parts.headers, allowed, &door.bodies.of_caller(&parts.extensions)).await?;
    let texts = match media {
        Media::Ndjson => lines(body.text()?, limits.batch_items)?,
        Media::Json | Media::Yaml => array(body.text()?, limits.batch_items)?,
    };

    let drafts: Vec<Result<Draft, Problem>> =
        texts.iter().enumerate().map(|(at, text)| draft(&caller, at, text, limits)).collect();
    let good: Vec<&Draft> = drafts.iter().filter_map(|draft| draft.as_ref().ok()).collect();
    let mut checked = posting::check(&door, &good).await?.into_iter();
    let bytes = good.iter().map(|draft| draft.payload.len()).sum();
    let over = door.admit_events(&caller.tenant, good.len(), bytes).await.err();
    if let Some(problem) = &over
        && good.iter().all(|draft| draft.idempotency_key.is_none())
    {
        return Err(problem.clone());
    }
    let items: Vec<Checked> = drafts
        .into_iter()
        .map(|draft| match draft {
            Err(problem) => Checked::Unreadable(problem),
            Ok(draft) => match checked.next() {
                Some(Ok(_)) => match &over {
                    Some(problem) => Checked::Refused(draft, problem.clone()),
                    None => Checked::Good(posting::new_event(&door, &caller, &trace, draft)),
                },
                Some(Err(problem)) => Checked::Refused(draft, problem),
                None => Checked::Unreadable(Problem::new(Kind::Internal, "the event was not checked")),
            },
        })
        .collect();

    let refused = items.iter().filter_map(|item| match item {
        Checked::Refused(draft, problem) => {
            Some((&draft.execution.tenant, draft.idempotency(), problem.clone()))
        }
        Checked::Good(_) | Checked::Unreadable(_) => None,
    });
    let mut recalled = posting::recall(&door, refused.collect()).await?.into_iter();
    let good = items.iter().filter_map(|item| match item {
        Checked::Good(event) => Some(Append::Event(event.clone())),
        Checked::Refused(..) | Checked::Unreadable(_) => None,
    });
    let mut verdicts = door.accept.submit(good.collect()).await?.into_iter();
    let silent = || Problem::new(Kind::Internal, "the store gave no verdict");
    let verdicts: Vec<Result<AcceptedOut, Problem>> = items
        .into_iter()
        .map(|item| {
            let (execution, (event_id, status)) = match item {
                Checked::Unreadable(problem) => return Err(problem),
                Checked::Refused(draft, _) => (draft.execution, recalled.next().ok_or_else(silent)??),
                Checked::Good(event) => {
                    let verdict = verdicts.next().ok_or_else(silent)?;
                    let accepted = posting::verdict(&door, &event, verdict)?;
                    (event.execution, accepted)
                }
            };
            Ok(AcceptedOut { event_id, execution_id: execution.execution, status })
        })
        .collect();
    let items = verdicts.iter().map(|verdict| match verdict {
        Ok(accepted) => Item::Good(accepted),
        Err(problem) => Item::Bad { problem: problem.document() },
    });
    Ok((StatusCode::ACCEPTED, Json(Items { items: items.collect() })).into_response())
}

/// An item of the batch after the checks.
enum Checked {
    Good(NewEvent),
    /// Rejected by the checks; its idempotency key may show that it was accepted before.
    Refused(Draft, Problem),
    Unreadable(Problem),
}

/// Splits a JSON array into its items.
pub(super) fn array(text: &str, limit: usize) -> Result<Vec<&str>, Problem> {
    fields::items(text, limit).map_err(|error| match error {
        ItemsError::Syntax(error) => {
            Problem::bad_request(format!("the body is not a valid JSON array: {error}"))
        }
        ItemsError::TooMany => too_many(limit),
    })
}

/// Splits the body into its non-empty lines.
fn lines(text: &str, limit: usize) -> Result<Vec<&str>, Problem> {
    let lines: Vec<&str> =
        text.lines().map(str::trim).filter(|line| !line.is_empty()).take(limit + 1).collect();
    if lines.len() > limit { Err(too_many(limit)) } else { Ok(lines) }
}

fn too_many(limit: usize) -> Problem {
    Problem::new(Kind::TooLarge, format!("a batch has at most {limit} items"))
}

fn draft(caller: &Caller, at: usize, text: &str, limits: &Limits) -> Result<Draft, Problem> {
    let path = format!("items[{at}]");
    let mut fields = Fields::of(text, &path).map_err(Problem::invalid)?;
    let id = fields.required("execution_id");
    let execution = fields.parsed("execution_id", id, |text| ExecutionId::parse(text));
    let said = posting::said(&mut fields, limits.payload_bytes)?;
    let key = fields.text("idempotency_key");
    let idempotency_key = fields.parsed("idempotency_key", key, posting::idempotency_key);
    fields.finish().map_err(Problem::invalid)?;
    match (execution, said) {
        (Some(execution), Some(Said { name, payload })) => {
            let execution = ExecutionKey { tenant: caller.tenant.clone(), execution };
            Ok(Draft { execution, name, payload, idempotency_key })
        }
        (None, _) | (_, None) => Err(Problem::invalid(vec![Fault::new(path, "is incomplete")])),
    }
}
