//! Quotas of a tenant: the effective values with their sources, the usage, and the values that an operator
//! sets.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use millstream_api::quotas::{
    NewTenantQuota, QuotaAmount, QuotaUsage, SourcedQuota, TenantQuota, TenantUsage, UsageScope,
};
use millstream_model::id::TenantId;
use millstream_model::permission::Permission;
use millstream_model::quota::{CountedQuota, EffectiveQuota, QuotaName, QuotaSet, QuotaUnit, QuotaValue};
use millstream_store::quota_store::UsageQuestion;
use serde_json::Value;

use super::route::Route;
use crate::auth::CallerIdentity;
use crate::http::body::read_json_body;
use crate::http::query::QueryParams;
use crate::quotas::HeldQuota;
use crate::refusal::RequestRefusal;
use crate::state::IngressState;

const BODY_BYTES: usize = 64 * 1024;
/// Upper bound on the rows that are counted to show the usage of an unlimited quota.
const COUNTED_AT_MOST: u64 = 1_000_000;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/tenants/{tenant}/quota", "get_quota", get_tenant_quota)
            .summary("The quotas of a tenant, each with its value and its source")
            .needs(Permission::ReadQuotas)
            .returns::<TenantQuota>(200, "Every quota, by name")
            .problems(&[404]),
        Route::put("/v1/tenants/{tenant}/quota", "put_quota", put_tenant_quota)
            .summary("Replace the quotas set for a tenant; in force everywhere within 5 s")
            .needs(Permission::ManageQuotas)
            .accepts::<NewTenantQuota>()
            .returns::<TenantQuota>(200, "Every quota, by name")
            .problems(&[404]),
        Route::get("/v1/tenants/{tenant}/usage", "get_usage", get_tenant_usage)
            .summary("The usage of a tenant: rows of the store, and its share of this process")
            .needs(Permission::ReadQuotas)
            .returns::<TenantUsage>(200, "By quota")
            .problems(&[404]),
    ]
}

fn view_tenant_quota(tenant: &TenantId, quota: &EffectiveQuota) -> Json<TenantQuota> {
    let items = quota.iter().map(|(name, sourced)| SourcedQuota {
        name: name.into(),
        value: quota_amount(name, sourced.value),
        source: sourced.source.into(),
    });
    Json(TenantQuota { tenant: tenant.to_string(), items: items.collect() })
}

/// Numbers are numbers, everything else is a text.
pub(super) fn quota_amount(name: QuotaName, value: QuotaValue) -> QuotaAmount {
    match (value, name.unit()) {
        (QuotaValue::AtMost(number), QuotaUnit::Number | QuotaUnit::Share) => QuotaAmount::Number(number),
        (QuotaValue::AtMost(_), QuotaUnit::Duration)
        | (QuotaValue::Unlimited | QuotaValue::Share { .. }, _) => QuotaAmount::Text(value.to_text(name)),
    }
}

async fn get_tenant_quota(
    State(door): State<Arc<IngressState>>,
    identity: CallerIdentity,
    Path(tenant): Path<String>,
    params: QueryParams,
) -> Result<Json<TenantQuota>, RequestRefusal> {
    params.finish_params()?;
    let tenant = parse_visible_tenant(&identity, &tenant)?;
    let row = door.stores.quotas.quota_of(&tenant).await?;
    let quota = door.quotas.quota_with_row(&tenant, row.as_ref());
    Ok(view_tenant_quota(&tenant, &quota))
}

async fn put_tenant_quota(
    State(door): State<Arc<IngressState>>,
    identity: CallerIdentity,
    Path(tenant): Path<String>,
    params: QueryParams,
    request: Request,
) -> Result<Json<TenantQuota>, RequestRefusal> {
    params.finish_params()?;
    let tenant = parse_visible_tenant(&identity, &tenant)?;
    let body = read_json_body(&door, request, BODY_BYTES).await?;
    let given: Value = serde_json::from_str(body.json()?)
        .map_err(|error| RequestRefusal::bad_request(format!("the body is not valid JSON: {error}")))?;
    let row = QuotaSet::read(&given, "").map_err(|problems| RequestRefusal::invalid(problems.0))?;
    door.stores.quotas.put_quota(&tenant, &row, door.clock.now()).await?;
    let quota = door.quotas.quota_with_row(&tenant, Some(&row));
    Ok(view_tenant_quota(&tenant, &quota))
}

async fn get_tenant_usage(
    State(door): State<Arc<IngressState>>,
    identity: CallerIdentity,
    Path(tenant): Path<String>,
    params: QueryParams,
) -> Result<Json<TenantUsage>, RequestRefusal> {
    params.finish_params()?;
    let tenant = parse_visible_tenant(&identity, &tenant)?;
    let row = door.stores.quotas.quota_of(&tenant).await?;
    let quota = door.quotas.quota_with_row(&tenant, row.as_ref());
    let question = |counted: &CountedQuota| UsageQuestion {
        tenant: tenant.clone(),
        counted: *counted,
        at_most: quota.value(counted.quota_name()).at_most().unwrap_or(COUNTED_AT_MOST),
    };
    let questions: Vec<UsageQuestion> = CountedQuota::ALL.iter().map(question).collect();
    let counts = door.stores.quotas.count_usage(&questions).await?;
    let item = |name: QuotaName, used, scope| QuotaUsage {
        name: name.into(),
        used,
        quota: quota_amount(name, quota.value(name)),
        scope,
    };
    let rows = CountedQuota::ALL.iter().zip(counts);
    let rows = rows.map(|(counted, used)| item(counted.quota_name(), used, UsageScope::Store));
    let held = HeldQuota::ALL.iter();
    let held =
        held.map(|held| item(held.name(), door.quotas.held_amount(&tenant, *held), UsageScope::Process));
    Ok(Json(TenantUsage { tenant: tenant.to_string(), items: rows.chain(held).collect() }))
}

/// An operator sees every tenant. A tenant's key sees its own quotas; any other tenant is answered with 404.
fn parse_visible_tenant(identity: &CallerIdentity, tenant: &str) -> Result<TenantId, RequestRefusal> {
    let absent = || RequestRefusal::not_found("tenant", tenant);
    let tenant = TenantId::parse(tenant).map_err(|_| absent())?;
    let own = || identity.tenant_caller().is_some_and(|caller| caller.tenant == tenant);
    if identity.permits(Permission::ManageQuotas) || own() { Ok(tenant) } else { Err(absent()) }
}
