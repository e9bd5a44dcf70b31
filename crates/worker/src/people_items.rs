//! The worker's side of people items: settles the action that waits for an item's end, and announces the
//! change.

use millstream_core::assignment::Waiter;
use millstream_core::entropy;
use millstream_core::id::{AssignmentId, WorkerId};
use millstream_core::time::Timestamp;
use millstream_store::action_store::Settlement;
use millstream_store::tending::{self, Around, Told, Written};
use millstream_store::{Result, StoreError, Stores};

use crate::aftermath::Aftermath;
use crate::metrics;
use crate::programs::Unusable;
use crate::worker::Worker;

#[async_trait::async_trait]
impl Around for Worker {
    fn stores(&self) -> &Stores {
        &self.deps.stores
    }

    fn now(&self) -> Timestamp {
        self.deps.clock.now()
    }

    fn fresh(&self) -> AssignmentId {
        AssignmentId(entropy::uuid_v7(self.deps.clock.now(), &*self.deps.entropy))
    }

    fn settler(&self) -> &WorkerId {
        &self.options.worker
    }

    async fn settlement(&self, waiter: &Waiter, told: Told) -> Result<Option<Settlement>> {
        let key = &waiter.action;
        let definitions = &*self.deps.stores.definitions;
        let program = self.programs.get(definitions, &key.execution.tenant, &waiter.definition).await?;
        let program = match program {
            Ok(program) => program,
            Err(Unusable::Gone(_)) => return Ok(None),
            // Another build can read it and will end the item.
            Err(Unusable::Foreign(why)) => return Err(StoreError::Unavailable(why.to_string())),
        };
        let Some(machine) = program.machine() else { return Ok(None) };
        let now = self.deps.clock.now();
        Ok(tending::settlement(machine, waiter, &told, now, &mut || self.event_id()))
    }

    async fn written(&self, written: Written) {
        for entry in written.items.iter().flat_map(|(_, log)| log) {
            ::metrics::counter!(metrics::PEOPLE, "what" => entry.what.as_str()).increment(1);
        }
        let mut after = Aftermath::default();
        for (settlement, verdict) in written.settled {
            let Some(execution) = after.settled(settlement, &verdict) else { continue };
            // No action that became ready by this write was leased with it.
            self.hear_of_actions(&execution.tenant);
            after.ring_actions(execution);
        }
        after.tell(self, std::future::ready(())).await;
    }
}
