//! What a tenant may still ask for when it is at its request rate or holds its share of the requests in flight.
//!
//! It can stop what it started, and it learns what became of a request that it sent before. Neither takes the places
//! of the others: beyond its share a tenant has an eighth of the process, and beyond its rate a second bucket of the
//! same rate for requests with an idempotency key.

use axum::http::HeaderMap;
use millstream_core::permission::Permission;

/// How a request counts against the rate and the share of its tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestClass {
    /// Refused beyond the rate or the share.
    Ordinary,
    /// Has an idempotency key that its handler looks up: answered if the key is known, refused otherwise.
    Keyed,
    /// Cancels, retries, resolutions, and what an operator does about keys and quotas: no rate, and a reserve.
    OperatorAct,
}

/// Whether the handler of a route answers a repeat by its idempotency key before it makes anything durable.
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
