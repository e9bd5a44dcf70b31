//! Quotas: limits on one tenant's use of shared resources.
//!
//! A quota has a name from a closed set ([`QuotaName`]) and a value ([`QuotaValue`]). Three layers supply
//! values: a row of the store, the settings file, and the built-in defaults ([`effective`]). Quotas are
//! checked at the edge only; they never refuse what the engine itself produces. Rate limits are token buckets
//! ([`bucket`]).
//!
//! Refuses: counting (the store counts), clocks (`now` is a parameter), and the size of a process (a share
//! becomes a number where the capacity is known: [`QuotaValue::of_capacity`]).

pub mod bucket;
pub mod effective;
pub mod name;
pub mod refusal;
pub mod set;
pub mod value;

pub use bucket::{BucketRate, TokenBucket};
pub use effective::{EffectiveQuota, QuotaSettings, QuotaSource, QuotaSourced};
pub use name::{CountedQuota, QuotaName, QuotaUnit};
pub use refusal::QuotaRefusal;
pub use set::QuotaSet;
pub use value::QuotaValue;
