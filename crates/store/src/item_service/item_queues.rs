//! The queues of items: their configuration, and their escalation targets.

use std::collections::{BTreeMap, BTreeSet};

use millstream_model::id::{Name, TenantId};
use millstream_people::assignment::ItemQueueContext;
use millstream_people::assignment::queue::EscalationTarget;

use crate::item_store::LoadedItem;
use crate::queue_store::QueueView;
use crate::{StoreError, StoreResult, Stores};

#[derive(Debug, Default)]
pub(super) struct ItemQueues(BTreeMap<(TenantId, Name), QueueView>);

impl ItemQueues {
    /// For all items: one query, and one more if there are queues that escalate to others.
    pub(super) async fn load_for_items(
        stores: &Stores,
        items: impl Iterator<Item = &LoadedItem>,
    ) -> StoreResult<Self> {
        let mut settings = Self::default();
        let own = items.map(|one| (one.key.tenant.clone(), one.work.item.queue.clone()));
        settings.load_queues(stores, own.collect()).await?;
        let others = settings.0.iter().filter_map(|((tenant, _), view)| match &view.config.escalate {
            Some(EscalationTarget::Queue(queue)) => Some((tenant.clone(), queue.clone())),
            Some(EscalationTarget::Event(_)) | None => None,
        });
        let others: BTreeSet<_> = others.collect();
        settings.load_queues(stores, others).await?;
        Ok(settings)
    }

    async fn load_queues(
        &mut self,
        stores: &Stores,
        mut keys: BTreeSet<(TenantId, Name)>,
    ) -> StoreResult<()> {
        keys.retain(|key| !self.0.contains_key(key));
        if keys.is_empty() {
            return Ok(());
        }
        let keys: Vec<_> = keys.into_iter().collect();
        let found = stores.queues.find_queues(&keys).await?;
        self.0.extend(keys.into_iter().zip(found).filter_map(|(key, view)| Some((key, view?))));
        Ok(())
    }

    pub(super) fn queue_view(&self, tenant: &TenantId, queue: &Name) -> StoreResult<&QueueView> {
        let missing = || StoreError::Corrupt(format!("an item is in queue {queue}, which does not exist"));
        self.0.get(&(tenant.clone(), queue.clone())).ok_or_else(missing)
    }

    pub(super) fn queue_setting(&self, tenant: &TenantId, queue: &Name) -> StoreResult<ItemQueueContext<'_>> {
        let view = self.queue_view(tenant, queue)?;
        let escalates_to = match &view.config.escalate {
            Some(EscalationTarget::Queue(other)) => {
                self.0.get(&(tenant.clone(), other.clone())).map(|it| &it.config)
            }
            Some(EscalationTarget::Event(_)) | None => None,
        };
        Ok(ItemQueueContext { queue: &view.config, state: view.state, escalates_to })
    }
}
