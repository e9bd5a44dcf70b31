//! Quotas of tenants, at the edge: rates, shares of what this process has, and counts of rows.
//!
//! A request costs one lookup of its tenant and a few atomic operations; counting rows is the work of a task
//! ([`mod@follow`]). Rates and shares are of this process; counts are of the whole store, seconds old, with what this
//! process admitted since added to them ([`counts`]). What the engine produces does not pass here.

mod admission;
mod counts;
mod creations;
mod follow;
mod held;
mod rates;
mod request_class;
mod tenant_quotas;

pub(crate) use admission::{HeldPlace, StartCharge};
pub(crate) use follow::follow;
pub(crate) use held::{HeldQuota, QuotaPermit};
pub(crate) use rates::RateQuota;
pub(crate) use request_class::{RepeatAnswer, RequestClass};
pub(crate) use tenant_quotas::TenantQuotas;
use tenant_quotas::TenantUse;
