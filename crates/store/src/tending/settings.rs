//! The queues of items: their configuration, and their escalation targets.

use std::collections::{BTreeMap, BTreeSet};

use millstream_core::assignment::Setting;
use millstream_core::assignment::queue::Escalate;
use millstream_core::id::{Name, TenantId};

use crate::item_store::LoadedItem;
use crate::queue_store::QueueView;
use crate::{Result, StoreError, Stores};

#[derive(Debug, Default)]
pub(super) struct Settings(BTreeMap<(TenantId, Name), QueueView>);

impl Settings {
    /// For all items: one query, and one more if there are queues that escalate to others.
    pub(super) async fn of(stores: &Stores, items: impl Iterator<Item = &LoadedItem>) -> Result<Self> {
        let mut settings = Self::default();
        let own = items.map(|one| (one.key.tenant.clone(), one.work.item.queue.clone()));
        settings.load(stores, own.collect()).await?;
        let others = settings.0.iter().filter_map(|((tenant, _), view)| match &view.config.escalate {
            Some(Escalate::Queue(queue)) => Some((tenant.clone(), queue.clone())),
            Some(Escalate::Event(_)) | None => None,
        });
        let others: BTreeSet<_> = others.collect();
        settings.load(stores, others).await?;
        Ok(settings)
    }

    async fn load(&mut self, stores: &Stores, mut keys: BTreeSet<(TenantId, Name)>) -> Result<()> {
        keys.retain(|key| !self.0.contains_key(key));
        if keys.is_empty() {
            return Ok(());
        }
        let keys: Vec<_> = keys.into_iter().collect();
        let found = stores.queues.queues(&keys).await?;
        self.0.extend(keys.into_iter().zip(found).filter_map(|(key, view)| Some((key, view?))));
        Ok(())
    }

    pub(super) fn view(&self, tenant: &TenantId, queue: &Name) -> Result<&QueueView> {
        let missing = || StoreError::Corrupt(format!("an item is in queue {queue}, which does not exist"));
        self.0.get(&(tenant.clone(), queue.clone())).ok_or_else(missing)
    }

    pub(super) fn setting(&self, tenant: &TenantId, queue: &Name) -> Result<Setting<'_>> {
        let view = self.view(tenant, queue)?;
        let escalates_to = match &view.config.escalate {
            Some(Escalate::Queue(other)) => self.0.get(&(tenant.clone(), other.clone())).map(|it| &it.config),
            Some(Escalate::Event(_)) | None => None,
        };
        Ok(Setting { queue: &view.config, state: view.state, escalates_to })
    }
}
