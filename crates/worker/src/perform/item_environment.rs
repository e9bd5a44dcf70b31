//! The worker's side of people items: settles the action that waits for an item's end, and announces the
//! change.

use millstream_model::entropy;
use millstream_model::id::{AssignmentId, WorkerId};
use millstream_model::time::Timestamp;
use millstream_people::assignment::ItemWaiter;
use millstream_store::action_store::Settlement;
use millstream_store::item_service::{self, ItemEnvironment, ItemOutcome, WrittenItems};
use millstream_store::{StoreError, StoreResult, Stores};

use super::performer::ActionPerformer;
use crate::metrics;
use crate::notifications::WriteNotifications;
use crate::program_cache::UnusableProgram;

#[async_trait::async_trait]
impl ItemEnvironment for ActionPerformer {
    fn stores(&self) -> &Stores {
        &self.env.stores
    }

    fn now(&self) -> Timestamp {
        self.env.clock.now()
    }

    fn new_assignment_id(&self) -> AssignmentId {
        AssignmentId(entropy::uuid_v7(self.env.clock.now(), &*self.env.entropy))
    }

    fn settling_worker(&self) -> &WorkerId {
        &self.env.options.worker
    }

    async fn build_settlement(
        &self,
        waiter: &ItemWaiter,
        told: ItemOutcome,
    ) -> StoreResult<Option<Settlement>> {
        let key = &waiter.action;
        let definitions = &*self.env.stores.definitions;
        let program = self.programs.get(definitions, &key.execution.tenant, &waiter.definition).await?;
        let program = match program {
            Ok(program) => program,
            Err(UnusableProgram::Gone(_)) => return Ok(None),
            // Another build can read it and will end the item.
            Err(UnusableProgram::Foreign(why)) => return Err(StoreError::Unavailable(why.to_string())),
        };
        let Some(machine) = program.machine() else { return Ok(None) };
        let now = self.env.clock.now();
        Ok(item_service::settle_waiter(machine, waiter, &told, now, &mut || self.env.new_event_id()))
    }

    async fn publish_changes(&self, written: WrittenItems) {
        for entry in written.items.iter().flat_map(|(_, log)| log) {
            ::metrics::counter!(metrics::PEOPLE, "what" => entry.what.as_str()).increment(1);
        }
        let mut after = WriteNotifications::default();
        for (settlement, verdict) in written.settled {
            let Some(execution) = after.add_settled(settlement, &verdict) else { continue };
            // No action that became ready by this write was leased with it.
            self.leasing.note_due_actions(&execution.tenant);
            after.ring_actions(execution);
        }
        after.publish(&self.env, std::future::ready(())).await;
    }
}
