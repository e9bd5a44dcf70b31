//! Executors over HTTP: register, list, deregister.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use millstream_core::duration;
use millstream_core::id::Name;
use millstream_core::permission::Permission;
use millstream_core::problem::Problem as Fault;
use millstream_core::time::Timestamp;
use millstream_rpc::proto;
use millstream_rpc::read::executor;
use serde::{Deserialize, Serialize};

use super::graphs::json::decode;
use super::problem::Problem;
use super::route::Route;
use super::tasks;
use super::views::Page;
use crate::auth::Caller;
use crate::door::Door;
use crate::graphs::executors;
use crate::query::Params;

const BODY_BYTES: usize = 64 * 1024;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/executors", "register_executor", register)
            .summary("Register an executor, or renew its registration")
            .needs(Permission::RegisterExecutor)
            .body("application/json", "NewExecutor")
            .answer(200, "ExecutorRegistered", "Registered; renew after beat_every"),
        Route::get("/v1/executors", "list_executors", list)
            .summary("Executors with a current registration")
            .needs(Permission::ReadData)
            .answer(200, "ExecutorPage", "All of them, by name"),
        Route::post("/v1/executors/{name}/retire", "retire_executor", retire)
            .summary("Deregister an executor; it finishes its current nodes")
            .needs(Permission::RetireExecutor)
            .answer_in(204, "", "", "The executor is not registered (any more)")
            .problems(&[404]),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct NewExecutor {
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

#[derive(Debug, Serialize)]
struct RegisteredOut {
    name: Name,
    beat_every: String,
}

async fn register(
    State(door): State<Arc<Door>>,
    caller: Caller,
    params: Params,
    request: Request,
) -> Result<Json<RegisteredOut>, Problem> {
    params.finish()?;
    let body = tasks::read(&door, request, BODY_BYTES).await?;
    let NewExecutor { name, address, roles, labels, capacity, load } =
        decode(body.json()?, "").map_err(Problem::invalid)?;
    let given = proto::Executor { name, address, roles, labels, capacity, load, seen_at: None };
    let policy = &door.options.executor_networks;
    let executor = executor(given, &caller.tenant, policy).map_err(|problems| {
        // The message nests the executor in a field; here it is the whole body.
        let at_top = |fault: Fault| {
            let path = fault.path.strip_prefix("executor.").unwrap_or(&fault.path).to_owned();
            Fault::new(path, fault.message)
        };
        Problem::invalid(problems.0.into_iter().map(at_top).collect())
    })?;
    let name = executor.name.clone();
    executors::register(&door, executor).await?;
    Ok(Json(RegisteredOut { name, beat_every: duration::format(executors::BEAT_EVERY) }))
}

#[derive(Debug, Serialize)]
struct ExecutorOut {
    name: Name,
    address: String,
    roles: Vec<String>,
    labels: Vec<Name>,
    capacity: u32,
    load: u32,
    seen_at: Timestamp,
}

async fn list(
    State(door): State<Arc<Door>>,
    caller: Caller,
    params: Params,
) -> Result<Json<Page<ExecutorOut>>, Problem> {
    params.finish()?;
    let found = executors::list(&door, &caller.tenant).await?;
    let items = found.into_iter().map(|(executor, seen_at)| ExecutorOut {
        name: executor.name,
        address: executor.address,
        roles: executor.roles.into_iter().collect(),
        labels: executor.labels.into_iter().collect(),
        capacity: executor.capacity,
        load: executor.load,
        seen_at,
    });
    Ok(Json(Page { items: items.collect(), next_cursor: None }))
}

async fn retire(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Path(name): Path<String>,
    params: Params,
) -> Result<StatusCode, Problem> {
    params.finish()?;
    let name = Name::parse(&name).map_err(|_| Problem::not_found("executor", &name))?;
    executors::retire(&door, &caller.tenant, &name).await?;
    Ok(StatusCode::NO_CONTENT)
}
