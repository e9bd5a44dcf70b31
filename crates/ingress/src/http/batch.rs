//! Batching: many events in one request, as a JSON array or as one JSON document per line (NDJSON).
//!
//! Each item gets its own verdict, in order; the valid items become durable in one commit. Only a fault of
//! the batch as a whole (its size, its syntax, an unavailable store) fails the request.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use millstream_api::events::{AcceptedEvent, EventLine, EventLines};
use millstream_api::verdicts::{Verdict, Verdicts};
use millstream_model::id::{ExecutionId, ExecutionKey};
use millstream_model::permission::Permission;
use millstream_model::problem::ValidationProblem as Fault;
use millstream_store::event_log::{AppendRequest, EventSubmission};

use super::problem::problem_document;
use super::route::Route;
use super::views;
use crate::auth::TenantCaller;
use crate::http::body::{MediaType, read_body};
use crate::http::event_fields;
use crate::http::fields::{self, ItemsError, JsonFields};
use crate::http::query::QueryParams;
use crate::options::IngressLimits;
use crate::refusal::{RefusalKind, RequestRefusal};
use crate::state::IngressState;
use crate::submit::event_draft::{self, EventContent, EventDraft};
use crate::submit::idempotency_key;
use crate::trace::TraceContext;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/events", "post_events", post_events)
            .summary("Accept many events, for any executions, in one commit")
            .needs(Permission::PostEvents)
            .headers(&["traceparent", "x-request-id"])
            .accepts::<EventLines>()
            .accepts_in::<EventLine>("application/x-ndjson")
            .returns::<Verdicts<AcceptedEvent>>(
                202,
                "One verdict per item, in order; those with an event_id are durable",
            ),
    ]
}

async fn post_events(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    trace: TraceContext,
    params: QueryParams,
    request: Request,
) -> Result<Response, RequestRefusal> {
    params.finish_params()?;
    let (parts, body) = request.into_parts();
    let media = MediaType::of(&parts.headers, &[MediaType::Json, MediaType::Ndjson])?;
    if parts.headers.contains_key("idempotency-key") {
        return Err(RequestRefusal::bad_request(
            "a batch takes an idempotency_key per item and no Idempotency-Key header",
        ));
    }
    let limits = &door.options.limits;
    let body = read_body(&door, &parts, body, limits.batch_bytes).await?;
    let texts = match media {
        MediaType::Ndjson => split_lines(body.text()?, limits.batch_items)?,
        MediaType::Json | MediaType::Yaml => split_json_array(body.text()?, limits.batch_items)?,
    };

    let drafts: Vec<Result<EventDraft, RequestRefusal>> =
        texts.iter().enumerate().map(|(at, text)| parse_batch_item(&caller, at, text, limits)).collect();
    let good: Vec<&EventDraft> = drafts.iter().filter_map(|draft| draft.as_ref().ok()).collect();
    let mut checked = event_draft::check_drafts(&door.submit, &good).await?.into_iter();
    let bytes = good.iter().map(|draft| draft.payload.len()).sum();
    let over = door.admission.admit_events(&caller.tenant, good.len(), bytes).await.err();
    if let Some(problem) = &over
        && good.iter().all(|draft| draft.idempotency_key.is_none())
    {
        return Err(problem.clone());
    }
    let items: Vec<CheckedEvent> = drafts
        .into_iter()
        .map(|draft| match draft {
            Err(problem) => CheckedEvent::Unreadable(problem),
            Ok(draft) => match checked.next() {
                Some(Ok(_)) => match &over {
                    Some(problem) => CheckedEvent::Refused(draft, problem.clone()),
                    None => CheckedEvent::Good(event_draft::new_event(&door.submit, &caller, &trace, draft)),
                },
                Some(Err(problem)) => CheckedEvent::Refused(draft, problem),
                None => CheckedEvent::Unreadable(RequestRefusal::new(
                    RefusalKind::Internal,
                    "the event was not checked",
                )),
            },
        })
        .collect();

    let refused = items.iter().filter_map(|item| match item {
        CheckedEvent::Refused(draft, problem) => {
            Some((&draft.execution.tenant, draft.idempotency(), problem.clone()))
        }
        CheckedEvent::Good(_) | CheckedEvent::Unreadable(_) => None,
    });
    let mut recalled = event_draft::recall_accepted(&door.submit, refused.collect()).await?.into_iter();
    let good = items.iter().filter_map(|item| match item {
        CheckedEvent::Good(event) => Some(AppendRequest::Event(event.clone())),
        CheckedEvent::Refused(..) | CheckedEvent::Unreadable(_) => None,
    });
    let mut verdicts = door.accept.submit_batch(good.collect()).await?.into_iter();
    let silent = || RequestRefusal::new(RefusalKind::Internal, "the store gave no verdict");
    let mut accept = |item| -> Result<AcceptedEvent, RequestRefusal> {
        let (execution, (event_id, status)) = match item {
            CheckedEvent::Unreadable(problem) => return Err(problem),
            CheckedEvent::Refused(draft, _) => (draft.execution, recalled.next().ok_or_else(silent)??),
            CheckedEvent::Good(event) => {
                let verdict = verdicts.next().ok_or_else(silent)?;
                let accepted = event_draft::accepted_event(&door.submit, &event, verdict)?;
                (event.execution, accepted)
            }
        };
        Ok(views::accepted_event(event_id, &execution, status))
    };
    let items = items.into_iter().map(|item| Verdict::from(accept(item).map_err(problem_document)));
    Ok((StatusCode::ACCEPTED, Json(Verdicts { items: items.collect() })).into_response())
}

