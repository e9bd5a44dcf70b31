//! Definitions: the versioned programs of a tenant's executions.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use millstream_core::definition::{self, Definition, Format};
use millstream_core::id::Name;
use millstream_core::machine::Machine;
use millstream_core::permission::Permission;
use millstream_core::problem::{self, Problems};
use millstream_core::quota::{CountedQuota, EffectiveQuota, caps};
use millstream_core::raw::RawJson;
use millstream_core::time::Timestamp;
use millstream_store::definition_store::{NewDefinition, PutDefinition, StoredDefinition};
use serde::Serialize;

use super::problem::{Kind, Problem};
use super::route::{Located, Route};
use super::views::Page;
use crate::auth::Caller;
use crate::body::{Allowance, Body, Media};
use crate::cursor::{self, List};
use crate::door::Door;
use crate::query::Params;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/definitions", "put_definition", put)
            .summary("Store a definition as the next version of its name")
            .needs(Permission::ManageDefinitions)
            .body("application/json", "Definition")
            .body("application/yaml", "Definition")
            .answer(201, "DefinitionVersion", "A new version")
            .answer(200, "DefinitionVersion", "Equal to the latest version, which is returned")
            .located(Located::Always)
            .leads_to("get_definition", &["name"])
            .leads_to("get_definition_version", &["name", "version"]),
        Route::get("/v1/definitions", "list_definitions", list)
            .summary("The latest version of every definition, by name")
            .needs(Permission::ReadData)
            .query(&[("limit", "Limit"), ("cursor", "Cursor")])
            .answer(200, "DefinitionPage", "One page"),
        Route::get("/v1/definitions/{name}", "get_definition", latest)
            .summary("The latest version of a definition, with its source")
            .needs(Permission::ReadData)
            .answer(200, "DefinitionWithSource", "The definition")
            .problems(&[404]),
        Route::get("/v1/definitions/{name}/versions/{version}", "get_definition_version", version)
            .summary("One version of a definition, with its source")
            .needs(Permission::ReadData)
            .answer(200, "DefinitionWithSource", "The definition")
            .problems(&[404]),
    ]
}

#[derive(Debug, Serialize)]
struct VersionOut {
    name: Name,
    version: i32,
    checksum: String,
    created_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    definition: Option<RawJson>,
}

impl From<StoredDefinition> for VersionOut {
    fn from(stored: StoredDefinition) -> Self {
        Self {
            name: stored.definition.name,
            version: stored.definition.version,
            checksum: stored.checksum,
            created_at: stored.created_at,
            definition: None,
        }
    }
}

async fn put(
    State(door): State<Arc<Door>>,
    caller: Caller,
    params: Params,
    request: Request,
) -> Result<Response, Problem> {
    params.finish()?;
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

    let source = source.to_owned();
    let quota = door.quotas.quota(&caller.tenant);
    let compiled = door.machines.compilations.run(move |_| compile(&source, format, &quota)).await;
    let compiled = compiled.map_err(|closed| Problem::new(Kind::StoreUnavailable, closed.to_string()))??;
    let Compiled { new, beyond } = compiled;

    let unchanged = async {
        let latest = door.stores.definitions.get(&caller.tenant, &new.name, None).await?;
        Ok(latest.is_some_and(|latest| latest.checksum == new.checksum))
    };
    if beyond.is_empty() {
        door.admit_known(&caller.tenant, CountedQuota::Definitions, unchanged).await?;
    } else if !unchanged.await? {
        return Err(Problem::invalid(beyond));
    }

    let (status, stored) = match door.stores.definitions.put(&caller.tenant, &new, door.clock.now()).await? {
        PutDefinition::Created(stored) => (StatusCode::CREATED, stored),
        PutDefinition::Unchanged(stored) => (StatusCode::OK, stored),
    };
    let location =
        format!("/v1/definitions/{}/versions/{}", stored.definition.name, stored.definition.version);
    let mut response = (status, Json(VersionOut::from(stored))).into_response();
    if let Ok(location) = HeaderValue::from_str(&location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

/// A compiled definition, and its faults against the tenant's quota.
struct Compiled {
    new: NewDefinition,
    beyond: Vec<problem::Problem>,
}

/// Called outside the async runtime: a definition with many patterns takes long.
fn compile(source: &str, format: Format, quota: &EffectiveQuota) -> Result<Compiled, Problems> {
    let parsed = definition::parse(source, format)?;
    let new = NewDefinition {
        name: parsed.name().clone(),
        dialect: i32::try_from(Definition::DIALECT).unwrap_or(1),
        source: parsed.canonical_json(),
        checksum: parsed.checksum(),
    };
    let beyond = caps::definition_problems(&parsed, quota);
    // A definition that does not compile must not become a version: every later start would fail on it.
    Machine::compile(parsed)?;
    Ok(Compiled { new, beyond })
}

async fn list(
    State(door): State<Arc<Door>>,
    caller: Caller,
    mut params: Params,
) -> Result<Json<Page<VersionOut>>, Problem> {
    let limit = params.limit(50, 500);
    let after = params.cursor(List::Definitions, |name| Name::parse(name).ok());
    params.finish()?;
    let found = door.stores.definitions.list(&caller.tenant, after.as_ref(), limit + 1).await?;
    let cursor = |last: &StoredDefinition| cursor::encode(List::Definitions, &last.definition.name);
    Ok(Json(Page::of(found, limit, cursor, VersionOut::from)))
}

async fn latest(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Path(name): Path<String>,
    params: Params,
) -> Result<Json<VersionOut>, Problem> {
    params.finish()?;
    find(&door, &caller.tenant, &name, None).await
}

async fn version(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Path((name, version)): Path<(String, String)>,
    params: Params,
) -> Result<Json<VersionOut>, Problem> {
    params.finish()?;
    let number = version.parse().map_err(|_| missing(&name, Some(&version)))?;
    find(&door, &caller.tenant, &name, Some(number)).await
}

async fn find(
    door: &Door,
    tenant: &millstream_core::id::TenantId,
    name: &str,
    version: Option<i32>,
) -> Result<Json<VersionOut>, Problem> {
    let absent = || missing(name, version.map(|version| version.to_string()).as_deref());
    let parsed = Name::parse(name).map_err(|_| absent())?;
    let stored = door.stores.definitions.get(tenant, &parsed, version).await?.ok_or_else(absent)?;
    let source = RawJson::trusted(stored.source.as_str());
    Ok(Json(VersionOut { definition: Some(source), ..VersionOut::from(stored) }))
}

fn missing(name: &str, version: Option<&str>) -> Problem {
    match version {
        None => Problem::not_found("definition", name),
        Some(version) => Problem::not_found("definition", format_args!("{name}@{version}")),
    }
}
