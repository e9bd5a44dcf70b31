//! Authentication and authorization of a call by its headers and the permission that its route or method
//! declares, before the request takes a slot and before its body is read.

use std::sync::Arc;

use axum::extract::Request;
use axum::http::{HeaderMap, header};
use millstream_model::permission::Permission;
use millstream_store::StoreResult;

use super::identity::{CallerIdentity, CallerRights};
use super::life::HeldKey;
use super::lookup::KeyLookup;
use super::waiting_lookups::KeyOrigin;
use crate::connection_use::ConnectionUse;
use crate::options::AuthMode;
use crate::refusal::{RefusalKind, RequestRefusal};

/// Authenticates callers by their keys, as the mode of the ingress requires.
#[derive(Debug)]
pub(crate) struct CallAuthenticator {
    pub(crate) keys: Arc<KeyLookup>,
    pub(crate) mode: AuthMode,
}

impl CallAuthenticator {
    /// Authenticates the caller, marks its connection as proven, checks its permission, and puts the
    /// [`CallerIdentity`] and the [`Caller`](super::TenantCaller) into the extensions of the request.
    pub(crate) async fn authorize_call(
        &self,
        request: &mut Request,
        needs: Permission,
    ) -> Result<CallerIdentity, RequestRefusal> {
        // Present as long as the connection is not proven.
        let connection = request.extensions_mut().remove::<Arc<ConnectionUse>>();
        let origin = connection.as_ref().map_or(KeyOrigin::Proven, |one| KeyOrigin::Unproven(one.network));
        let identity = self.authenticate_caller(request.headers(), origin).await?;
        if let Some(connection) = connection {
            connection.mark_proven();
        }
        identity.require_permission(needs)?;
        if let Some(caller) = identity.tenant_caller() {
            request.extensions_mut().insert(caller);
        }
        request.extensions_mut().insert(identity.clone());
        Ok(identity)
    }

    /// Whether calls need no key: as long as no key was ever created, and only where the mode allows it.
    pub(crate) async fn is_open(&self) -> StoreResult<bool> {
        match self.mode {
            AuthMode::Keys => Ok(false),
            AuthMode::OpenOnLoopback | AuthMode::InsecureNoAuth => Ok(!self.keys.keys_exist().await?),
        }
    }

    /// Authenticates the headers. When the store is unavailable, the call is refused.
    ///
    /// "No key exists" is cached for a second, but a key that is sent is always checked: a call with the very
    /// first key must not count as an open call of the tenant `default` during that second.
    async fn authenticate_caller(
        &self,
        headers: &HeaderMap,
        origin: KeyOrigin,
    ) -> Result<CallerIdentity, RequestRefusal> {
        if !self.is_open().await? {
            return authenticate_key(headers, origin, &self.keys).await;
        }
        if !headers.contains_key(header::AUTHORIZATION) {
            return Ok(CallerIdentity::open_identity());
        }
        match authenticate_key(headers, origin, &self.keys).await {
            Err(refusal) if refusal.kind == RefusalKind::Unauthorized => Ok(CallerIdentity::open_identity()),
            identified => identified,
        }
    }
}

pub(crate) async fn authenticate_key(
    headers: &HeaderMap,
    origin: KeyOrigin,
    keys: &KeyLookup,
) -> Result<CallerIdentity, RequestRefusal> {
    let unauthorized = |detail: &str| RequestRefusal::new(RefusalKind::Unauthorized, detail);
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
    let key = keys.find_key(secret, origin).await?;
    let key = key.ok_or_else(|| unauthorized("the API key is unknown, revoked or expired"))?;
    let view = &key.view;
    Ok(CallerIdentity {
        tenant: view.tenant.clone(),
        rights: CallerRights::Key(view.role),
        actor: Some(view.name.clone()),
        bound_to: view.bound_to.as_deref().map(Arc::from),
        key: Some(HeldKey { hash: view.hash, expires_at: view.expires_at }),
    })
}