/// An item of the batch after the checks.
enum CheckedEvent {
    Good(EventSubmission),
    /// Rejected by the checks; its idempotency key may show that it was accepted before.
    Refused(EventDraft, RequestRefusal),
    Unreadable(RequestRefusal),
}

/// Splits a JSON array into its items.
pub(super) fn split_json_array(text: &str, limit: usize) -> Result<Vec<&str>, RequestRefusal> {
    fields::split_array(text, limit).map_err(|error| match error {
        ItemsError::Syntax(error) => {
            RequestRefusal::bad_request(format!("the body is not a valid JSON array: {error}"))
        }
        ItemsError::TooMany => batch_too_large(limit),
    })
}

/// Splits the body into its non-empty lines.
fn split_lines(text: &str, limit: usize) -> Result<Vec<&str>, RequestRefusal> {
    let lines: Vec<&str> =
        text.lines().map(str::trim).filter(|line| !line.is_empty()).take(limit + 1).collect();
    if lines.len() > limit { Err(batch_too_large(limit)) } else { Ok(lines) }
}

fn batch_too_large(limit: usize) -> RequestRefusal {
    RequestRefusal::new(RefusalKind::TooLarge, format!("a batch has at most {limit} items"))
}

fn parse_batch_item(
    caller: &TenantCaller,
    at: usize,
    text: &str,
    limits: &IngressLimits,
) -> Result<EventDraft, RequestRefusal> {
    let path = format!("items[{at}]");
    let mut fields = JsonFields::of(text, &path).map_err(RequestRefusal::invalid)?;
    let id = fields.required_text("execution_id");
    let execution = fields.parse_text("execution_id", id, |text| ExecutionId::parse(text));
    let said = event_fields::read_event_content(&mut fields, limits.payload_bytes)?;
    let key = fields.take_text("idempotency_key");
    let idempotency_key = fields.parse_text("idempotency_key", key, idempotency_key::parse_idempotency_key);
    fields.finish_fields().map_err(RequestRefusal::invalid)?;
    match (execution, said) {
        (Some(execution), Some(EventContent { name, payload })) => {
            let execution = ExecutionKey { tenant: caller.tenant.clone(), execution };
            Ok(EventDraft { execution, name, payload, idempotency_key })
        }
        (None, _) | (_, None) => Err(RequestRefusal::invalid(vec![Fault::new(path, "is incomplete")])),
    }
}
