//! Quotas of a tenant: the effective values with their sources, the usage, and the values that an operator
//! sets.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use millstream_core::id::TenantId;
use millstream_core::permission::Permission;
use millstream_core::quota::{CountedQuota, EffectiveQuota, QuotaName, QuotaSet};
use millstream_store::quota_store::UsageQuestion;
use serde::Serialize;
use serde_json::Value;

use super::problem::Problem;
use super::route::Route;
use super::tasks;
use crate::auth::Identity;
use crate::door::Door;
use crate::query::Params;
use crate::quotas::HeldQuota;

const BODY_BYTES: usize = 64 * 1024;
/// Upper bound on the rows that are counted to show the usage of an unlimited quota.
const COUNTED_AT_MOST: u64 = 1_000_000;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/tenants/{tenant}/quota", "get_quota", get)
            .summary("The quotas of a tenant, each with its value and its source")
            .needs(Permission::ReadQuotas)
            .answer(200, "TenantQuota", "Every quota, by name")
            .problems(&[404]),
        Route::put("/v1/tenants/{tenant}/quota", "put_quota", put)
            .summary("Replace the quotas set for a tenant; in force everywhere within 5 s")
            .needs(Permission::ManageQuotas)
            .body("application/json", "NewTenantQuota")
            .answer(200, "TenantQuota", "Every quota, by name")
            .problems(&[404]),
        Route::get("/v1/tenants/{tenant}/usage", "get_usage", usage)
            .summary("The usage of a tenant: rows of the store, and its share of this process")
            .needs(Permission::ReadQuotas)
            .answer(200, "TenantUsage", "By quota")
            .problems(&[404]),
    ]
}

#[derive(Debug, Serialize)]
struct TenantQuotaOut {
    tenant: TenantId,
    items: Vec<QuotaItem>,
}

#[derive(Debug, Serialize)]
struct QuotaItem {
    name: &'static str,
    value: Value,
    source: &'static str,
}

fn shown(tenant: TenantId, quota: &EffectiveQuota) -> Json<TenantQuotaOut> {
    let items = quota.iter().map(|(name, sourced)| QuotaItem {
        name: name.as_str(),
        value: sourced.value.json(name),
        source: sourced.source.as_str(),
    });
    Json(TenantQuotaOut { items: items.collect(), tenant })
}

async fn get(
    State(door): State<Arc<Door>>,
    identity: Identity,
    Path(tenant): Path<String>,
    params: Params,
) -> Result<Json<TenantQuotaOut>, Problem> {
    params.finish()?;
    let tenant = tenant_of(&identity, &tenant)?;
    let row = door.stores.quotas.quota_of(&tenant).await?;
    let quota = door.quotas.quota_with(&tenant, row.as_ref());
    Ok(shown(tenant, &quota))
}

async fn put(
    State(door): State<Arc<Door>>,
    identity: Identity,
    Path(tenant): Path<String>,
    params: Params,
    request: Request,
) -> Result<Json<TenantQuotaOut>, Problem> {
    params.finish()?;
    let tenant = tenant_of(&identity, &tenant)?;
    let body = tasks::read(&door, request, BODY_BYTES).await?;
    let given: Value = serde_json::from_str(body.json()?)
        .map_err(|error| Problem::bad_request(format!("the body is not valid JSON: {error}")))?;
    let row = QuotaSet::read(&given, "").map_err(|problems| Problem::invalid(problems.0))?;
    door.stores.quotas.put_quota(&tenant, &row, door.clock.now()).await?;
    let quota = door.quotas.quota_with(&tenant, Some(&row));
    Ok(shown(tenant, &quota))
}

#[derive(Debug, Serialize)]
struct TenantUsageOut {
    tenant: TenantId,
    items: Vec<UsageItem>,
}

#[derive(Debug, Serialize)]
struct UsageItem {
    name: &'static str,
    used: u64,
    quota: Value,
    /// `store`: rows, of the whole fleet. `process`: of the process that answers.
    scope: &'static str,
}

async fn usage(
    State(door): State<Arc<Door>>,
    identity: Identity,
    Path(tenant): Path<String>,
    params: Params,
) -> Result<Json<TenantUsageOut>, Problem> {
    params.finish()?;
    let tenant = tenant_of(&identity, &tenant)?;
    let row = door.stores.quotas.quota_of(&tenant).await?;
    let quota = door.quotas.quota_with(&tenant, row.as_ref());
    let question = |counted: &CountedQuota| UsageQuestion {
        tenant: tenant.clone(),
        counted: *counted,
        at_most: quota.value(counted.name()).at_most().unwrap_or(COUNTED_AT_MOST),
    };
    let questions: Vec<UsageQuestion> = CountedQuota::ALL.iter().map(question).collect();
    let counts = door.stores.quotas.count_usage(&questions).await?;
    let item = |name: QuotaName, used, scope| UsageItem {
        name: name.as_str(),
        used,
        quota: quota.value(name).json(name),
        scope,
    };
    let rows =
        CountedQuota::ALL.iter().zip(counts).map(|(counted, used)| item(counted.name(), used, "store"));
    let held = HeldQuota::ALL.iter();
    let held = held.map(|held| item(held.name(), door.quotas.held(&tenant, *held), "process"));
    Ok(Json(TenantUsageOut { items: rows.chain(held).collect(), tenant: tenant.clone() }))
}

/// An operator sees every tenant. A tenant's key sees its own quotas; any other tenant is answered with 404.
fn tenant_of(identity: &Identity, tenant: &str) -> Result<TenantId, Problem> {
    let absent = || Problem::not_found("tenant", tenant);
    let tenant = TenantId::parse(tenant).map_err(|_| absent())?;
    let own = || identity.caller().is_some_and(|caller| caller.tenant == tenant);
    if identity.permits(Permission::ManageQuotas) || own() { Ok(tenant) } else { Err(absent()) }
}
