//! Who is calling, and whether its key permits the call.
//!
//! Reading order: `identity` (who is calling, from the headers alone), `authorize` (the layers that refuse a request
//! before it takes a slot or a byte of its body is read), `lookup` (keys that were looked up lately), `waiting_lookups` (keys that are not yet), `life`
//! (what is open ends when its key is revoked or expires), `fleet_keys` (the same keys for the listener of a worker).
//!
//! Tenant, role and actor come from the key and from nowhere else. A route or a gRPC method declares the permission
//! it needs; the layers check that declaration, and no handler compares roles.

mod authorize;
mod fleet_keys;
mod identity;
mod life;
mod lookup;
mod waiting_lookups;

pub(crate) use authorize::{authorize, authorize_call, is_open};
pub use fleet_keys::FleetKeys;
pub(crate) use identity::{Caller, Identity};
pub(crate) use life::{attend_keys, run_while_live};
pub(crate) use lookup::KeyLookup;
