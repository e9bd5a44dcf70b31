//! `millstream keys`: made, listed and revoked directly in the store, so that the first key needs
//! no key.

use anyhow::{Result, bail};
use millstream_core::id::TenantId;
use millstream_core::status::Role;
use millstream_core::time::Timestamp;
use millstream_store::Stores;
use millstream_store::key_store::NewKey;
use serde_json::json;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::cli::{KeysCommand, RoleArg};
use crate::failure::{ExitCode, Failure};
use crate::output::{Output, table};

pub(crate) async fn run(
    command: &KeysCommand,
    stores: &Stores,
    now: Timestamp,
    output: Output,
) -> Result<()> {
    match command {
        KeysCommand::Create { name, tenant, role } => create(name, tenant, *role, stores, now, output).await,
        KeysCommand::List => list(stores, output).await,
        KeysCommand::Revoke { name, tenant } => {
            if !stores.keys.revoke_key(&tenant_id(tenant)?, name, now).await? {
                bail!(Failure::new(ExitCode::Refused, format!("tenant {tenant} has no live key {name:?}")));
            }
            output.show(&json!({ "name": name, "revoked": true }), |_| format!("{name} is revoked"))
        }
    }
}

async fn create(
    name: &str,
    tenant: &str,
    role: RoleArg,
    stores: &Stores,
    now: Timestamp,
    output: Output,
) -> Result<()> {
    if name.is_empty() || name.len() > 100 || name.chars().any(char::is_control) {
        bail!("a key's name has 1 to 100 printable characters");
    }
    // 244 random bits from the operating system.
    let secret = format!("ms_{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
    let role = match role {
        RoleArg::Submit => Role::Submit,
        RoleArg::Read => Role::Read,
        RoleArg::Admin => Role::Admin,
    };
    let hash = Sha256::digest(secret.as_bytes()).into();
    let key = NewKey { tenant: tenant_id(tenant)?, name: name.to_owned(), role, hash };
    if !stores.keys.create_key(&key, now).await? {
        bail!(Failure::new(
            ExitCode::Refused,
            format!("tenant {tenant} has a key {name:?} already; revoke it first or choose another name")
        ));
    }
    let value = json!({ "tenant": tenant, "name": name, "role": role, "key": secret });
    output.show(&value, |_| {
        format!("{secret}\n\nshown this once: {role} of tenant {tenant}. From now on every call needs a key.")
    })
}

async fn list(stores: &Stores, output: Output) -> Result<()> {
    let rows: Vec<_> = stores
        .keys
        .list_keys()
        .await?
        .into_iter()
        .map(|key| {
            json!({ "tenant": key.tenant, "name": key.name, "role": key.role, "created_at": key.created_at, "revoked_at": key.revoked_at })
        })
        .collect();
    output.show(&json!({ "items": rows }), |_| match rows.as_slice() {
        [] => "no keys: on loopback every call is tenant default, admin".to_owned(),
        rows => table(
            rows,
            &[
                ("tenant", "tenant"),
                ("name", "name"),
                ("role", "role"),
                ("created", "created_at"),
                ("revoked", "revoked_at"),
            ],
        ),
    })
}

fn tenant_id(text: &str) -> Result<TenantId> {
    TenantId::parse(text).map_err(|error| anyhow::anyhow!("tenant {text:?} {error}"))
}
