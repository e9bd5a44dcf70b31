//! Quotas: what one tenant may use of what all tenants share.
//!
//! A quota has a name out of a closed set ([`QuotaName`]) and a value ([`QuotaValue`]). Three layers give values: a
//! row of the store, the settings file, and what is built in ([`effective`]). Quotas are checked at the edge alone;
//! what the engine produces is never refused by one. Rates are token buckets ([`bucket`]).
//!
//! Refuses: counting (that is the store's work), clocks (`now` is a parameter), and knowing how large a process is
//! (a share becomes a number where the capacity is known: [`QuotaValue::of_capacity`]).

pub mod bucket;
pub mod caps;
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
