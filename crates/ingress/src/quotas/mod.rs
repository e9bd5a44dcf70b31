//! Quotas of tenants at the ingress: rate limits, shares of this process's resources, and counts of rows.
//!
//! A request costs one lookup of its tenant and a few atomic operations; a task counts the rows
//! ([`refresh`]). Rates and shares are per process; counts are of the whole store, seconds old, plus the
//! rows that this process has admitted since ([`counts`]). Rows that the engine itself creates are not
//! checked here.

mod counts;
mod held;
mod rates;
mod refresh;
mod request_class;
mod tenant_quotas;

pub(crate) use held::{HeldQuota, QuotaPermit};
pub(crate) use rates::RateQuota;
pub(crate) use refresh::refresh_quotas;
pub(crate) use request_class::{RepeatAnswer, RequestClass};
pub(crate) use tenant_quotas::TenantQuotas;
use tenant_quotas::TenantUse;
