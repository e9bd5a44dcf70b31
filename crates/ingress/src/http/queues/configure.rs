//! Queues: create, configure, read, pause and resume.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use millstream_api::page::Page;
use millstream_api::queues::{NewWorkQueue, WorkQueue, WorkState};
use millstream_model::document::SourceFormat;
use millstream_model::id::Name;
use millstream_model::permission::Permission;
use millstream_model::quota::CountedQuota;
use millstream_model::raw::RawJson;
use millstream_people::assignment::{QueueConfig, QueueState};
use millstream_store::queue_store::{PutQueue, QueueView};

use super::config_view::queue_config_view;
use crate::auth::TenantCaller;
use crate::cursor::{self, CursorList};
use crate::http::body::{MediaType, read_body};
use crate::http::query::QueryParams;
use crate::http::route::Route;
use crate::http::views::page_of;
use crate::refusal::{RefusalKind, RequestRefusal};
use crate::state::IngressState;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::put("/v1/queues/{queue}", "put_queue", put_queue)
            .summary("Create a queue, or replace its configuration")
            .needs(Permission::ManageDefinitions)
            .accepts::<NewWorkQueue>()
            .accepts_in::<NewWorkQueue>("application/yaml")
            .returns::<WorkQueue>(201, "Created; the queue is active")
            .returns::<WorkQueue>(200, "Replaced; its items follow this configuration from now on")
            .problems(&[404])
            .leads_to("get_queue", &["queue"]),
        Route::get("/v1/queues", "list_queues", list_queues)
            .summary("Queues by name")
            .needs(Permission::ReadData)
            .query(&[("limit", "Limit"), ("cursor", "Cursor")])
            .returns::<Page<WorkQueue>>(200, "One page"),
        Route::get("/v1/queues/{queue}", "get_queue", get_queue)
            .summary("One queue and its configuration")
            .needs(Permission::ReadData)
            .returns::<WorkQueue>(200, "The queue")
            .problems(&[404]),
        Route::post("/v1/queues/{queue}/pause", "pause_queue", pause_queue)
            .summary("Pause a queue: no new assignments, open ones stay")
            .needs(Permission::Operate)
            .returns::<WorkQueue>(200, "Paused")
            .problems(&[404]),
        Route::post("/v1/queues/{queue}/resume", "resume_queue", resume_queue)
            .summary("Resume a queue: its items are assigned again")
            .needs(Permission::Operate)
            .returns::<WorkQueue>(200, "Resumed")
            .problems(&[404]),
    ]
}

fn queue_view(view: QueueView) -> WorkQueue<RawJson> {
    WorkQueue {
        queue: view.config.name.to_string(),
        state: work_state(view.state),
        created_at: view.created_at,
        updated_at: view.updated_at,
        config: queue_config_view(view.config),
    }
}

pub(in crate::http) fn work_state(state: QueueState) -> WorkState {
    match state {
        QueueState::Active => WorkState::Active,
        QueueState::Paused => WorkState::Paused,
    }
}

pub(super) fn parse_queue_name(text: &str) -> Result<Name, RequestRefusal> {
    Name::parse(text).map_err(|_| RequestRefusal::not_found("queue", text))
}

pub(super) async fn find_queue(
    door: &IngressState,
    caller: &TenantCaller,
    name: &Name,
) -> Result<QueueView, RequestRefusal> {
    let found = door.stores.queues.find_queues(&[(caller.tenant.clone(), name.clone())]).await?;
    found.into_iter().flatten().next().ok_or_else(|| RequestRefusal::not_found("queue", name))
}

async fn put_queue(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(name): Path<String>,
    params: QueryParams,
    request: Request,
) -> Result<(StatusCode, Json<WorkQueue<RawJson>>), RequestRefusal> {
    params.finish_params()?;
    let name = parse_queue_name(&name)?;
    let (parts, body) = request.into_parts();
    let format = match MediaType::of(&parts.headers, &[MediaType::Json, MediaType::Yaml])? {
        MediaType::Yaml => SourceFormat::Yaml,
        MediaType::Json | MediaType::Ndjson => SourceFormat::Json,
    };
    let limits = &door.options.limits;
    let body = read_body(&door, &parts, body, limits.definition_bytes).await?;
    let source = match format {
        SourceFormat::Json => body.json()?,
        SourceFormat::Yaml => body.text()?,
    };
    let (source, given) = (source.to_owned(), name.clone());
    // Compiling the rules may take long.
    let parsed =
        door.machines.compilations.run(move |_| QueueConfig::parse_named(&source, format, &given)).await;
    let config =
        parsed.map_err(|closed| RequestRefusal::new(RefusalKind::StoreUnavailable, closed.to_string()))??;
    if let Some(schema) = &config.schema {
        let checked = door.desk.schema_cache().check_schema(schema).await;
        checked.map_err(|fault| RequestRefusal::invalid(vec![fault]))?;
    }
    let known = async {
        let found = door.stores.queues.find_queues(&[(caller.tenant.clone(), name.clone())]).await?;
        Ok(found.into_iter().flatten().next().is_some())
    };
    door.admission.admit_known(&caller.tenant, CountedQuota::Queues, known).await?;
    let status = match door.stores.queues.put_queue(&caller.tenant, &config, door.clock.now()).await? {
        PutQueue::Created => StatusCode::CREATED,
        PutQueue::Changed | PutQueue::Same => StatusCode::OK,
    };
    Ok((status, Json(queue_view(find_queue(&door, &caller, &name).await?))))
}

async fn list_queues(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    mut params: QueryParams,
) -> Result<Json<Page<WorkQueue<RawJson>>>, RequestRefusal> {
    let limit = params.parse_limit(50, 500);
    let after = params.parse_cursor(CursorList::Queues, |name| Name::parse(name).ok());
    params.finish_params()?;
    let found = door.stores.queues.list_queues(&caller.tenant, after.as_ref(), limit + 1).await?;
    let cursor = |last: &QueueView| cursor::encode(CursorList::Queues, &last.config.name);
    Ok(Json(page_of(found, limit, cursor, queue_view)))
}

async fn get_queue(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(name): Path<String>,
    params: QueryParams,
) -> Result<Json<WorkQueue<RawJson>>, RequestRefusal> {
    params.finish_params()?;
    Ok(Json(queue_view(find_queue(&door, &caller, &parse_queue_name(&name)?).await?)))
}

async fn pause_queue(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(name): Path<String>,
    params: QueryParams,
) -> Result<Json<WorkQueue<RawJson>>, RequestRefusal> {
    params.finish_params()?;
    set_queue_state(&door, &caller, &name, QueueState::Paused).await
}

async fn resume_queue(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(name): Path<String>,
    params: QueryParams,
) -> Result<Json<WorkQueue<RawJson>>, RequestRefusal> {
    params.finish_params()?;
    set_queue_state(&door, &caller, &name, QueueState::Active).await
}

async fn set_queue_state(
    door: &IngressState,
    caller: &TenantCaller,
    name: &str,
    state: QueueState,
) -> Result<Json<WorkQueue<RawJson>>, RequestRefusal> {
    let name = parse_queue_name(name)?;
    door.stores.queues.set_queue_state(&caller.tenant, &name, state, door.clock.now()).await?;
    Ok(Json(queue_view(find_queue(door, caller, &name).await?)))
}
