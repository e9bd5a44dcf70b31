//! Authentication: the identity of the caller, and the permissions of its key.
//!
//! Reading order: `identity` (the caller, from the headers alone), `authorize` (the check of a
//! call before it takes a slot and before its body is read), `lookup` (cached keys), `waiting_lookups` (keys
//! that wait for a batch), `life` (open calls end when their key is revoked or expires).
//!
//! Tenant, role and actor come from the key alone. A route or a gRPC method declares the permission it
//! needs; the layers check that declaration, and no handler compares roles.

mod authorize;
mod identity;
mod life;
mod lookup;
mod waiting_lookups;

pub(crate) use authorize::{CallAuthenticator, authenticate_key};
pub(crate) use identity::{CallerIdentity, TenantCaller};
pub(crate) use life::{attend_keys, run_while_live};
pub(crate) use lookup::KeyLookup;
pub(crate) use waiting_lookups::KeyOrigin;
