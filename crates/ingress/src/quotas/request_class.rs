//! Request classes: which requests are still admitted when a tenant has reached its rate limit or its
//! share.
//!
//! The tenant can stop what it started, and can learn the outcome of a request that it sent before. Neither
//! class takes capacity from others: beyond its share a tenant may use an eighth of the process, and beyond
//! its rate a second bucket of the same rate serves requests with an idempotency key.

use axum::http::HeaderMap;
use millstream_model::permission::Permission;

/// How a request counts against the rate and the share of its tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestClass {
    /// Refused beyond the rate or the share.
    Ordinary,
    /// With an idempotency key that the handler looks up: answered if the key is known, refused otherwise.
    Keyed,
    /// Cancels, retries, resolutions, and operators' acts on keys and quotas: exempt from the rate, with a
    /// reserve.
    OperatorAct,
}

/// Whether the handler answers repeats by their idempotency key before it writes anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RepeatAnswer {
    ByKey,
    None,
}

impl RequestClass {
    pub(crate) fn of(needs: Option<Permission>, repeats: RepeatAnswer, headers: &HeaderMap) -> Self {
        match (needs.is_some_and(is_operator_act), repeats) {
            (true, _) => Self::OperatorAct,
            (false, RepeatAnswer::ByKey) if headers.contains_key("idempotency-key") => Self::Keyed,
            (false, RepeatAnswer::ByKey | RepeatAnswer::None) => Self::Ordinary,
        }
    }
}

const fn is_operator_act(needs: Permission) -> bool {
    match needs {
        Permission::Operate | Permission::ManageKeys | Permission::ManageQuotas | Permission::ReadQuotas => {
            true
        }
        Permission::ReadData
        | Permission::PostEvents
        | Permission::ManageDefinitions
        | Permission::LeaseTasks
        | Permission::ServeNodes
        | Permission::RegisterExecutor
        | Permission::RetireExecutor
        | Permission::ActAsDevice
        | Permission::WorkAsPerson
        | Permission::SeeStatus
        | Permission::SeeFleet => false,
    }
}
