//! API keys on a listener other than the ingress: the metrics of a worker.
//!
//! The same cached and bounded lookups as at the ingress: a scraper costs the store one query every few
//! seconds.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, StatusCode};
use millstream_model::permission::Permission;
use millstream_store::StoreResult;
use millstream_store::clock::Clock;
use millstream_store::key_store::KeyStore;

use super::problem::status_of_kind;
use crate::auth::{KeyLookup, KeyOrigin, authenticate_key};
use crate::connection_use::ClientNetwork;

/// Cache time of a key, or of its absence.
const BELIEVED: Duration = Duration::from_secs(3);

/// Key check for data of all tenants.
#[derive(Debug)]
pub struct FleetKeys(KeyLookup);

impl FleetKeys {
    pub fn of(store: Arc<dyn KeyStore>, clock: Arc<dyn Clock>) -> Self {
        Self(KeyLookup::of(store, clock, BELIEVED))
    }

    /// Whether a key was ever created: from then on one is required. Cached for a few seconds.
    pub async fn keys_exist(&self) -> StoreResult<bool> {
        self.0.keys_exist().await
    }

    /// Checks the headers; `Err` holds the status and the reason of the refusal.
    pub async fn require_permission(
        &self,
        headers: &HeaderMap,
        needs: Permission,
    ) -> Result<(), (StatusCode, String)> {
        // All clients of this listener share the lookup places of one network.
        let origin = KeyOrigin::Unproven(ClientNetwork::of(IpAddr::V4(Ipv4Addr::UNSPECIFIED)));
        let identified = authenticate_key(headers, origin, &self.0).await;
        let permitted = identified.and_then(|identity| identity.require_permission(needs));
        permitted.map_err(|refusal| (status_of_kind(refusal.kind), refusal.detail))
    }
}
