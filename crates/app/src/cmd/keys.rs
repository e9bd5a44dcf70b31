//! `millstream keys`: creates, rotates, lists and revokes keys directly in the store, so that the first key
//! needs no key.

use std::time::Duration;

use anyhow::{Result, bail};
use millstream_model::id::TenantId;
use millstream_model::key_grant::{KeyBindingRefusal, bind_key, check_key_name};
use millstream_model::status::Role;
use millstream_model::time::Timestamp;
use millstream_store::Stores;
use millstream_store::key_secret::KeySecret;
use millstream_store::key_store::{KeyChoice, KeyFilter, KeyRotation, KeyStatus, KeyView, NewKey};
use serde_json::json;

use crate::cli::{KeysCommand, NewKeyArgs};
use crate::failure::{CommandFailure, ExitCode};
use crate::output::{CliOutput, format_table};

pub(crate) async fn run(
    command: &KeysCommand,
    stores: &Stores,
    now: Timestamp,
    output: CliOutput,
) -> Result<()> {
    match command {
        KeysCommand::Create(args) => create_key(args, stores, now, output).await,
        KeysCommand::List => list_keys(stores, now, output).await,
        KeysCommand::Rotate { name, tenant, operator, overlap, expires } => {
            let owner = key_owner(tenant, *operator)?;
            rotate_key(name, owner, *overlap, *expires, stores, now, output).await
        }
        KeysCommand::Revoke { name, tenant, operator } => {
            let owner = key_owner(tenant, *operator)?;
            if !stores.keys.revoke_key(owner.as_ref(), &KeyChoice::Name(name.clone()), now).await? {
                bail!(CommandFailure::new(
                    ExitCode::Refused,
                    format!("{} has no live key {name:?}", owner_name(owner.as_ref()))
                ));
            }
            output.show(&json!({ "name": name, "revoked": true }), |_| format!("{name} is revoked"))
        }
    }
}

/// `None` for operator keys, which belong to no tenant.
fn key_owner(tenant: &str, operator: bool) -> Result<Option<TenantId>> {
    if operator { Ok(None) } else { tenant_id(tenant).map(Some) }
}

fn owner_name(owner: Option<&TenantId>) -> String {
    owner.map_or_else(|| "no tenant (operator)".to_owned(), |tenant| format!("tenant {tenant}"))
}

/// The roles with their purposes, for an error that asks for one.
fn role_help() -> String {
    Role::ALL.iter().map(|role| format!("\n  {role:9} {}", role.summary())).collect()
}

async fn create_key(args: &NewKeyArgs, stores: &Stores, now: Timestamp, output: CliOutput) -> Result<()> {
    let NewKeyArgs { name, tenant, role, expires, person, device, once } = args;
    if let Err(error) = check_key_name(name) {
        bail!("the name of a key {error}");
    }
    let Some(role) = role.as_deref() else {
        bail!("say what the key is for with --role ROLE:{}", role_help())
    };
    let Some(role) = Role::parse(role) else {
        bail!("{role:?} is not a role; the roles are:{}", role_help())
    };
    if *once && stores.keys.keys_exist().await? {
        let value = json!({ "created": false });
        return output.show(&value, |_| "a key exists already; none was created".to_owned());
    }
    let secret = KeySecret::generate();
    let key = NewKey {
        expires_at: expires.map(|length| now.plus(length)),
        bound_to: bound_to(role, person.as_deref(), device.as_deref())?,
        ..NewKey::for_tenant(tenant_id(tenant)?, name.clone(), role, secret.hash())
    };
    if !stores.keys.create_key(&key, now).await? {
        let owner = owner_name(key.tenant.as_ref());
        bail!(CommandFailure::new(
            ExitCode::Refused,
            format!("{owner} has a key {name:?} already; rotate it, revoke it first or choose another name")
        ));
    }
    show_secret(&secret, &key, output)
}

