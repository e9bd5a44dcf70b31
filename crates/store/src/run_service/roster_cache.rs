//! Roster cache: the devices as this process knows them, read once a second at most, and updated by
//! heartbeats and assignments that pass through this process.
//!
//! A choice among a thousand devices would otherwise read a thousand rows. The cache may be wrong: every
//! chosen device is read again before the write ([`super::round_plan`]), and when no cached device suits, the
//! store is asked. Only the comparison of loads may be stale.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use millstream_devices::claim::{DeviceCandidate, DeviceReport, DeviceRoster};
use millstream_model::id::{DeviceId, DeviceKey, TenantId};
use millstream_model::time::Timestamp;

use crate::{StoreResult, Stores};

/// A device's reported load is as old as its last heartbeat, which is many seconds: one more second does not
/// make choices worse.
const FRESH: Duration = Duration::from_secs(1);
/// Cached tenants.
const TENANTS: usize = 100;
/// Devices per read.
const PAGE: usize = 1_000;
/// Upper bound on devices for one choice.
const MOST: usize = 10_000;

#[derive(Debug, Default)]
pub struct RosterCache(Mutex<BTreeMap<TenantId, CachedRoster>>);

#[derive(Debug)]
struct CachedRoster {
    read_at: Timestamp,
    roster: DeviceRoster,
}

impl RosterCache {
    /// The cached roster, if it is fresh.
    pub(super) fn fresh_roster(&self, tenant: &TenantId, now: Timestamp) -> Option<DeviceRoster> {
        let kept = self.lock_rosters();
        let kept = kept.get(tenant)?;
        let is_fresh = kept.read_at <= now && now.since(kept.read_at) < FRESH;
        is_fresh.then(|| kept.roster.clone())
    }

    /// Reads the roster and caches it.
    pub(super) async fn read_roster(
        &self,
        stores: &Stores,
        tenant: &TenantId,
        now: Timestamp,
    ) -> StoreResult<DeviceRoster> {
        let roster = read_all_pages(stores, tenant).await?;
        let mut kept = self.lock_rosters();
        if kept.len() >= TENANTS && !kept.contains_key(tenant) {
            let oldest = kept.iter().min_by_key(|(_, kept)| kept.read_at).map(|(tenant, _)| tenant.clone());
            oldest.and_then(|oldest| kept.remove(&oldest));
        }
        kept.insert(tenant.clone(), CachedRoster { read_at: now, roster: roster.clone() });
        Ok(roster)
    }

    /// Updates the cache with a device's heartbeat.
    pub fn record_heartbeat(&self, tenant: &TenantId, device: &DeviceReport, now: Timestamp) {
        if let Some(kept) = self.lock_rosters().get_mut(tenant) {
            kept.roster.update_report(DeviceReport { seen_at: now, ..device.clone() });
        }
    }

    /// Invalidates the cached roster of a tenant.
    pub fn invalidate_tenant(&self, tenant: &TenantId) {
        self.lock_rosters().remove(tenant);
    }

    /// Replaces a device with a fresh read; `None`: it does not exist.
    pub(super) fn replace_device(&self, key: &DeviceKey, candidate: Option<DeviceCandidate>) {
        if let Some(kept) = self.lock_rosters().get_mut(&key.tenant) {
            match candidate {
                Some(candidate) => kept.roster.put(candidate),
                None => kept.roster.remove(&key.device),
            }
        }
    }

    /// Adds to the seat counts of devices.
    pub(super) fn shift_seats<'a>(&self, shifts: impl IntoIterator<Item = (&'a DeviceKey, i64)>) {
        let mut all = self.lock_rosters();
        for (key, seats) in shifts {
            if let Some(kept) = all.get_mut(&key.tenant) {
                kept.roster.shift_open_seats(&key.device, seats);
            }
        }
    }

    fn lock_rosters(&self) -> MutexGuard<'_, BTreeMap<TenantId, CachedRoster>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn read_all_pages(stores: &Stores, tenant: &TenantId) -> StoreResult<DeviceRoster> {
    let mut all: Vec<DeviceCandidate> = Vec::new();
    while all.len() < MOST {
        let after: Option<DeviceId> = all.last().map(|last| last.device.id.clone());
        let page = stores.devices.read_roster(tenant, after.as_ref(), PAGE).await?;
        let is_last = page.len() < PAGE;
        all.extend(page);
        if is_last {
            break;
        }
    }
    Ok(all.into_iter().collect())
}
