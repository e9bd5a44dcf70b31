//! Authentication: the identity of the caller, and the permissions of its key.
//!
//! Reading order: `identity` (the caller, from the headers alone), `authorize` (layers that refuse a
//! request before it takes a slot and before its body is read), `lookup` (cached keys), `waiting_lookups`
//! (keys that wait for a batch), `life` (open calls end when their key is revoked or expires), `fleet_keys`
//! (the same keys for the listener of a worker).
//!
//! Tenant, role and actor come from the key alone. A route or a gRPC method declares the permission it
//! needs; the layers check that declaration, and no handler compares roles.

mod authorize;
mod fleet_keys;
mod identity;
mod life;
mod lookup;
mod waiting_lookups;

pub(crate) use authorize::{authorize_call, authorize_request, is_open};
pub use fleet_keys::FleetKeys;
pub(crate) use identity::{CallerIdentity, TenantCaller};
pub(crate) use life::{attend_keys, run_while_live};
pub(crate) use lookup::KeyLookup;
