//! Definitions: the versioned programs of a tenant's executions.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use millstream_api::definition_language::DefinitionDocument;
use millstream_api::definitions::{DefinitionSource, DefinitionVersion};
use millstream_api::page::Page;
use millstream_model::document::SourceFormat;
use millstream_model::id::Name;
use millstream_model::permission::Permission;
use millstream_model::problem::{self, ValidationProblems};
use millstream_model::quota::{CountedQuota, EffectiveQuota};
use millstream_model::raw::RawJson;
use millstream_store::definition_store::{NewDefinition, PutDefinition, StoredDefinition};
use millstream_workflow::definition::Definition;
use millstream_workflow::machine::Machine;
use millstream_workflow::{definition_parser, quota_caps};

use super::route::{LocationHeader, Route};
use super::views::page_of;
use crate::auth::TenantCaller;
use crate::cursor::{self, CursorList};
use crate::http::body::{MediaType, read_body};
use crate::http::query::QueryParams;
use crate::refusal::{RefusalKind, RequestRefusal};
use crate::state::IngressState;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/definitions", "put_definition", put_definition)
            .summary("Store a definition as the next version of its name")
            .needs(Permission::ManageDefinitions)
            .accepts::<DefinitionDocument>()
            .accepts_in::<DefinitionDocument>("application/yaml")
            .returns::<DefinitionVersion>(201, "A new version")
            .returns::<DefinitionVersion>(200, "Equal to the latest version, which is returned")
            .located(LocationHeader::Always)
            .leads_to("get_definition", &["name"])
            .leads_to("get_definition_version", &["name", "version"]),
        Route::get("/v1/definitions", "list_definitions", list_definitions)
            .summary("The latest version of every definition, by name")
            .needs(Permission::ReadData)
            .query(&[("limit", "Limit"), ("cursor", "Cursor")])
            .returns::<Page<DefinitionVersion>>(200, "One page"),
        Route::get("/v1/definitions/{name}", "get_definition", get_latest_definition)
            .summary("The latest version of a definition, with its source")
            .needs(Permission::ReadData)
            .returns::<DefinitionSource>(200, "The definition")
            .problems(&[404]),
        Route::get(
            "/v1/definitions/{name}/versions/{version}",
            "get_definition_version",
            get_definition_version,
        )
        .summary("One version of a definition, with its source")
        .needs(Permission::ReadData)
        .returns::<DefinitionSource>(200, "The definition")
        .problems(&[404]),
    ]
}

fn definition_version(stored: StoredDefinition) -> DefinitionVersion {
    DefinitionVersion {
        name: stored.definition.name.to_string(),
        version: stored.definition.version,
        checksum: stored.checksum,
        created_at: stored.created_at,
    }
}

async fn put_definition(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    params: QueryParams,
    request: Request,
) -> Result<Response, RequestRefusal> {
    params.finish_params()?;
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

    let source = source.to_owned();
    let quota = door.quotas.quota_of(&caller.tenant);
    let compiled = door.machines.compilations.run(move |_| compile_definition(&source, format, &quota)).await;
    let compiled = compiled
        .map_err(|closed| RequestRefusal::new(RefusalKind::StoreUnavailable, closed.to_string()))??;
    let CompiledDefinition { new, beyond } = compiled;

    let unchanged = async {
        let latest = door.stores.definitions.get_definition(&caller.tenant, &new.name, None).await?;
        Ok(latest.is_some_and(|latest| latest.checksum == new.checksum))
    };
    if beyond.is_empty() {
        door.admission.admit_known(&caller.tenant, CountedQuota::Definitions, unchanged).await?;
    } else if !unchanged.await? {
        return Err(RequestRefusal::invalid(beyond));
    }

    let (status, stored) =
        match door.stores.definitions.put_definition(&caller.tenant, &new, door.clock.now()).await? {
            PutDefinition::Created(stored) => (StatusCode::CREATED, stored),
            PutDefinition::Unchanged(stored) => (StatusCode::OK, stored),
        };
    let location =
        format!("/v1/definitions/{}/versions/{}", stored.definition.name, stored.definition.version);
    let mut response = (status, Json(definition_version(stored))).into_response();
    if let Ok(location) = HeaderValue::from_str(&location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

/// A compiled definition, and its faults against the tenant's quota.
struct CompiledDefinition {
    new: NewDefinition,
    beyond: Vec<problem::ValidationProblem>,
}

/// Called outside the async runtime: a definition with many patterns takes long.
fn compile_definition(
    source: &str,
    format: SourceFormat,
    quota: &EffectiveQuota,
) -> Result<CompiledDefinition, ValidationProblems> {
    let parsed = definition_parser::parse(source, format)?;
    let new = NewDefinition {
        name: parsed.name().clone(),
        dialect: i32::try_from(Definition::DIALECT).unwrap_or(1),
        source: parsed.canonical_json(),
        checksum: parsed.checksum(),
    };
    let beyond = quota_caps::definition_problems(&parsed, quota);
    // A definition that does not compile must not become a version: every later start would fail on it.
    Machine::compile(parsed)?;
    Ok(CompiledDefinition { new, beyond })
}

async fn list_definitions(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    mut params: QueryParams,
) -> Result<Json<Page<DefinitionVersion>>, RequestRefusal> {
    let limit = params.parse_limit(50, 500);
    let after = params.parse_cursor(CursorList::Definitions, |name| Name::parse(name).ok());
    params.finish_params()?;
    let found = door.stores.definitions.list_definitions(&caller.tenant, after.as_ref(), limit + 1).await?;
    let cursor = |last: &StoredDefinition| cursor::encode(CursorList::Definitions, &last.definition.name);
    Ok(Json(page_of(found, limit, cursor, definition_version)))
}

async fn get_latest_definition(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(name): Path<String>,
    params: QueryParams,
) -> Result<Json<DefinitionSource<RawJson>>, RequestRefusal> {
    params.finish_params()?;
    find_definition(&door, &caller.tenant, &name, None).await
}

async fn get_definition_version(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path((name, version)): Path<(String, String)>,
    params: QueryParams,
) -> Result<Json<DefinitionSource<RawJson>>, RequestRefusal> {
    params.finish_params()?;
    let number = version.parse().map_err(|_| definition_not_found(&name, Some(&version)))?;
    find_definition(&door, &caller.tenant, &name, Some(number)).await
}

async fn find_definition(
    door: &IngressState,
    tenant: &millstream_model::id::TenantId,
    name: &str,
    version: Option<i32>,
) -> Result<Json<DefinitionSource<RawJson>>, RequestRefusal> {
    let absent = || definition_not_found(name, version.map(|version| version.to_string()).as_deref());
    let parsed = Name::parse(name).map_err(|_| absent())?;
    let stored =
        door.stores.definitions.get_definition(tenant, &parsed, version).await?.ok_or_else(absent)?;
    let definition = RawJson::from_trusted_text(stored.source.as_str());
    Ok(Json(DefinitionSource { version: definition_version(stored), definition }))
}

fn definition_not_found(name: &str, version: Option<&str>) -> RequestRefusal {
    match version {
        None => RequestRefusal::not_found("definition", name),
        Some(version) => RequestRefusal::not_found("definition", format_args!("{name}@{version}")),
    }
}
