//! Revokes a key. Other processes accept it for at most 5 s more; the process that answers rejects it at
//! once.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use millstream_api::keys::ApiKey;
use millstream_model::permission::Permission;
use millstream_store::key_store::KeyChoice;

use super::issue::{confirm_caller, find_managed};
use super::read::api_key;
use crate::auth::CallerIdentity;
use crate::http::query::QueryParams;
use crate::http::route::Route;
use crate::refusal::RequestRefusal;
use crate::state::IngressState;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::delete("/v1/keys/{key_id}", "revoke_key", revoke_key)
            .summary("Revoke an API key; its open streams end within 5 s")
            .needs(Permission::ManageKeys)
            .returns::<ApiKey>(200, "The key, revoked by this request or before")
            .problems(&[404]),
    ]
}

async fn revoke_key(
    State(door): State<Arc<IngressState>>,
    identity: CallerIdentity,
    Path(id): Path<String>,
    params: QueryParams,
) -> Result<Json<ApiKey>, RequestRefusal> {
    params.finish_params()?;
    let caller = confirm_caller(&door, &identity).await?;
    let key = find_managed(&door, &caller, &id).await?;
    let now = door.clock.now();
    door.stores.keys.revoke_key(key.tenant.as_ref(), &KeyChoice::Id(key.id()), now).await?;
    door.auth.keys.end_key(&key.hash);
    let revoked = door.stores.keys.find_key_by_id(key.id()).await?.unwrap_or(key);
    Ok(Json(api_key(revoked, now)))
}
