//! Imports items into a queue: one, an array, or any number of lines (NDJSON).

use std::convert::Infallible;
use std::sync::Arc;

use axum::Json;
use axum::body::Body as Outgoing;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use millstream_core::id::ItemId;
use millstream_core::permission::Permission;
use millstream_core::quota::QuotaName;
use millstream_core::raw::RawJson;
use serde::Serialize;

use super::configure::{find, name_of};
use crate::auth::Caller;
use crate::body::{Allowance, Body, Media, PaidBytes};
use crate::door::Door;
use crate::http::batch::array;
use crate::http::problem::{Document, Problem};
use crate::http::route::Route;
use crate::people::importing::{Form, HELD_KIB, Import, LINE_BYTES, RefusedItem, Tally};
use crate::people::lines::{Line, Lines};
use crate::query::Params;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/queues/{queue}/items", "import_items", import)
            .summary("Import items into a queue; an item with identical content is a repeat")
            .needs(Permission::PostEvents)
            .body("application/json", "NewItems")
            .body("application/x-ndjson", "NewItem")
            .answer(
                200,
                "ImportReport",
                "The outcome; with Accept: application/x-ndjson, progress as the import runs",
            )
            .problems(&[404]),
    ]
}

/// The summary at the end of an import.
#[derive(Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    counts: Counts,
    refused: Vec<RefusedItem>,
    /// The ids of the items in the queue, unless the items were sent as lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    item_ids: Option<Vec<ItemId>>,
}

#[derive(Debug, Serialize)]
struct Counts {
    read: u64,
    created: u64,
    repeated: u64,
    /// The first of the rejected items.
    refused_count: u64,
}

impl From<&Tally> for Counts {
    fn from(tally: &Tally) -> Self {
        let Tally { read, created, repeated, refused } = *tally;
        Self { read, created, repeated, refused_count: refused }
    }
}

async fn import(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Path(name): Path<String>,
    params: Params,
    request: Request,
) -> Result<Response, Problem> {
    params.finish()?;
    let name = name_of(&name)?;
    let (parts, body) = request.into_parts();
    let media = Media::of(&parts.headers, &[Media::Json, Media::Ndjson])?;
    find(&door, &caller, &name).await?;
    let (limits, tenant) = (door.options.limits.clone(), caller.tenant);
    if media == Media::Ndjson {
        let paid = door.bodies.of_tenant(&tenant).pay(HELD_KIB)?;
        let quota = door.quotas.quota(&tenant).get(QuotaName::ImportDuration);
        let lines = Lines::of(body, LINE_BYTES, limits.body_timeout).within(quota);
        let going = Going { import: Import::new(door, tenant, name, Form::Lines), lines, paid };
        return if wants_progress(&parts.headers) { Ok(streamed(going)) } else { going.all().await };
    }
    let allowed = Allowance { bytes: limits.batch_bytes, time: limits.body_timeout };
    let body = Body::read(body, &parts.headers, allowed, &door.bodies.of_caller(&parts.extensions)).await?;
    let text = body.json()?;
    let alone = !text.starts_with('[');
    let texts = if alone { vec![text] } else { array(text, limits.batch_items)? };
    let mut import = Import::new(door, tenant, name, Form::Json);
    for text in texts {
        import.take(text).await?;
    }
    import.flush().await?;
    // A rejected item that was sent alone is the answer itself.
    if alone && let Some(refused) = import.refused.pop() {
        return Err(Problem::invalid(refused.problems));
    }
    Ok(Json(report(import)).into_response())
}

fn wants_progress(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("");
    accept.split(',').any(|one| one.split(';').next().unwrap_or("").trim() == "application/x-ndjson")
}

fn report(import: Import) -> Report {
    Report { counts: Counts::from(&import.tally), refused: import.refused, item_ids: import.ids }
}

/// An import that still receives lines.
struct Going {
    import: Import,
    lines: Lines,
    paid: PaidBytes,
}

impl Going {
    /// Reads lines until one batch is imported; `false` at the end of the lines.
    async fn on(&mut self) -> Result<bool, Problem> {
        while let Some(line) = self.lines.next().await? {
            let written = match line {
                Line::TooLong => {
                    self.import.skip(format!("the line has more than {LINE_BYTES} bytes"));
                    false
                }
                Line::Whole(line) => match std::str::from_utf8(&line) {
                    Ok(text) => self.import.take(text.trim()).await?,
                    Err(error) => {
                        self.import.skip(format!("the line is not UTF-8: {error}"));
                        false
                    }
                },
            };
            if written {
                return Ok(true);
            }
        }
        self.import.flush().await?;
        Ok(false)
    }

    async fn all(mut self) -> Result<Response, Problem> {
        while self.on().await? {}
        let answer = Json(report(self.import)).into_response();
        drop(self.paid);
        Ok(answer)
    }
}

/// A progress line, written after every batch.
#[derive(Debug, Serialize)]
struct Progress<'a> {
    #[serde(flatten)]
    tally: &'a Tally,
}

#[derive(Debug, Serialize)]
struct Last<'a> {
    done: bool,
    #[serde(flatten)]
    tally: &'a Tally,
    refusals: &'a [RefusedItem],
    /// Why the import ended before the last line; the items created until then stay.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<Document<'a>>,
}

fn streamed(going: Going) -> Response {
    let stream = futures::stream::unfold(Some(going), |going| async move {
        let mut going = going?;
        let went = going.on().await;
        let import = &going.import;
        let last = |done, problem| Last { done, tally: &import.tally, refusals: &import.refused, problem };
        let (line, next) = match &went {
            Ok(true) => (text(&Progress { tally: &import.tally }), true),
            Ok(false) => (text(&last(true, None)), false),
            Err(problem) => (text(&last(false, Some(problem.document()))), false),
        };
        Some((Ok::<Bytes, Infallible>(line), next.then_some(going)))
    });
    let mut response = Outgoing::from_stream(stream).into_response();
    let media = HeaderValue::from_static("application/x-ndjson");
    response.headers_mut().insert(header::CONTENT_TYPE, media);
    response
}

fn text<T: Serialize>(line: &T) -> Bytes {
    Bytes::from(format!("{}\n", RawJson::of(line).as_str()))
}