/// The person or device that a key of this role is bound to.
fn bound_to(role: Role, person: Option<&str>, device: Option<&str>) -> Result<Option<String>> {
    bind_key(role, person, device).map_err(|refusal| match refusal {
        KeyBindingRefusal::PersonMissing => anyhow::anyhow!("{refusal}: say --person ID"),
        KeyBindingRefusal::Unfitting => {
            anyhow::anyhow!("--person goes with the role work, --device with the role device")
        }
        KeyBindingRefusal::InvalidPerson(_) | KeyBindingRefusal::InvalidDevice(_) => {
            anyhow::Error::new(refusal)
        }
    })
}

fn show_secret(secret: &KeySecret, key: &NewKey, output: CliOutput) -> Result<()> {
    let secret = secret.expose();
    let NewKey { tenant, name, role, expires_at, bound_to, .. } = key;
    let value = json!({
        "tenant": tenant, "name": name, "role": role, "key": secret, "expires_at": expires_at, "bound_to": bound_to,
    });
    output.show(&value, |_| {
        let until = expires_at.map(|at| format!(", until {at}")).unwrap_or_default();
        format!(
            "{secret}\n\nshown this once: {role} of {}{until}. Every call needs a key now.",
            owner_name(tenant.as_ref())
        )
    })
}

async fn rotate_key(
    name: &str,
    owner: Option<TenantId>,
    overlap: Duration,
    expires: Option<Duration>,
    stores: &Stores,
    now: Timestamp,
    output: CliOutput,
) -> Result<()> {
    let none = || {
        CommandFailure::new(
            ExitCode::Refused,
            format!("{} has no live key {name:?}", owner_name(owner.as_ref())),
        )
    };
    let keys = list_all(stores).await?;
    let current =
        |key: &&KeyView| key.name == name && key.tenant == owner && key.status(now) == KeyStatus::Current;
    let Some(key) = keys.iter().find(current) else { bail!(none()) };
    let secret = KeySecret::generate();
    // The lifetime of the predecessor, unless `--expires` is given.
    let lifetime = expires.or_else(|| key.expires_at.map(|at| at.since(key.created_at)));
    let successor = NewKey {
        tenant: key.tenant.clone(),
        name: name.to_owned(),
        role: key.role,
        hash: secret.hash(),
        expires_at: lifetime.map(|length| now.plus(length)),
        bound_to: key.bound_to.clone(),
        created_by: None,
    };
    let rotation = KeyRotation { predecessor: key.hash, expires_at: now.plus(overlap), successor };
    if !stores.keys.rotate_key(&rotation, now).await? {
        bail!(none());
    }
    show_secret(&secret, &rotation.successor, output)
}

/// Every key, page by page.
async fn list_all(stores: &Stores) -> Result<Vec<KeyView>> {
    const PAGE: usize = 500;
    let mut keys: Vec<KeyView> = Vec::new();
    loop {
        let after = keys.last().map(KeyView::place);
        let page = stores.keys.list_keys(&KeyFilter::All, after, PAGE).await?;
        let is_last = page.len() < PAGE;
        keys.extend(page);
        if is_last {
            return Ok(keys);
        }
    }
}

async fn list_keys(stores: &Stores, now: Timestamp, output: CliOutput) -> Result<()> {
    let keys = list_all(stores).await?;
    let rows: Vec<_> = keys
        .into_iter()
        .map(|key| {
            json!({
                "id": key.id().to_string(), "tenant": key.tenant, "name": key.name, "role": key.role,
                "bound_to": key.bound_to, "created_at": key.created_at, "created_by": key.created_by,
                "last_used_at": key.last_used_at, "expires_at": key.expires_at, "revoked_at": key.revoked_at,
                "live": key.is_live(now), "status": key.status(now).as_str(),
            })
        })
        .collect();
    output.show(&json!({ "items": rows }), |_| match rows.as_slice() {
        [] => "no keys: on loopback every call is tenant default, admin".to_owned(),
        rows => format_table(
            rows,
            &[
                ("id", "id"),
                ("tenant", "tenant"),
                ("name", "name"),
                ("role", "role"),
                ("created", "created_at"),
                ("last used", "last_used_at"),
                ("expires", "expires_at"),
                ("revoked", "revoked_at"),
            ],
        ),
    })
}

fn tenant_id(text: &str) -> Result<TenantId> {
    TenantId::parse(text).map_err(|error| anyhow::anyhow!("tenant {text:?} {error}"))
}
