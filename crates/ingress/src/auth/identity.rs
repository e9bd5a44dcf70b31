//! The caller's identity, derived from its key.

use std::sync::Arc;

use millstream_model::id::{DeviceId, PersonId, TenantId};
use millstream_model::permission::Permission;
use millstream_model::status::Role;

use super::life::HeldKey;
use crate::refusal::{RefusalKind, RequestRefusal};

/// An authenticated caller. An operator belongs to no tenant.
#[derive(Debug, Clone)]
pub(crate) struct CallerIdentity {
    pub(super) tenant: Option<TenantId>,
    pub(super) rights: CallerRights,
    /// The name of the key; `None` where no key is needed.
    pub(super) actor: Option<String>,
    /// The person or the device that the key is bound to.
    pub(super) bound_to: Option<Arc<str>>,
    /// Streams and waits of the caller end with this key; `None` where no key is needed.
    pub(super) key: Option<HeldKey>,
}

/// The permissions of a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallerRights {
    /// No key exists, and none is needed.
    Open,
    Key(Role),
}

/// A caller with a tenant: the type that almost every handler takes.
#[derive(Debug, Clone)]
pub(crate) struct TenantCaller {
    pub(crate) tenant: TenantId,
    /// The name of the key; `None` where no key is needed.
    pub(crate) actor: Option<String>,
    rights: CallerRights,
    bound_to: Option<Arc<str>>,
}

impl CallerIdentity {
    /// The open identity: tenant `default`, all permissions.
    pub(super) fn open_identity() -> Self {
        Self {
            tenant: Some(TenantId::default_tenant()),
            rights: CallerRights::Open,
            actor: None,
            bound_to: None,
            key: None,
        }
    }

    pub(crate) fn permits(&self, needs: Permission) -> bool {
        self.rights.permits(needs)
    }

    /// Refuses a call that the role does not permit.
    pub(crate) fn require_permission(&self, needs: Permission) -> Result<(), RequestRefusal> {
        self.rights.require_permission(needs)
    }

    pub(crate) fn key(&self) -> Option<HeldKey> {
        self.key
    }

    pub(crate) fn tenant_caller(&self) -> Option<TenantCaller> {
        let Self { tenant, rights, actor, bound_to, key: _ } = self.clone();
        tenant.map(|tenant| TenantCaller { tenant, actor, rights, bound_to })
    }
}

impl CallerRights {
    fn permits(self, needs: Permission) -> bool {
        match self {
            Self::Open => true,
            Self::Key(role) => role.permits(needs),
        }
    }

    fn require_permission(self, needs: Permission) -> Result<(), RequestRefusal> {
        match self {
            Self::Key(role) if !role.permits(needs) => Err(permission_refusal(role, needs)),
            Self::Open | Self::Key(_) => Ok(()),
        }
    }
}

fn permission_refusal(role: Role, needs: Permission) -> RequestRefusal {
    let roles = Role::permitted_roles(needs);
    let mut detail = format!(
        "this call needs the permission {needs}, which keys with the role {roles} have; this key has the role {role}"
    );
    if !role.has_tenant() {
        detail.push_str(" and belongs to no tenant");
    }
    if needs == Permission::RegisterExecutor {
        detail.push_str("; create a key with `millstream keys create NAME --role executor`");
    }
    RequestRefusal::new(RefusalKind::Forbidden, detail)
}

impl TenantCaller {
    /// Refuses a call that the role does not permit, for a part of a request that needs more than its
    /// route.
    pub(crate) fn require_permission(&self, needs: Permission) -> Result<(), RequestRefusal> {
        self.rights.require_permission(needs)
    }

    /// Refuses a key that is bound to another person.
    pub(crate) fn require_person(&self, person: &PersonId) -> Result<(), RequestRefusal> {
        self.require_bound(Role::Work, person.as_str(), "person")
    }

    /// Refuses a key that is bound to another device.
    pub(crate) fn require_device(&self, device: &DeviceId) -> Result<(), RequestRefusal> {
        self.require_bound(Role::Device, device.as_str(), "device")
    }

    fn require_bound(&self, role: Role, named: &str, kind: &str) -> Result<(), RequestRefusal> {
        match &self.bound_to {
            Some(bound) if self.rights == CallerRights::Key(role) && **bound != *named => {
                let detail = format!("this key is bound to the {kind} {bound:?} and cannot act as {named:?}");
                Err(RequestRefusal::new(RefusalKind::Forbidden, detail))
            }
            Some(_) | None => Ok(()),
        }
    }
}
