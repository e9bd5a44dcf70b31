//! Fair queueing between tenants: start-time fair queueing (SFQ), pure and in memory.
//!
//! Every item costs its tenant one unit of service, or as many as the caller says, divided by the tenant's
//! weight. A tenant with waiting items carries a *start tag*: the virtual time at which its first item may be
//! served. The queue serves the smallest tag and the virtual time follows it. A tenant that was idle starts
//! at the virtual time, so that idling neither earns nor costs service: the only waiting item of a tenant is
//! served after at most one item (at equal weights) of each other tenant.
//!
//! ```text
//! start tag  = max(virtual time, finish tag of the tenant's item before)
//! finish tag = start tag + cost / weight
//! ```
//!
//! Serving costs O(log active tenants). Within a tenant the order is first in, first out. A tenant leaves no state
//! once the virtual time has passed its last finish tag. Refuses: durable state. A queue that is lost with its process
//! starts from zero; at worst one round of service is repeated.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::id::TenantId;

/// One unit of service at weight 1. Divisible by all small weights.
const UNIT: u64 = 720_720;

/// The largest weight: above it the shares lose too much precision.
pub const MAX_WEIGHT: u32 = 1_000;

/// A point in virtual time.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct VirtualTime(u64);

impl VirtualTime {
    fn finish_after(self, cost: u64, weight: u32) -> Self {
        let one = UNIT / u64::from(weight.clamp(1, MAX_WEIGHT));
        Self(self.0.saturating_add(one.saturating_mul(cost)))
    }
}

/// Relative share of service per tenant while several tenants wait. 1 unless set.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct TenantWeights(BTreeMap<TenantId, u32>);

impl TenantWeights {
    /// Clamps the weight to 1 ..= [`MAX_WEIGHT`].
    pub fn set_weight(&mut self, tenant: TenantId, weight: u32) {
        self.0.insert(tenant, weight.clamp(1, MAX_WEIGHT));
    }

    pub fn weight_of(&self, tenant: &TenantId) -> u32 {
        self.0.get(tenant).copied().unwrap_or(1)
    }
}

impl FromIterator<(TenantId, u32)> for TenantWeights {
    fn from_iter<I: IntoIterator<Item = (TenantId, u32)>>(weights: I) -> Self {
        let mut all = Self::default();
        for (tenant, weight) in weights {
            all.set_weight(tenant, weight);
        }
        all
    }
}

/// Items of many tenants, served fairly.
#[derive(Debug)]
pub struct FairQueue<T> {
    weights: TenantWeights,
    /// Tenants with items waiting.
    waiting: BTreeMap<TenantId, TenantBacklog<T>>,
    /// The same tenants by the start tag of their first item.
    order: BTreeSet<(VirtualTime, TenantId)>,
    /// Finish tags, still ahead of the virtual time, of tenants that have nothing waiting.
    resting: BTreeMap<TenantId, VirtualTime>,
    /// The same tenants by that tag.
    rest_ends: BTreeSet<(VirtualTime, TenantId)>,
    now: VirtualTime,
    len: usize,
}

#[derive(Debug)]
struct TenantBacklog<T> {
    start: VirtualTime,
    items: VecDeque<T>,
}

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        Self::with_weights(TenantWeights::default())
    }
}

impl<T> FairQueue<T> {
    pub fn with_weights(weights: TenantWeights) -> Self {
        Self {
            weights,
            waiting: BTreeMap::new(),
            order: BTreeSet::new(),
            resting: BTreeMap::new(),
            rest_ends: BTreeSet::new(),
            now: VirtualTime::default(),
            len: 0,
        }
    }

    pub fn push(&mut self, tenant: &TenantId, item: T) {
        self.len += 1;
        if let Some(backlog) = self.waiting.get_mut(tenant) {
            backlog.items.push_back(item);
            return;
        }
        let start = match self.resting.remove(tenant) {
            Some(finish) => {
                self.rest_ends.remove(&(finish, tenant.clone()));
                finish.max(self.now)
            }
            None => self.now,
        };
        self.order.insert((start, tenant.clone()));
        self.waiting.insert(tenant.clone(), TenantBacklog { start, items: VecDeque::from([item]) });
    }

