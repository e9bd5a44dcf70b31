//! Permissions of API key roles: one closed set of permissions, one pure function.
//!
//! Every HTTP route and every gRPC method names the [`Permission`] it needs; [`Role::permits`] decides. No handler
//! compares roles. All permissions except those of the fleet concern only the tenant of the key.

use crate::status::Role;
use crate::words;

words! {
    /// The permission that a call needs.
    Permission {
        /// Read executions, graphs, runs, items, definitions and all other data of the tenant.
        ReadData = "read_data",
        /// Start executions and runs, create and edit graphs, post events and signals, import items.
        PostEvents = "post_events",
        /// Write definitions, queues and people.
        ManageDefinitions = "manage_definitions",
        /// Cancel, retry, pause, resume, assign, resolve, withdraw, correct.
        Operate = "operate",
        /// Lease tasks and report their outcomes.
        LeaseTasks = "lease_tasks",
        /// Report results and progress of graph nodes.
        ServeNodes = "serve_nodes",
        /// Register an executor: workers connect to its address.
        RegisterExecutor = "register_executor",
        /// Remove an executor from the registry.
        RetireExecutor = "retire_executor",
        /// Register a device, send its heartbeats, read its assignments, act on its runs.
        ActAsDevice = "act_as_device",
        /// Ask for work and act on assignments in the name of a person.
        WorkAsPerson = "work_as_person",
        /// List, create, rotate and revoke API keys.
        ManageKeys = "manage_keys",
        /// Read the quotas and the use of a tenant.
        ReadQuotas = "read_quotas",
        /// Change the quotas of any tenant.
        ManageQuotas = "manage_quotas",
        /// Read the process-level metrics and the list of workers without hosts.
        SeeStatus = "see_status",
        /// Read the metrics that count all tenants, and on which hosts workers run.
        SeeFleet = "see_fleet",
    }
}

impl Role {
    /// Whether a key of this role may make a call that needs `permission`.
    pub const fn permits(self, permission: Permission) -> bool {
        use Permission as P;
        match self {
            Self::Admin => match permission {
                P::ReadData
                | P::PostEvents
                | P::ManageDefinitions
                | P::Operate
                | P::LeaseTasks
                | P::ServeNodes
                | P::RegisterExecutor
                | P::RetireExecutor
                | P::ActAsDevice
                | P::WorkAsPerson
                | P::ManageKeys
                | P::ReadQuotas
                | P::SeeStatus => true,
                P::ManageQuotas | P::SeeFleet => false,
            },
            Self::Operator => matches!(
                permission,
                P::ManageKeys | P::ReadQuotas | P::ManageQuotas | P::SeeStatus | P::SeeFleet
            ),
            Self::Submit => matches!(
                permission,
                P::ReadData
                    | P::PostEvents
                    | P::LeaseTasks
                    | P::ServeNodes
                    | P::RetireExecutor
                    | P::ActAsDevice
                    | P::WorkAsPerson
                    | P::SeeStatus
            ),
            Self::Read => matches!(permission, P::ReadData | P::SeeStatus),
            Self::Worker => matches!(permission, P::LeaseTasks),
            Self::Executor => {
                matches!(permission, P::ServeNodes | P::RegisterExecutor | P::RetireExecutor)
            }
            Self::Device => matches!(permission, P::ActAsDevice),
            Self::Work => matches!(permission, P::WorkAsPerson),
        }
    }

    /// Whether a key of this role may create, rotate or revoke a key of the role `wanted`.
    ///
    /// A tenant key grants at most its own permissions. An operator issues the keys of every tenant: that is
    /// its task, although it cannot read a tenant's data itself. The list of keys shows the creator of each
    /// key.
    pub const fn may_grant(self, wanted: Self) -> bool {
        match self {
            Self::Operator => true,
            Self::Admin => match wanted {
                Self::Operator => false,
                Self::Admin
                | Self::Submit
                | Self::Read
                | Self::Worker
                | Self::Executor
                | Self::Device
                | Self::Work => true,
            },
            Self::Submit | Self::Read | Self::Worker | Self::Executor | Self::Device | Self::Work => false,
        }
    }

    /// Whether keys of this role belong to a tenant.
    pub const fn has_tenant(self) -> bool {
        !matches!(self, Self::Operator)
    }

    /// A one-line description of the role.
    pub const fn summary(self) -> &'static str {
        match self {
            Self::Admin => "everything within its tenant, keys included",
            Self::Operator => {
                "the fleet: keys and quotas of every tenant, metrics, workers; no tenant's data"
            }
            Self::Submit => "a backend: posts and reads, leases tasks, acts for devices and people",
            Self::Read => "reads everything of its tenant",
            Self::Worker => "leases tasks and reports their outcomes",
            Self::Executor => "registers as an executor and reports results of graph nodes",
            Self::Device => "device calls and run acts; bound to one device if the key names it",
            Self::Work => "works on assignments as the one person that the key names",
        }
    }

    /// The roles whose keys may make a call that needs `permission`, joined by commas.
    pub fn permitted_roles(permission: Permission) -> String {
        let roles = Self::ALL.iter().filter(|role| role.permits(permission));
        roles.map(|role| role.as_str()).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenant_key_grants_own_permissions_only() {
        for creator in Role::ALL {
            for wanted in Role::ALL {
                let within = Permission::ALL.iter().all(|p| !wanted.permits(*p) || creator.permits(*p));
                let expected =
                    *creator == Role::Operator || (creator.permits(Permission::ManageKeys) && within);
                assert_eq!(creator.may_grant(*wanted), expected, "{creator} grants {wanted}");
            }
        }
    }

    #[test]
    fn operator_cannot_access_tenant_data() {
        let data = [
            Permission::ReadData,
            Permission::PostEvents,
            Permission::ManageDefinitions,
            Permission::Operate,
            Permission::LeaseTasks,
            Permission::ServeNodes,
            Permission::ActAsDevice,
            Permission::WorkAsPerson,
        ];
        assert!(data.iter().all(|permission| !Role::Operator.permits(*permission)));
    }

    #[test]
    fn every_permission_has_a_role() {
        assert!(!Role::Submit.permits(Permission::RegisterExecutor));
        assert_eq!(Role::permitted_roles(Permission::RegisterExecutor), "admin, executor");
        for permission in Permission::ALL {
            assert!(!Role::permitted_roles(*permission).is_empty(), "{permission}");
        }
    }
}
