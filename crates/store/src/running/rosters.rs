//! The devices as this process knows them: read once a second at most, and kept up with what it hears and gives out.
//!
//! A choice among a thousand devices would otherwise read a thousand rows. Nothing rests on it being right: whoever
//! is chosen from it is looked at again before the write ([`super::planning`]), and where it knows nobody
//! who could, the store is asked. What may be late is how others' loads compare.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use millstream_core::claim::{Candidate, Device, Roster};
use millstream_core::id::{DeviceId, DeviceKey, TenantId};
use millstream_core::time::Timestamp;

use crate::{Result, Stores};

/// What devices say of their load is as old as their last heartbeat, which is many seconds: one more does not
/// choose worse.
const FRESH: Duration = Duration::from_secs(1);
/// Tenants that are kept in mind.
const TENANTS: usize = 100;
/// Devices read at once.
const PAGE: usize = 1_000;
/// More are not looked at for one choice.
const MOST: usize = 10_000;

#[derive(Debug, Default)]
pub struct Rosters(Mutex<BTreeMap<TenantId, Kept>>);

#[derive(Debug)]
struct Kept {
    read_at: Timestamp,
    roster: Roster,
}

impl Rosters {
    /// As it is known, if that is not too old.
    pub(super) fn known(&self, tenant: &TenantId, now: Timestamp) -> Option<Roster> {
        let kept = self.kept();
        let kept = kept.get(tenant)?;
        let is_fresh = kept.read_at <= now && now.since(kept.read_at) < FRESH;
        is_fresh.then(|| kept.roster.clone())
    }

    /// As it is, and is known from now on.
    pub(super) async fn read(&self, stores: &Stores, tenant: &TenantId, now: Timestamp) -> Result<Roster> {
        let roster = read(stores, tenant).await?;
        let mut kept = self.kept();
        if kept.len() >= TENANTS && !kept.contains_key(tenant) {
            let oldest = kept.iter().min_by_key(|(_, kept)| kept.read_at).map(|(tenant, _)| tenant.clone());
            oldest.and_then(|oldest| kept.remove(&oldest));
        }
        kept.insert(tenant.clone(), Kept { read_at: now, roster: roster.clone() });
        Ok(roster)
    }

    /// A device has spoken through this process.
    pub fn hear(&self, tenant: &TenantId, device: &Device, now: Timestamp) {
        if let Some(kept) = self.kept().get_mut(tenant) {
            kept.roster.hear(Device { seen_at: now, ..device.clone() });
        }
    }

    /// Something about the devices of a tenant is different.
    pub fn forget(&self, tenant: &TenantId) {
        self.kept().remove(tenant);
    }

    /// A device as it was just read; `None`: there is none.
    pub(super) fn correct(&self, key: &DeviceKey, candidate: Option<Candidate>) {
        if let Some(kept) = self.kept().get_mut(&key.tenant) {
            match candidate {
                Some(candidate) => kept.roster.put(candidate),
                None => kept.roster.remove(&key.device),
            }
        }
    }

    /// Devices have so many seats more, or fewer.
    pub(super) fn shift<'a>(&self, shifts: impl IntoIterator<Item = (&'a DeviceKey, i64)>) {
        let mut all = self.kept();
        for (key, seats) in shifts {
            if let Some(kept) = all.get_mut(&key.tenant) {
                kept.roster.shift(&key.device, seats);
            }
        }
    }

    fn kept(&self) -> MutexGuard<'_, BTreeMap<TenantId, Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn read(stores: &Stores, tenant: &TenantId) -> Result<Roster> {
    let mut all: Vec<Candidate> = Vec::new();
    while all.len() < MOST {
        let after: Option<DeviceId> = all.last().map(|last| last.device.id.clone());
        let page = stores.devices.roster(tenant, after.as_ref(), PAGE).await?;
        let is_last = page.len() < PAGE;
        all.extend(page);
        if is_last {
            break;
        }
    }
    Ok(all.into_iter().collect())
}
