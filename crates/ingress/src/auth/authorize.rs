//! The layers in front of every route and method that needs a key: they authenticate by the headers and check the
//! permission that the route declares, before the request takes a slot or a byte of its body is read.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use millstream_core::permission::Permission;
use millstream_store::Result as StoreResult;

use super::identity::{Identity, Rights};
use super::life::{HeldKey, run_while_live};
use crate::connections::ConnectionUse;
use crate::door::Door;
use crate::http::problem::{Kind, Problem};
use crate::options::AuthMode;

/// In front of a route: refuses a caller whose key does not permit what the route needs.
pub(crate) async fn authorize(
    State((door, needs)): State<(Arc<Door>, Permission)>,
    mut request: Request,
    next: Next,
) -> Response {
    let answered = match authorize_call(&door, &mut request, needs).await {
        Ok(identity) => run_while_live(&door.keys, identity.key(), next.run(request)).await,
        Err(problem) => Err(problem),
    };
    answered.unwrap_or_else(IntoResponse::into_response)
}

/// Identifies the caller, notes that its connection is used by one, checks its permission, and leaves the [`Identity`] and the
/// [`Caller`](super::Caller) in the extensions of the request.
pub(crate) async fn authorize_call(
    door: &Door,
    request: &mut Request,
    needs: Permission,
) -> Result<Identity, Problem> {
    let identity = authenticate(request.headers(), door).await?;
    if let Some(connection) = request.extensions_mut().remove::<Arc<ConnectionUse>>() {
        connection.prove();
    }
    identity.require(needs)?;
    if let Some(caller) = identity.caller() {
        request.extensions_mut().insert(caller);
    }
    request.extensions_mut().insert(identity.clone());
    Ok(identity)
}

/// Whether calls need no key: as long as no key was ever created, and only where the mode allows it.
pub(crate) async fn is_open(door: &Door) -> StoreResult<bool> {
    match door.options.auth {
        AuthMode::Keys => Ok(false),
        AuthMode::OpenOnLoopback | AuthMode::InsecureNoAuth => Ok(!door.keys.exist().await?),
    }
}

/// Who sent these headers. When the store cannot answer, the call is refused.
pub(crate) async fn authenticate(headers: &HeaderMap, door: &Door) -> Result<Identity, Problem> {
    if is_open(door).await? {
        return Ok(Identity::open());
    }
    let unauthorized = |detail: &str| Problem::new(Kind::Unauthorized, detail);
    let header = headers
        .get(header::AUTHORIZATION)
        .ok_or_else(|| unauthorized("send an API key as \"Authorization: Bearer ms_…\""))?;
    let secret = header
        .to_str()
        .ok()
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, secret)| scheme.eq_ignore_ascii_case("bearer") && secret.len() <= 256)
        .map(|(_, secret)| secret.trim())
        .filter(|secret| secret.starts_with("ms_"))
        .ok_or_else(|| unauthorized("the Authorization header does not hold a key (Bearer ms_…)"))?;
    let key = door.keys.find(secret).await?;
    let key = key.ok_or_else(|| unauthorized("the API key is unknown, revoked or expired"))?;
    let view = &key.view;
    Ok(Identity {
        tenant: view.tenant.clone(),
        rights: Rights::Key(view.role),
        actor: Some(view.name.clone()),
        bound_to: view.bound_to.as_deref().map(Arc::from),
        key: Some(HeldKey { hash: view.hash, expires_at: view.expires_at }),
    })
}