    /// The next item, with its tenant.
    pub fn pop(&mut self) -> Option<(TenantId, T)> {
        self.pop_where(|_| true)
    }

    /// The next item of a tenant that passes.
    pub fn pop_where(&mut self, passes: impl Fn(&TenantId) -> bool) -> Option<(TenantId, T)> {
        self.pop_costing(|tenant, _| passes(tenant), |_| 1)
    }

    /// The next item of a tenant whose first item passes, charged to the tenant at `cost` units of service.
    pub fn pop_costing(
        &mut self,
        passes: impl Fn(&TenantId, &T) -> bool,
        cost: impl Fn(&T) -> u64,
    ) -> Option<(TenantId, T)> {
        let first = |tenant: &TenantId| self.waiting.get(tenant)?.items.front();
        let mut order = self.order.iter();
        let next = order.find(|(_, tenant)| first(tenant).is_some_and(|item| passes(tenant, item)))?.clone();
        self.order.remove(&next);
        let (start, tenant) = next;
        let backlog = self.waiting.get_mut(&tenant)?;
        let item = backlog.items.pop_front()?;
        self.len -= 1;
        // A tenant that was skipped keeps its smaller tag.
        self.now = self.now.max(start);
        let finish = start.finish_after(cost(&item), self.weights.weight_of(&tenant));
        if backlog.items.is_empty() {
            self.waiting.remove(&tenant);
            self.resting.insert(tenant.clone(), finish);
            self.rest_ends.insert((finish, tenant.clone()));
        } else {
            backlog.start = finish;
            self.order.insert((finish, tenant.clone()));
        }
        self.forget_rested();
        Some((tenant, item))
    }

    pub fn clear(&mut self) {
        self.waiting.clear();
        self.order.clear();
        self.resting.clear();
        self.rest_ends.clear();
        self.now = VirtualTime::default();
        self.len = 0;
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many tenants have items waiting.
    pub fn tenant_count(&self) -> usize {
        self.waiting.len()
    }

    /// How many items of the tenant wait.
    pub fn len_of(&self, tenant: &TenantId) -> usize {
        self.waiting.get(tenant).map_or(0, |backlog| backlog.items.len())
    }

    /// The tenants with items waiting, those with the smallest tags first.
    pub fn waiting_tenants(&self) -> impl Iterator<Item = &TenantId> {
        self.order.iter().map(|(_, tenant)| tenant)
    }

    /// Removes the newest item of the tenant that has the most waiting.
    pub fn drop_from_longest(&mut self) -> Option<T> {
        let longest = self.waiting.iter().max_by_key(|(_, backlog)| backlog.items.len());
        let tenant = longest.map(|(tenant, _)| tenant.clone())?;
        let backlog = self.waiting.get_mut(&tenant)?;
        let item = backlog.items.pop_back()?;
        self.len -= 1;
        if backlog.items.is_empty() {
            self.order.remove(&(backlog.start, tenant.clone()));
            self.waiting.remove(&tenant);
        }
        Some(item)
    }

    /// Removes the items of the tenant that do not pass.
    pub fn retain_of(&mut self, tenant: &TenantId, passes: impl FnMut(&T) -> bool) {
        let Some(backlog) = self.waiting.get_mut(tenant) else { return };
        let before = backlog.items.len();
        backlog.items.retain(passes);
        self.len -= before - backlog.items.len();
        if backlog.items.is_empty() {
            self.order.remove(&(backlog.start, tenant.clone()));
            self.waiting.remove(tenant);
        }
    }

    /// Drops finish tags that the virtual time has passed.
    fn forget_rested(&mut self) {
        if self.waiting.is_empty() {
            // Without another waiting tenant the tags carry no information.
            self.clear();
        }
        while let Some((finish, _)) = self.rest_ends.first()
            && *finish <= self.now
            && let Some((_, tenant)) = self.rest_ends.pop_first()
        {
            self.resting.remove(&tenant);
        }
    }
}

#[cfg(test)]
#[path = "fair/tests.rs"]
mod tests;
