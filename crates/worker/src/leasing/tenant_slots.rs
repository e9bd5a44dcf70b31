//! Slots per tenant: how many slots of this worker its actions hold, without graph nodes.
//!
//! A lease is requested only within the quota `action_slots` of its tenant: slots are reserved first, so that
//! commits and the lease of due actions together stay within the quota. Dependents of settled actions take
//! over the slots of those.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millstream_model::id::TenantId;
use tokio::sync::Notify;

#[derive(Debug, Default, Clone)]
pub(crate) struct TenantSlots(Arc<TenantSlotTable>);

#[derive(Debug, Default)]
struct TenantSlotTable {
    tenants: Mutex<BTreeMap<TenantId, TenantSlotCount>>,
    /// A tenant that waited for a slot has one.
    freed: Notify,
}

#[derive(Debug, Default, Clone, Copy)]
struct TenantSlotCount {
    held: usize,
    /// Reserved for leases that are being requested.
    aside: usize,
    is_awaited: bool,
}

/// Reserved slots of a tenant, released when dropped.
#[derive(Debug)]
pub(crate) struct TenantSlotReservation {
    slots: TenantSlots,
    tenant: TenantId,
    count: usize,
}

impl TenantSlots {
    fn lock_tenants(&self) -> MutexGuard<'_, BTreeMap<TenantId, TenantSlotCount>> {
        self.0.tenants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn held_by_tenant(&self) -> BTreeMap<TenantId, usize> {
        let tenants = self.lock_tenants();
        let holding = tenants.iter().filter(|(_, count)| count.held > 0);
        holding.map(|(tenant, count)| (tenant.clone(), count.held)).collect()
    }

    /// How many more slots the tenant may have, of `most`.
    pub(crate) fn free_of_tenant(&self, tenant: &TenantId, most: usize) -> usize {
        self.lock_tenants().get(tenant).map_or(most, |count| most.saturating_sub(count.held + count.aside))
    }

    /// Reserves as many of `wanted` as the tenant may have, of `most`.
    pub(crate) fn reserve_some(
        &self,
        tenant: &TenantId,
        wanted: usize,
        most: usize,
    ) -> TenantSlotReservation {
        let mut tenants = self.lock_tenants();
        let count = tenants.entry(tenant.clone()).or_default();
        let wanted = wanted.min(most.saturating_sub(count.held + count.aside));
        count.aside += wanted;
        TenantSlotReservation { slots: self.clone(), tenant: tenant.clone(), count: wanted }
    }

    /// Reserves all of `wanted`; `None` where that exceeds the tenant's limit, or the tenant is over it
    /// already.
    pub(crate) fn reserve_all(
        &self,
        tenant: &TenantId,
        wanted: usize,
        most: usize,
    ) -> Option<TenantSlotReservation> {
        let mut tenants = self.lock_tenants();
        let count = tenants.entry(tenant.clone()).or_default();
        if wanted > most.saturating_sub(count.held + count.aside) || count.held > most {
            return None;
        }
        count.aside += wanted;
        Some(TenantSlotReservation { slots: self.clone(), tenant: tenant.clone(), count: wanted })
    }

    pub(super) fn take_slot(&self, tenant: &TenantId) {
        self.lock_tenants().entry(tenant.clone()).or_default().held += 1;
    }

    pub(super) fn release_slot(&self, tenant: &TenantId) {
        self.decrease_count(tenant, |count| count.held = count.held.saturating_sub(1));
    }

    /// [`freed`](Self::until_freed) returns when the tenant has a free slot within `most`.
    pub(crate) fn await_room(&self, tenant: &TenantId, most: usize) {
        match self.lock_tenants().get_mut(tenant) {
            Some(count) if count.held + count.aside >= most => count.is_awaited = true,
            Some(_) | None => self.0.freed.notify_one(),
        }
    }

    pub(crate) async fn until_freed(&self) {
        self.0.freed.notified().await;
    }

    fn decrease_count(&self, tenant: &TenantId, change: impl FnOnce(&mut TenantSlotCount)) {
        let mut tenants = self.lock_tenants();
        let Some(count) = tenants.get_mut(tenant) else { return };
        change(count);
        if std::mem::take(&mut count.is_awaited) {
            self.0.freed.notify_one();
        }
        if count.held == 0 && count.aside == 0 {
            tenants.remove(tenant);
        }
    }
}

impl TenantSlotReservation {
    pub(crate) fn len(&self) -> usize {
        self.count
    }
}

impl Drop for TenantSlotReservation {
    fn drop(&mut self) {
        self.slots.decrease_count(&self.tenant, |count| count.aside = count.aside.saturating_sub(self.count));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str) -> TenantId {
        TenantId::parse(name).unwrap()
    }

    #[test]
    fn reserved_slots_count_against_quota() {
        let (slots, noisy) = (TenantSlots::default(), tenant("noisy"));
        slots.take_slot(&noisy);
        let aside = slots.reserve_some(&noisy, 9, 4);
        assert_eq!((aside.len(), slots.free_of_tenant(&noisy, 4)), (3, 0));
        assert!(slots.reserve_all(&noisy, 1, 4).is_none());
        assert_eq!(slots.free_of_tenant(&tenant("quiet"), 4), 4);
        drop(aside);
        assert_eq!(slots.free_of_tenant(&noisy, 4), 3);
        assert_eq!(slots.reserve_all(&noisy, 3, 4).map(|aside| aside.len()), Some(3));
        assert_eq!(slots.held_by_tenant(), [(noisy.clone(), 1)].into());
        slots.release_slot(&noisy);
        assert!(slots.lock_tenants().is_empty());
    }

    #[test]
    fn tenant_over_lowered_quota_gets_no_slot() {
        let (slots, noisy) = (TenantSlots::default(), tenant("noisy"));
        slots.take_slot(&noisy);
        slots.take_slot(&noisy);
        assert!(slots.reserve_all(&noisy, 0, 1).is_none());
        slots.release_slot(&noisy);
        assert!(slots.reserve_all(&noisy, 0, 1).is_some());
    }

    #[tokio::test]
    async fn freed_slot_wakes_waiting_tenant() {
        let (slots, noisy) = (TenantSlots::default(), tenant("noisy"));
        slots.take_slot(&noisy);
        slots.await_room(&noisy, 1);
        let mut freed = std::pin::pin!(slots.until_freed());
        assert!(futures::poll!(&mut freed).is_pending());
        slots.release_slot(&noisy);
        freed.await;
        slots.await_room(&noisy, 1);
        slots.until_freed().await;
    }
}
