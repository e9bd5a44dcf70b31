//! Batching of starts: an array of starts in one request.
//!
//! The starts are parsed, admitted with one query to the store, decided, and made durable together. An array
//! waits for no outcome: its answer reports what became durable.

use std::collections::HashMap;

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use millstream_api::verdicts::{Verdict, Verdicts};
use millstream_model::id::Name;
use millstream_store::event_log::AppendRequest;

use super::batch;
use super::problem::problem_document;
use super::start::{self, StartOutcome};
use crate::admission::StartCharge;
use crate::auth::TenantCaller;
use crate::refusal::{RefusalKind, RequestRefusal};
use crate::state::IngressState;
use crate::submit::start_decision::{self, FoundMachine, PendingStart, ReadyStart};
use crate::trace::TraceContext;

/// One verdict per item, in order.
pub(super) async fn start_many(
    door: &IngressState,
    caller: &TenantCaller,
    trace: &TraceContext,
    text: &str,
) -> Result<Response, RequestRefusal> {
    let limits = &door.options.limits;
    // One lookup time for all items: the latest version of a definition is read once.
    let mut latest: HashMap<Name, FoundMachine> = HashMap::new();
    let mut prepared: Vec<Result<PendingStart, RequestRefusal>> = Vec::new();
    for (at, item) in batch::split_json_array(text, limits.batch_items)?.into_iter().enumerate() {
        let pending = match start::read_start(item, &format!("items[{at}]"), limits) {
            Ok(wish) => {
                let known = latest.get(&wish.definition).filter(|_| wish.version.is_none()).cloned();
                let found = match known {
                    Some(found) => Ok(found),
                    None => start_decision::find_start_machine(&door.submit, caller, &wish).await,
                };
                if let (Ok(found), None) = (&found, wish.version) {
                    latest.insert(wish.definition.clone(), found.clone());
                }
                found.and_then(|found| PendingStart::new(&door.submit, caller, wish, None, found))
            }
            Err(problem) => Err(problem),
        };
        match pending {
            // An unavailable store is not a fault of the item.
            Err(problem) if problem.kind == RefusalKind::StoreUnavailable => return Err(problem),
            pending => prepared.push(pending),
        }
    }
    let charges = prepared.iter().filter_map(|pending| pending.as_ref().ok()).map(PendingStart::charge);
    let charges: Vec<StartCharge> = charges.collect();
    let mut admitted = door.admission.admit_starts(&caller.tenant, &charges).await?.into_iter();
    let silent = || RequestRefusal::new(RefusalKind::Internal, "the start was not decided");
    let prepared = prepared.into_iter().map(|pending| {
        let pending = pending?;
        admitted.next().ok_or_else(silent)?.map(|()| pending)
    });
    let (mut pending, mut refused) = (Vec::new(), Vec::new());
    for prepared in prepared {
        match prepared {
            Ok(start) => {
                pending.push(start);
                refused.push(None);
            }
            Err(problem) => refused.push(Some(problem)),
        }
    }
    let mut decided = start_decision::decide_starts(&door.submit, caller, trace, pending).await.into_iter();
    let prepared = refused.into_iter().map(|refused| match refused {
        Some(problem) => Err(problem),
        None => decided.next().unwrap_or_else(|| Err(silent())),
    });
    let prepared: Vec<Result<ReadyStart, RequestRefusal>> = prepared.collect();
    let items = prepared.iter().filter_map(|ready| ready.as_ref().ok());
    let items = items.map(|ready| AppendRequest::Start(Box::new(ready.new.clone()))).collect();
    let mut verdicts = door.accept.submit_batch(items).await?.into_iter();

    let mut created = StatusCode::OK;
    let mut items = Vec::with_capacity(prepared.len());
    for ready in prepared {
        let outcome = match ready {
            Err(problem) => Err(problem),
            Ok(ready) => match verdicts.next() {
                Some(verdict) => start::conclude_start(door, &ready, verdict).await,
                None => Err(RequestRefusal::new(RefusalKind::Internal, "the store gave no verdict")),
            },
        };
        if let Ok((StartOutcome::Created, _)) = &outcome {
            created = StatusCode::CREATED;
        }
        items.push(Verdict::from(outcome.map(|(_, execution)| execution).map_err(problem_document)));
    }
    Ok((created, Json(Verdicts { items })).into_response())
}
