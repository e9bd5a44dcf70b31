//! Executors over HTTP: register, list, deregister.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use millstream_api::executors::{ExecutorRegistration, ExecutorView, NewExecutor};
use millstream_api::page::Page;
use millstream_model::id::Name;
use millstream_model::permission::Permission;
use millstream_model::problem::ValidationProblem as Fault;
use millstream_rpc::proto;
use millstream_rpc::read::read_executor;
use serde::Deserialize;

use super::graphs::json::decode_json;
use super::route::Route;
use crate::auth::TenantCaller;
use crate::graphs::executors;
use crate::http::body::read_json_body;
use crate::http::query::QueryParams;
use crate::refusal::RequestRefusal;
use crate::state::IngressState;

const BODY_BYTES: usize = 64 * 1024;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/executors", "register_executor", register_executor)
            .summary("Register an executor, or renew its registration")
            .needs(Permission::RegisterExecutor)
            .accepts::<NewExecutor>()
            .returns::<ExecutorRegistration>(200, "Registered; renew after beat_every"),
        Route::get("/v1/executors", "list_executors", list_executors)
            .summary("Executors with a current registration")
            .needs(Permission::ReadData)
            .returns::<Page<ExecutorView>>(200, "All of them, by name"),
        Route::post("/v1/executors/{name}/retire", "retire_executor", retire_executor)
            .summary("Deregister an executor; it finishes its current nodes")
            .needs(Permission::RetireExecutor)
            .returns_nothing(204, "The executor is not registered (any more)")
            .problems(&[404]),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct NewExecutorRequest {
    name: String,
    address: String,
    #[serde(default)]
    roles: Vec<String>,
    #[serde(default)]
    labels: Vec<String>,
    capacity: u32,
    #[serde(default)]
    load: u32,
}

async fn register_executor(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    params: QueryParams,
    request: Request,
) -> Result<Json<ExecutorRegistration>, RequestRefusal> {
    params.finish_params()?;
    let body = read_json_body(&door, request, BODY_BYTES).await?;
    let NewExecutorRequest { name, address, roles, labels, capacity, load } =
        decode_json(body.json()?, "").map_err(RequestRefusal::invalid)?;
    let given = proto::Executor { name, address, roles, labels, capacity, load, seen_at: None };
    let policy = &door.options.executor_networks;
    let executor = read_executor(given, &caller.tenant, policy).map_err(|problems| {
        // The message nests the executor in a field; here it is the whole body.
        let at_top = |fault: Fault| {
            let path = fault.path.strip_prefix("executor.").unwrap_or(&fault.path).to_owned();
            Fault::new(path, fault.message)
        };
        RequestRefusal::invalid(problems.0.into_iter().map(at_top).collect())
    })?;
    let name = executor.name.to_string();
    executors::register_executor(&door.graphs, executor).await?;
    Ok(Json(ExecutorRegistration { name, beat_every: executors::BEAT_EVERY }))
}

async fn list_executors(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    params: QueryParams,
) -> Result<Json<Page<ExecutorView>>, RequestRefusal> {
    params.finish_params()?;
    let found = executors::list_executors(&door.graphs, &caller.tenant).await?;
    let items = found.into_iter().map(|(executor, seen_at)| ExecutorView {
        name: executor.name.to_string(),
        address: executor.address,
        roles: executor.roles.into_iter().collect(),
        labels: executor.labels.iter().map(ToString::to_string).collect(),
        capacity: executor.capacity,
        load: executor.load,
        seen_at,
    });
    Ok(Json(Page { items: items.collect(), next_cursor: None }))
}

async fn retire_executor(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(name): Path<String>,
    params: QueryParams,
) -> Result<StatusCode, RequestRefusal> {
    params.finish_params()?;
    let name = Name::parse(&name).map_err(|_| RequestRefusal::not_found("executor", &name))?;
    executors::retire_executor(&door.graphs, &caller.tenant, &name).await?;
    Ok(StatusCode::NO_CONTENT)
}
