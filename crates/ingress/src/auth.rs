//! Who is calling. A layer identifies the caller by the headers, before the request takes a slot or a byte of
//! its body is read ([`identify`], and its twin in `grpc::intake`); the handler then names the role it needs
//! by an extractor, never by a filter over paths. The key is looked up once per request.
//!
//! Tenant, role and actor come from the key and from nowhere else. A handler asks for a [`Submitter`],
//! a [`Reader`] or an [`Admin`] and cannot be reached without one. Keys are found by their SHA-256; a
//! lookup is believed for a few seconds, an absent key likewise in a cache of its own, so that guessing
//! neither floods the store nor pushes out real keys. When the store cannot answer, nobody comes in.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use lru::LruCache;
use millstream_core::id::TenantId;
use millstream_core::status::Role;
use millstream_store::Result as StoreResult;
use millstream_store::key_store::{KeyStore, KeyView};
use sha2::{Digest, Sha256};

use crate::connections::ConnectionUse;
use crate::door::Door;
use crate::http::problem::{Kind, Problem};
use crate::options::AuthMode;

/// An authenticated caller.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) tenant: TenantId,
    pub(crate) role: Role,
    /// The name of the key; `None` where no key is needed.
    pub(crate) actor: Option<String>,
}

macro_rules! extractors {
    ($($(#[$doc:meta])* $name:ident = $role:ident;)+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone)]
        pub(crate) struct $name(pub(crate) Caller);

        impl FromRequestParts<Arc<Door>> for $name {
            type Rejection = Problem;

            async fn from_request_parts(parts: &mut Parts, _: &Arc<Door>) -> Result<Self, Problem> {
                caller(&parts.extensions, Role::$role).map(Self)
            }
        }
    )+};
}

extractors! {
    /// May start executions and post events.
    Submitter = Submit;
    /// May read everything of its tenant.
    Reader = Read;
    /// May do everything: definitions, retry, cancel.
    Admin = Admin;
}

/// The identified caller of a request, if its role allows what is asked for.
pub(crate) fn caller(extensions: &Extensions, needs: Role) -> Result<Caller, Problem> {
    let caller = extensions.get::<Caller>();
    let caller = caller.ok_or_else(|| Problem::new(Kind::Internal, "the caller was not identified"))?;
    if caller.role.allows(needs) {
        return Ok(caller.clone());
    }
    let detail = format!("this call needs a key with the role {needs} or admin, this one is {}", caller.role);
    Err(Problem::new(Kind::Forbidden, detail))
}

/// Identifies the caller before anything else is spent on the request: the refusal takes no slot and reads no
/// body. The [`Caller`] travels in the extensions of the request.
pub(crate) async fn identify(State(door): State<Arc<Door>>, mut request: Request, next: Next) -> Response {
    match identified(&mut request, &door).await {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

/// Puts the [`Caller`] beside the request, and notes that its connection is used by one.
pub(crate) async fn identified(request: &mut Request, door: &Door) -> Result<(), Problem> {
    let caller = authenticate(request.headers(), door).await?;
    if let Some(connection) = request.extensions_mut().remove::<Arc<ConnectionUse>>() {
        connection.prove();
    }
    request.extensions_mut().insert(caller);
    Ok(())
}

/// Who sent these headers.
async fn authenticate(headers: &HeaderMap, door: &Door) -> Result<Caller, Problem> {
    let anybody = match door.options.auth {
        AuthMode::Keys => false,
        AuthMode::OpenOnLoopback => !door.keys.exist().await?,
        AuthMode::InsecureNoAuth => !headers.contains_key(header::AUTHORIZATION),
    };
    if anybody {
        return Ok(Caller { tenant: TenantId::default_tenant(), role: Role::Admin, actor: None });
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
    let key = key.ok_or_else(|| unauthorized("the API key is unknown or revoked"))?;
    Ok(Caller { tenant: key.tenant.clone(), role: key.role, actor: Some(key.name.clone()) })
}

type Hash = [u8; 32];

/// A key, and when the store last said so.
#[derive(Debug, Clone)]
struct Known {
    key: Arc<KeyView>,
    at: Instant,
}

/// Keys that were looked up lately.
pub(crate) struct Keys {
    store: Arc<dyn KeyStore>,
    ttl: Duration,
    known: Mutex<LruCache<Hash, Known>>,
    unknown: Mutex<LruCache<Hash, Instant>>,
    exist: Mutex<Option<(bool, Instant)>>,
}

const KNOWN: NonZeroUsize = NonZeroUsize::MIN.saturating_add(10_000);
const UNKNOWN: NonZeroUsize = NonZeroUsize::MIN.saturating_add(4_096);
/// How long "no key exists" is believed: the time between the first key and its being required.
const OPEN_FOR: Duration = Duration::from_secs(1);

impl Keys {
    pub(crate) fn of(store: Arc<dyn KeyStore>, ttl: Duration) -> Self {
        Self {
            store,
            ttl: ttl.min(Duration::from_secs(5)),
            known: Mutex::new(LruCache::new(KNOWN)),
            unknown: Mutex::new(LruCache::new(UNKNOWN)),
            exist: Mutex::default(),
        }
    }

    async fn find(&self, secret: &str) -> StoreResult<Option<Arc<KeyView>>> {
        let hash: Hash = Sha256::digest(secret.as_bytes()).into();
        if let Some(known) = lock(&self.known).get(&hash)
            && known.at.elapsed() < self.ttl
        {
            return Ok(Some(known.key.clone()));
        }
        if lock(&self.unknown).get(&hash).is_some_and(|at| at.elapsed() < self.ttl) {
            return Ok(None);
        }
        let found = self.store.find_key(&hash).await?.filter(|key| key.revoked_at.is_none()).map(Arc::new);
        match &found {
            Some(key) => {
                lock(&self.known).put(hash, Known { key: key.clone(), at: Instant::now() });
            }
            None => {
                lock(&self.known).pop(&hash);
                lock(&self.unknown).put(hash, Instant::now());
            }
        }
        Ok(found)
    }

    /// Whether keys are required by now. Once they are, they stay required for the life of the process:
    /// revoking the last key must not open the door.
    async fn exist(&self) -> StoreResult<bool> {
        if let Some((exist, at)) = *lock(&self.exist)
            && (exist || at.elapsed() < OPEN_FOR)
        {
            return Ok(exist);
        }
        let exist = self.store.keys_exist().await?;
        *lock(&self.exist) = Some((exist, Instant::now()));
        Ok(exist)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keys").finish_non_exhaustive()
    }
}
