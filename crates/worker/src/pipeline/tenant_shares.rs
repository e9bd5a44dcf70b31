//! Fair shares of a worker's inbox between tenants (backpressure per tenant). Pure.
//!
//! The inbox is finite. A tenant is *full* when the worker holds enough of its doorbells to be busy with them
//! for a while; the stream then keeps the rest of its backlog out of the lanes, so that the inbox and the
//! lanes have room for the others. A tenant that is alone may fill half of the inbox; the share falls with
//! the number of active tenants, down to one batch.

use std::collections::{BTreeSet, HashMap};

use millstream_model::id::TenantId;

#[derive(Debug, Default)]
pub(crate) struct TenantShares(HashMap<TenantId, TenantShare>);

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct TenantShare {
    doorbells: usize,
    /// Visits under way.
    visits: usize,
}

impl TenantShares {
    pub(crate) fn hold_doorbell(&mut self, tenant: &TenantId) {
        self.update_share(tenant, |share| share.doorbells += 1);
    }

    pub(crate) fn release_doorbells(&mut self, tenant: &TenantId, count: usize) {
        self.update_share(tenant, |share| share.doorbells = share.doorbells.saturating_sub(count));
    }

    pub(crate) fn begin_visit(&mut self, tenant: &TenantId) {
        self.update_share(tenant, |share| share.visits += 1);
    }

    pub(crate) fn end_visit(&mut self, tenant: &TenantId) {
        self.update_share(tenant, |share| share.visits = share.visits.saturating_sub(1));
    }

    pub(crate) fn is_visited(&self, tenant: &TenantId) -> bool {
        self.0.get(tenant).is_some_and(|share| share.visits > 0)
    }

    pub(crate) fn clear_all(&mut self) {
        self.0.clear();
    }

    /// Tenants with enough held doorbells, in an inbox of `held` that is filled by `batch`.
    pub(crate) fn full_tenants(&self, held: usize, batch: usize) -> BTreeSet<TenantId> {
        let most = (held / (2 * self.0.len().max(1))).max(batch);
        let full = self.0.iter().filter(|(_, share)| share.doorbells >= most);
        full.map(|(tenant, _)| tenant.clone()).collect()
    }

    fn update_share(&mut self, tenant: &TenantId, change: impl FnOnce(&mut TenantShare)) {
        if let Some(share) = self.0.get_mut(tenant) {
            change(share);
            if *share == TenantShare::default() {
                self.0.remove(tenant);
            }
            return;
        }
        let mut share = TenantShare::default();
        change(&mut share);
        if share != TenantShare::default() {
            self.0.insert(tenant.clone(), share);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str) -> TenantId {
        TenantId::parse(name).unwrap()
    }

    fn hold(shares: &mut TenantShares, name: &str, count: usize) {
        for _ in 0..count {
            shares.hold_doorbell(&tenant(name));
        }
    }

    #[test]
    fn lone_tenant_fills_half_inbox() {
        let mut shares = TenantShares::default();
        hold(&mut shares, "busy", 49);
        assert!(shares.full_tenants(100, 10).is_empty());
        hold(&mut shares, "busy", 1);
        assert_eq!(shares.full_tenants(100, 10), [tenant("busy")].into());
    }

    #[test]
    fn tenant_share_falls_to_one_batch() {
        let mut shares = TenantShares::default();
        hold(&mut shares, "busy", 25);
        hold(&mut shares, "quiet", 1);
        assert_eq!(shares.full_tenants(100, 10), [tenant("busy")].into());
        shares.release_doorbells(&tenant("busy"), 16);
        for name in ["a", "b", "c", "d", "e"] {
            hold(&mut shares, name, 1);
        }
        assert!(shares.full_tenants(100, 10).is_empty(), "less than a batch is never enough");
    }

    #[test]
    fn tenant_without_doorbells_is_forgotten() {
        let mut shares = TenantShares::default();
        hold(&mut shares, "a", 3);
        shares.begin_visit(&tenant("a"));
        assert!(shares.is_visited(&tenant("a")));
        shares.release_doorbells(&tenant("a"), 3);
        shares.end_visit(&tenant("a"));
        shares.end_visit(&tenant("b"));
        assert!(shares.0.is_empty());
    }
}
