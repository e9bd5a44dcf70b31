//! Creates and rotates API keys. `millstream_model::key_grant` decides which keys a key may issue.
//!
//! The caller's key is read from the store again before it issues a key: a key that was just revoked, and
//! that this process still has in its cache, cannot issue another one.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use millstream_api::keys::{ApiKeyRotation, IssuedApiKey, NewApiKey};
use millstream_model::duration;
use millstream_model::id::TenantId;
use millstream_model::key_grant::{
    KeyBindingRefusal, KeyGrantRefusal, KeyIssuer, KeyPredecessor, KeyRelation, bind_key, check_key_name,
};
use millstream_model::permission::Permission;
use millstream_model::problem::ValidationProblem as Fault;
use millstream_model::status::Role;
use millstream_model::time::Timestamp;
use millstream_store::key_secret::KeySecret;
use millstream_store::key_store::{KeyId, KeyRotation, KeyView, NewKey};

use super::read::api_key;
use crate::auth::CallerIdentity;
use crate::http::body::{MediaType, read_body, read_json_body};
use crate::http::fields::JsonFields;
use crate::http::query::QueryParams;
use crate::http::route::Route;
use crate::refusal::{RefusalKind, RequestRefusal};
use crate::state::IngressState;

const BODY_BYTES: usize = 16 * 1024;
/// Default overlap after which a rotated key expires, as with `millstream keys rotate`.
const OVERLAP: Duration = Duration::from_secs(7 * 86_400);

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/keys", "create_key", create_key)
            .summary("Create an API key; an operator must name the tenant")
            .needs(Permission::ManageKeys)
            .accepts::<NewApiKey>()
            .returns::<IssuedApiKey>(201, "The key; its secret is shown only here")
            .problems(&[404, 409])
            .leads_to("rotate_key", &["key_id"])
            .leads_to("revoke_key", &["key_id"]),
        Route::post("/v1/keys/{key_id}/rotate", "rotate_key", rotate_key)
            .summary("Create the successor of a key; the key expires after the overlap")
            .needs(Permission::ManageKeys)
            .accepts::<ApiKeyRotation>()
            .body_optional()
            .returns::<IssuedApiKey>(201, "The successor; its secret is shown only here")
            .problems(&[404, 409])
            .leads_to("revoke_key", &["key_id"]),
    ]
}

async fn create_key(
    State(door): State<Arc<IngressState>>,
    identity: CallerIdentity,
    params: QueryParams,
    request: Request,
) -> Result<Response, RequestRefusal> {
    params.finish_params()?;
    let body = read_json_body(&door, request, BODY_BYTES).await?;
    let wanted = NewKeyRequest::read(body.json()?)?;
    let caller = confirm_caller(&door, &identity).await?;
    let issuer = issuer_of(&caller);
    let now = door.clock.now();
    let tenant = issuer.tenant_of_new(wanted.role, wanted.tenant).map_err(grant_refusal)?;
    issuer.check_grant(wanted.role, tenant.as_ref()).map_err(grant_refusal)?;
    let expires_at = wanted.expires_in.map(|length| now.plus(length));
    door.admission.admit_key(&caller, tenant.as_ref()).await?;
    let secret = KeySecret::generate();
    let key = NewKey {
        tenant,
        name: wanted.name,
        role: wanted.role,
        hash: secret.hash(),
        expires_at: issuer.expiry_of_new(expires_at).map_err(grant_refusal)?,
        bound_to: wanted.bound_to,
        created_by: Some(caller.name),
    };
    if !door.stores.keys.create_key(&key, now).await? {
        let detail =
            format!("there is a live key {:?}: rotate it, revoke it or choose another name", key.name);
        return Err(RequestRefusal::new(RefusalKind::Conflict, detail));
    }
    show_issued(&door, &secret, now).await
}

