//! Lists API keys. The secret is never shown: the store has its hash only.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use millstream_api::keys::{ApiKey, ApiKeyStatus};
use millstream_api::page::Page;
use millstream_model::id::TenantId;
use millstream_model::permission::Permission;
use millstream_model::time::Timestamp;
use millstream_store::key_store::{KeyFilter, KeyId, KeyPlace, KeyStatus, KeyView};

use crate::auth::CallerIdentity;
use crate::cursor::{self, CursorList};
use crate::http::query::QueryParams;
use crate::http::route::Route;
use crate::http::views::page_of;
use crate::refusal::RequestRefusal;
use crate::state::IngressState;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/keys", "list_keys", list_keys)
            .summary("API keys, newest first, including expired and revoked ones; without their secrets")
            .needs(Permission::ManageKeys)
            .query(&[("tenant", "TenantId"), ("limit", "Limit"), ("cursor", "Cursor")])
            .returns::<Page<ApiKey>>(200, "One page; an operator who names no tenant sees all keys")
            .problems(&[404]),
    ]
}

pub(super) fn api_key(view: KeyView, now: Timestamp) -> ApiKey {
    ApiKey {
        key_id: view.id().to_string(),
        status: match view.status(now) {
            KeyStatus::Current => ApiKeyStatus::Current,
            KeyStatus::Rotated => ApiKeyStatus::Rotated,
            KeyStatus::Expired => ApiKeyStatus::Expired,
            KeyStatus::Revoked => ApiKeyStatus::Revoked,
        },
        tenant: view.tenant.map(|tenant| tenant.to_string()),
        name: view.name,
        role: view.role.into(),
        bound_to: view.bound_to,
        created_at: view.created_at,
        created_by: view.created_by,
        last_used_at: view.last_used_at,
        expires_at: view.expires_at,
        revoked_at: view.revoked_at,
    }
}

async fn list_keys(
    State(door): State<Arc<IngressState>>,
    identity: CallerIdentity,
    mut params: QueryParams,
) -> Result<Json<Page<ApiKey>>, RequestRefusal> {
    let tenant = params.parse_param("tenant", |text| TenantId::parse(text));
    let limit = params.parse_limit(50, 500);
    let after = params.parse_cursor(CursorList::Keys, parse_key_place);
    params.finish_params()?;
    let of = match (identity.tenant_caller().map(|caller| caller.tenant), tenant) {
        (None, None) => KeyFilter::All,
        (None, Some(named)) => KeyFilter::Tenant(named),
        // A key of a tenant sees no other tenant.
        (Some(own), Some(named)) if own != named => return Err(RequestRefusal::not_found("tenant", named)),
        (Some(own), _) => KeyFilter::Tenant(own),
    };
    let now = door.clock.now();
    let found = door.stores.keys.list_keys(&of, after, limit + 1).await?;
    let cursor = |last: &KeyView| {
        let KeyPlace { created_at, id } = last.place();
        cursor::encode(CursorList::Keys, format_args!("{}/{id}", created_at.as_millis()))
    };
    Ok(Json(page_of(found, limit, cursor, |view| api_key(view, now))))
}

fn parse_key_place(text: &str) -> Option<KeyPlace> {
    let (created_at, id) = text.split_once('/')?;
    Some(KeyPlace { created_at: Timestamp::from_millis(created_at.parse().ok()?), id: KeyId::parse(id)? })
}
