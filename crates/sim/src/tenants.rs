//! Whose data a run has: the quiet tenant's, and in every other seed that of a busy one with a backlog.
//!
//! Both use the same ids of executions: what is decided, performed or answered for the wrong one breaks a promise.

use millstream_core::id::TenantId;
use millstream_core::status::Role;
use millstream_store::Result;
use millstream_store::clock::Clock;
use millstream_store::key_store::NewKey;
use sha2::{Digest, Sha256};

use crate::workload;
use crate::world::World;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SimTenant {
    /// Everything that a run has always had.
    Quiet,
    /// Posts more than the workers decide at once.
    Busy,
}

impl SimTenant {
    pub(crate) fn id(self) -> TenantId {
        match self {
            Self::Quiet => TenantId::default_tenant(),
            Self::Busy => TenantId::parse("busy").unwrap_or_else(|_| TenantId::default_tenant()),
        }
    }

    /// The key of its clients, where keys are needed.
    pub(crate) const fn secret(self) -> &'static str {
        match self {
            Self::Quiet => "ms_quiet",
            Self::Busy => "ms_busy",
        }
    }
}

/// Gives every tenant its definitions; with several tenants keys, by which the doors tell them apart.
pub(crate) async fn settle_in(world: &World) -> Result<()> {
    let (tenants, now) = (world.plan.tenants, world.clock.now());
    for tenant in tenants {
        for definition in workload::definitions() {
            world.truth.definitions.put(&tenant.id(), definition, now).await?;
        }
        if tenants.len() > 1 {
            let hash = Sha256::digest(tenant.secret().as_bytes()).into();
            let key = NewKey::of(tenant.id(), tenant.secret(), Role::Admin, hash);
            world.truth.keys.create_key(&key, now).await?;
        }
    }
    Ok(())
}