async fn rotate_key(
    State(door): State<Arc<IngressState>>,
    identity: CallerIdentity,
    Path(id): Path<String>,
    params: QueryParams,
    request: Request,
) -> Result<Response, RequestRefusal> {
    params.finish_params()?;
    let KeyRotationRequest { overlap, expires_in } = KeyRotationRequest::read(&door, request).await?;
    let caller = confirm_caller(&door, &identity).await?;
    let key = find_managed(&door, &caller, &id).await?;
    let now = door.clock.now();
    let of = KeyPredecessor {
        relation: if key.hash == caller.hash { KeyRelation::Issuer } else { KeyRelation::OtherKey },
        lifetime: key.expires_at.map(|at| at.since(key.created_at)),
    };
    let expires_at = issuer_of(&caller).expiry_of_successor(of, expires_in, now).map_err(grant_refusal)?;
    door.admission.admit_key(&caller, key.tenant.as_ref()).await?;
    let secret = KeySecret::generate();
    let status = key.status(now).as_str();
    let successor = NewKey {
        tenant: key.tenant,
        name: key.name,
        role: key.role,
        hash: secret.hash(),
        expires_at,
        bound_to: key.bound_to,
        created_by: Some(caller.name),
    };
    let rotation = KeyRotation { predecessor: key.hash, expires_at: now.plus(overlap), successor };
    if !door.stores.keys.rotate_key(&rotation, now).await? {
        let detail = format!("only a current key can be rotated, this key is {status}");
        return Err(RequestRefusal::new(RefusalKind::Conflict, detail));
    }
    // The cached entry is dropped, so that the next use reads the new expiry.
    door.auth.keys.forget_key(&key.hash);
    show_issued(&door, &secret, now).await
}

async fn show_issued(
    door: &IngressState,
    secret: &KeySecret,
    now: Timestamp,
) -> Result<Response, RequestRefusal> {
    let view = door.stores.keys.find_key(&secret.hash()).await?;
    let view =
        view.ok_or_else(|| RequestRefusal::new(RefusalKind::Conflict, "the key was revoked concurrently"))?;
    let shown = Json(IssuedApiKey { view: api_key(view, now), key: secret.expose().to_owned() });
    Ok((StatusCode::CREATED, [(header::CACHE_CONTROL, "no-store")], shown).into_response())
}

/// The caller's key as the store has it now.
pub(super) async fn confirm_caller(
    door: &IngressState,
    identity: &CallerIdentity,
) -> Result<KeyView, RequestRefusal> {
    let Some(key) = identity.key() else {
        let detail = "while no key exists, the first one is created on the store: `millstream keys create`";
        return Err(RequestRefusal::new(RefusalKind::Forbidden, detail));
    };
    let found = door.stores.keys.find_key(&key.hash).await?;
    let live = found.filter(|view| view.is_live(door.clock.now()));
    live.ok_or_else(|| {
        RequestRefusal::new(RefusalKind::Unauthorized, "the API key was revoked or has expired")
    })
}

/// Reads a key that the caller may manage; a key of another tenant is answered with 404.
pub(super) async fn find_managed(
    door: &IngressState,
    caller: &KeyView,
    id: &str,
) -> Result<KeyView, RequestRefusal> {
    let absent = || RequestRefusal::not_found("key", id);
    let found = door.stores.keys.find_key_by_id(KeyId::parse(id).ok_or_else(absent)?).await?;
    let is_visible = |key: &KeyView| caller.tenant.is_none() || caller.tenant == key.tenant;
    let key = found.filter(is_visible).ok_or_else(absent)?;
    issuer_of(caller).check_grant(key.role, key.tenant.as_ref()).map_err(grant_refusal)?;
    Ok(key)
}

fn issuer_of(caller: &KeyView) -> KeyIssuer {
    KeyIssuer { role: caller.role, tenant: caller.tenant.clone(), expires_at: caller.expires_at }
}

