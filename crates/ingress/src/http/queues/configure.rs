//! Queues: create, configure, read, pause and resume.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use millstream_core::assignment::{QueueConfig, QueueState};
use millstream_core::definition::Format;
use millstream_core::id::Name;
use millstream_core::permission::Permission;
use millstream_core::quota::CountedQuota;
use millstream_core::time::Timestamp;
use millstream_store::queue_store::{PutQueue, QueueView};
use serde::Serialize;

use crate::auth::Caller;
use crate::body::{Allowance, Body, Media};
use crate::cursor::{self, List};
use crate::door::Door;
use crate::http::problem::Problem;
use crate::http::route::Route;
use crate::http::views::Page;
use crate::query::Params;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::put("/v1/queues/{queue}", "put_queue", put)
            .summary("Create a queue, or replace its configuration")
            .needs(Permission::ManageDefinitions)
            .body("application/json", "QueueConfig")
            .body("application/yaml", "QueueConfig")
            .answer(201, "Queue", "Created; the queue is active")
            .answer(200, "Queue", "Replaced; its items follow this configuration from now on")
            .problems(&[404])
            .leads_to("get_queue", &["queue"]),
        Route::get("/v1/queues", "list_queues", list)
            .summary("Queues by name")
            .needs(Permission::ReadData)
            .query(&[("limit", "Limit"), ("cursor", "Cursor")])
            .answer(200, "QueuePage", "One page"),
        Route::get("/v1/queues/{queue}", "get_queue", get)
            .summary("One queue and its configuration")
            .needs(Permission::ReadData)
            .answer(200, "Queue", "The queue")
            .problems(&[404]),
        Route::post("/v1/queues/{queue}/pause", "pause_queue", pause)
            .summary("Pause a queue: no new assignments, open ones stay")
            .needs(Permission::Operate)
            .answer(200, "Queue", "Paused")
            .problems(&[404]),
        Route::post("/v1/queues/{queue}/resume", "resume_queue", resume)
            .summary("Resume a queue: its items are assigned again")
            .needs(Permission::Operate)
            .answer(200, "Queue", "Resumed")
            .problems(&[404]),
    ]
}

#[derive(Debug, Serialize)]
struct QueueOut {
    queue: Name,
    state: QueueState,
    created_at: Timestamp,
    updated_at: Timestamp,
    /// The configuration with every default spelled out.
    config: QueueConfig,
}

impl From<QueueView> for QueueOut {
    fn from(view: QueueView) -> Self {
        Self {
            queue: view.config.name.clone(),
            state: view.state,
            created_at: view.created_at,
            updated_at: view.updated_at,
            config: view.config,
        }
    }
}

pub(super) fn name_of(text: &str) -> Result<Name, Problem> {
    Name::parse(text).map_err(|_| Problem::not_found("queue", text))
}

pub(super) async fn find(door: &Door, caller: &Caller, name: &Name) -> Result<QueueView, Problem> {
    let found = door.stores.queues.queues(&[(caller.tenant.clone(), name.clone())]).await?;
    found.into_iter().flatten().next().ok_or_else(|| Problem::not_found("queue", name))
}

async fn put(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Path(name): Path<String>,
    params: Params,
    request: Request,
) -> Result<(StatusCode, Json<QueueOut>), Problem> {
    params.finish()?;
    let name = name_of(&name)?;
    let (parts, body) = request.into_parts();
    let format = match Media::of(&parts.headers, &[Media::Json, Media::Yaml])? {
        Media::Yaml => Format::Yaml,
        Media::Json | Media::Ndjson => Format::Json,
    };
    let limits = &door.options.limits;
    let allowed = Allowance { bytes: limits.definition_bytes, time: limits.body_timeout };
    let body = Body::read(body, &parts.headers, allowed, &door.bodies.of_caller(&parts.extensions)).await?;
    let source = match format {
        Format::Json => body.json()?,
        Format::Yaml => body.text()?,
    };
    let config = QueueConfig::parse_named(source, format, &name)?;
    if let Some(schema) = &config.schema {
        let checked = door.desk.schemas().check(schema).await;
        checked.map_err(|fault| Problem::invalid(vec![fault]))?;
    }
    let known = async {
        let found = door.stores.queues.queues(&[(caller.tenant.clone(), name.clone())]).await?;
        Ok(found.into_iter().flatten().next().is_some())
    };
    door.admit_known(&caller.tenant, CountedQuota::Queues, known).await?;
    let status = match door.stores.queues.put_queue(&caller.tenant, &config, door.clock.now()).await? {
        PutQueue::Created => StatusCode::CREATED,
        PutQueue::Changed | PutQueue::Same => StatusCode::OK,
    };
    Ok((status, Json(find(&door, &caller, &name).await?.into())))
}

async fn list(
    State(door): State<Arc<Door>>,
    caller: Caller,
    mut params: Params,
) -> Result<Json<Page<QueueOut>>, Problem> {
    let limit = params.limit(50, 500);
    let after = params.cursor(List::Queues, |name| Name::parse(name).ok());
    params.finish()?;
    let found = door.stores.queues.list_queues(&caller.tenant, after.as_ref(), limit + 1).await?;
    let cursor = |last: &QueueView| cursor::encode(List::Queues, &last.config.name);
    Ok(Json(Page::of(found, limit, cursor, QueueOut::from)))
}

async fn get(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Path(name): Path<String>,
    params: Params,
) -> Result<Json<QueueOut>, Problem> {
    params.finish()?;
    Ok(Json(find(&door, &caller, &name_of(&name)?).await?.into()))
}

async fn pause(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Path(name): Path<String>,
    params: Params,
) -> Result<Json<QueueOut>, Problem> {
    params.finish()?;
    set(&door, &caller, &name, QueueState::Paused).await
}

async fn resume(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Path(name): Path<String>,
    params: Params,
) -> Result<Json<QueueOut>, Problem> {
    params.finish()?;
    set(&door, &caller, &name, QueueState::Active).await
}

async fn set(door: &Door, caller: &Caller, name: &str, state: QueueState) -> Result<Json<QueueOut>, Problem> {
    let name = name_of(name)?;
    door.stores.queues.set_queue_state(&caller.tenant, &name, state, door.clock.now()).await?;
    Ok(Json(find(door, caller, &name).await?.into()))
}
