//! Tenants of a run: the quiet tenant and, in every other seed, a busy one with a backlog.
//!
//! Both use the same execution ids: a decision, an action or an answer for the wrong tenant violates a
//! guarantee.

use millstream_model::id::TenantId;
use millstream_model::status::Role;
use millstream_store::StoreResult;
use millstream_store::clock::Clock;
use millstream_store::key_store::NewKey;
use sha2::{Digest, Sha256};

use crate::workload;
use crate::world::SimWorld;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SimTenant {
    /// The tenant of every run.
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

    /// The key of its clients, where keys are required.
    pub(crate) const fn secret(self) -> &'static str {
        match self {
            Self::Quiet => "ms_quiet",
            Self::Busy => "ms_busy",
        }
    }
}

/// Creates the definitions of every tenant and, with several tenants, keys by which the ingresses distinguish
/// them.
pub(crate) async fn settle_in(world: &SimWorld) -> StoreResult<()> {
    let (tenants, now) = (world.plan.tenants, world.clock.now());
    for tenant in tenants {
        for definition in workload::sim_definitions() {
            world.truth.definitions.put_definition(&tenant.id(), definition, now).await?;
        }
        if tenants.len() > 1 {
            let hash = Sha256::digest(tenant.secret().as_bytes()).into();
            let key = NewKey::for_tenant(tenant.id(), tenant.secret(), Role::Admin, hash);
            world.truth.keys.create_key(&key, now).await?;
        }
    }
    Ok(())
}
