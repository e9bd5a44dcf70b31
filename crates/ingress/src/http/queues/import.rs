//! Imports items into a queue: one, an array, or any number of lines (NDJSON).

use std::convert::Infallible;
use std::sync::Arc;

use axum::Json;
use axum::body::Body as Outgoing;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use millstream_api::item_import::{ImportReport, ItemProblem, NewWorkItem, NewWorkItems, RefusedItem};
use millstream_api::problem::Problem;
use millstream_model::permission::Permission;
use millstream_model::problem::ValidationProblem as Fault;
use millstream_model::quota::QuotaName;
use millstream_model::raw::RawJson;
use serde::Serialize;

use super::body_lines::{BodyLine, BodyLines};
use super::configure::{find_queue, parse_queue_name};
use super::item_fields::read_item;
use crate::auth::TenantCaller;
use crate::body_budget::PaidBytes;
use crate::http::batch::split_json_array;
use crate::http::body::{MediaType, read_body};
use crate::http::problem::problem_document;
use crate::http::query::QueryParams;
use crate::http::route::Route;
use crate::people::importing::{HELD_KIB, ImportDeps, ImportFormat, ImportTally, ItemImport, LINE_BYTES};
use crate::refusal::RequestRefusal;
use crate::state::IngressState;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/queues/{queue}/items", "import_items", import_items)
            .summary("Import items into a queue; an item with identical content is a repeat")
            .needs(Permission::PostEvents)
            .accepts::<NewWorkItems>()
            .accepts_in::<NewWorkItem>("application/x-ndjson")
            .returns::<ImportReport>(
                200,
                "The outcome; with Accept: application/x-ndjson, progress as the import runs",
            )
            .problems(&[404]),
    ]
}

async fn import_items(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(name): Path<String>,
    params: QueryParams,
    request: Request,
) -> Result<Response, RequestRefusal> {
    params.finish_params()?;
    let name = parse_queue_name(&name)?;
    let (parts, body) = request.into_parts();
    let media = MediaType::of(&parts.headers, &[MediaType::Json, MediaType::Ndjson])?;
    find_queue(&door, &caller, &name).await?;
    let (limits, tenant) = (door.options.limits.clone(), caller.tenant);
    if media == MediaType::Ndjson {
        let paid = door.bodies.for_tenant(&tenant).charge_kib(HELD_KIB)?;
        let quota = door.quotas.quota_of(&tenant).get(QuotaName::ImportDuration);
        let lines = BodyLines::of(body, LINE_BYTES, limits.body_timeout).within_quota(quota);
        let going = LineImport {
            import: ItemImport::new(import_deps(&door), tenant, name, ImportFormat::Lines),
            lines,
            paid,
        };
        return if wants_progress(&parts.headers) {
            Ok(stream_import(going))
        } else {
            going.import_all().await
        };
    }
    let body = read_body(&door, &parts, body, limits.batch_bytes).await?;
    let text = body.json()?;
    let alone = !text.starts_with('[');
    let texts = if alone { vec![text] } else { split_json_array(text, limits.batch_items)? };
    let mut import = ItemImport::new(import_deps(&door), tenant, name, ImportFormat::Json);
    for text in texts {
        let item = read_item(text, &import.tenant, &import.queue);
        import.take_item(item).await?;
    }
    import.flush_batch().await?;
    // A rejected item that was sent alone is the answer itself.
    if alone && let Some(refused) = import.refused.pop() {
        let faults = refused.problems.into_iter();
        let faults = faults.map(|ItemProblem { path, message }| Fault { path, message });
        return Err(RequestRefusal::invalid(faults.collect()));
    }
    Ok(Json(import_report(import)).into_response())
}

fn import_deps(door: &IngressState) -> ImportDeps {
    ImportDeps { items: door.stores.items.clone(), quotas: door.quotas.clone(), clock: door.clock.clone() }
}

fn wants_progress(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("");
    accept.split(',').any(|one| one.split(';').next().unwrap_or("").trim() == "application/x-ndjson")
}

fn import_report(import: ItemImport) -> ImportReport {
    let ImportTally { read, created, repeated, refused } = import.tally;
    let item_ids = import.ids.map(|ids| ids.iter().map(ToString::to_string).collect());
    ImportReport { read, created, repeated, refused_count: refused, refused: import.refused, item_ids }
}

/// An import that still receives lines.
struct LineImport {
    import: ItemImport,
    lines: BodyLines,
    paid: PaidBytes,
}

impl LineImport {
    /// Reads lines until one batch is imported; `false` at the end of the lines.
    async fn import_batch(&mut self) -> Result<bool, RequestRefusal> {
        while let Some(line) = self.lines.next_line().await? {
            let written = match line {
                BodyLine::TooLong => {
                    self.import.skip_item(format!("the line has more than {LINE_BYTES} bytes"));
                    false
                }
                BodyLine::Whole(line) => match std::str::from_utf8(&line) {
                    Ok(text) => {
                        let item = read_item(text.trim(), &self.import.tenant, &self.import.queue);
                        self.import.take_item(item).await?
                    }
                    Err(error) => {
                        self.import.skip_item(format!("the line is not UTF-8: {error}"));
                        false
                    }
                },
            };
            if written {
                return Ok(true);
            }
        }
        self.import.flush_batch().await?;
        Ok(false)
    }

    async fn import_all(mut self) -> Result<Response, RequestRefusal> {
        while self.import_batch().await? {}
        let answer = Json(import_report(self.import)).into_response();
        drop(self.paid);
        Ok(answer)
    }
}

/// A progress line, written after every batch.
#[derive(Debug, Serialize)]
struct ImportProgress<'a> {
    #[serde(flatten)]
    tally: &'a ImportTally,
}

#[derive(Debug, Serialize)]
struct ImportSummary<'a> {
    done: bool,
    #[serde(flatten)]
    tally: &'a ImportTally,
    refusals: &'a [RefusedItem],
    /// Why the import ended before the last line; the items created until then stay.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<Problem>,
}

fn stream_import(going: LineImport) -> Response {
    let stream = futures::stream::unfold(Some(going), |going| async move {
        let mut going = going?;
        let went = going.import_batch().await;
        let import = &going.import;
        let last =
            |done, problem| ImportSummary { done, tally: &import.tally, refusals: &import.refused, problem };
        let (line, next) = match went {
            Ok(true) => (ndjson_line(&ImportProgress { tally: &import.tally }), true),
            Ok(false) => (ndjson_line(&last(true, None)), false),
            Err(problem) => (ndjson_line(&last(false, Some(problem_document(problem)))), false),
        };
        Some((Ok::<Bytes, Infallible>(line), next.then_some(going)))
    });
    let mut response = Outgoing::from_stream(stream).into_response();
    let media = HeaderValue::from_static("application/x-ndjson");
    response.headers_mut().insert(header::CONTENT_TYPE, media);
    response
}

fn ndjson_line<T: Serialize>(line: &T) -> Bytes {
    Bytes::from(format!("{}\n", RawJson::from_value(line).as_str()))
}