fn grant_refusal(refusal: KeyGrantRefusal) -> RequestRefusal {
    let detail = refusal.to_string();
    match refusal {
        // A key of another tenant is answered with 404.
        KeyGrantRefusal::OtherTenant => RequestRefusal::new(RefusalKind::NotFound, detail),
        KeyGrantRefusal::TenantMissing | KeyGrantRefusal::OperatorHasNoTenant => {
            RequestRefusal::invalid(vec![Fault::new("tenant", detail)])
        }
        KeyGrantRefusal::StrongerRole { .. }
        | KeyGrantRefusal::OutlivesIssuer(_)
        | KeyGrantRefusal::OutlivesPredecessor => RequestRefusal::new(RefusalKind::Forbidden, detail),
    }
}

/// A key as a request describes it.
struct NewKeyRequest {
    name: String,
    role: Role,
    tenant: Option<TenantId>,
    expires_in: Option<Duration>,
    bound_to: Option<String>,
}

impl NewKeyRequest {
    fn read(text: &str) -> Result<Self, RequestRefusal> {
        let mut fields = JsonFields::of(text, "").map_err(RequestRefusal::invalid)?;
        let name = fields.required_text("name");
        let name = fields.parse_text("name", name, |name| check_key_name(name).map(|()| name.to_owned()));
        let role = fields.required_text("role");
        let role = fields.parse_text("role", role, |role| {
            let words = || Role::ALL.iter().map(|role| role.as_str()).collect::<Vec<_>>().join(", ");
            Role::parse(role).ok_or_else(|| format!("is not one of {}", words()))
        });
        let tenant = fields.take_text("tenant");
        let tenant = fields.parse_text("tenant", tenant, |tenant| TenantId::parse(tenant));
        let expires_in = read_length(&mut fields, "expires_in");
        let (person, device) = (fields.take_text("person"), fields.take_text("device"));
        let bound_to = role.map(|role| bind_key(role, person.as_deref(), device.as_deref()));
        if let Some(Err(refusal)) = &bound_to {
            fields.add_fault(field_of(refusal), refusal);
        }
        fields.finish_fields().map_err(RequestRefusal::invalid)?;
        match (name, role, bound_to) {
            (Some(name), Some(role), Some(Ok(bound_to))) => {
                Ok(Self { name, role, tenant, expires_in, bound_to })
            }
            // Unreachable: a missing name or role is a fault, which `finish` reports.
            (_, _, _) => Err(RequestRefusal::bad_request("the key has no name or no role")),
        }
    }
}

fn field_of(refusal: &KeyBindingRefusal) -> &'static str {
    match refusal {
        KeyBindingRefusal::PersonMissing | KeyBindingRefusal::InvalidPerson(_) => "person",
        KeyBindingRefusal::InvalidDevice(_) => "device",
        KeyBindingRefusal::Unfitting => "role",
    }
}

struct KeyRotationRequest {
    overlap: Duration,
    expires_in: Option<Duration>,
}

impl KeyRotationRequest {
    async fn read(door: &IngressState, request: Request) -> Result<Self, RequestRefusal> {
        let (parts, body) = request.into_parts();
        let body = read_body(door, &parts, body, BODY_BYTES).await?;
        if body.is_empty() {
            return Ok(Self { overlap: OVERLAP, expires_in: None });
        }
        MediaType::of(&parts.headers, &[MediaType::Json])?;
        let mut fields = JsonFields::of(body.json()?, "").map_err(RequestRefusal::invalid)?;
        let overlap = read_length(&mut fields, "overlap");
        let expires_in = read_length(&mut fields, "expires_in");
        fields.finish_fields().map_err(RequestRefusal::invalid)?;
        Ok(Self { overlap: overlap.unwrap_or(OVERLAP), expires_in })
    }
}

fn read_length(fields: &mut JsonFields<'_>, field: &'static str) -> Option<Duration> {
    let text = fields.take_text(field)?;
    match duration::parse(&text) {
        Ok(length) => Some(length),
        Err(error) => {
            fields.add_fault(field, error);
            None
        }
    }
}
