//! Due timers, in memory.

use millstream_model::action_queue::ActionQueue;
use millstream_model::id::{EventId, ExecutionKey};
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::event_log::EventSubmission;
use millstream_store::timer_store::TimerStore;
use millstream_workflow::log::EventOrigin;

use crate::MemoryStore;

#[async_trait::async_trait]
impl TimerStore for MemoryStore {
    async fn fire_due(&self, ids: &[EventId], now: Timestamp) -> StoreResult<Vec<ExecutionKey>> {
        let mut tables = self.lock_tables();
        let mut due: Vec<_> = tables
            .executions
            .iter()
            .flat_map(|(key, row)| row.timers.values().map(move |timer| (key, timer)))
            .filter(|(_, timer)| timer.fire_at <= now)
            .map(|(key, timer)| (timer.fire_at, key.clone(), timer.armed_seq, timer.ordinal))
            .collect();
        due.sort();
        let mut rung = Vec::new();
        for ((_, key, armed_seq, ordinal), id) in due.into_iter().zip(ids) {
            let row = tables.executions.get_mut(&key);
            let Some(timer) = row.and_then(|row| row.timers.remove(&(armed_seq, ordinal))) else { continue };
            let event = EventSubmission {
                event_id: *id,
                execution: key.clone(),
                name: timer.send,
                payload: RawJson::null(),
                origin: EventOrigin::Timer { armed_seq },
                idempotency: None,
                actor: Some("timer".to_owned()),
                traceparent: None,
            };
            tables.insert_event(&event, now);
            rung.push(key);
        }
        Ok(rung)
    }

    async fn next_due(&self, queues: &[ActionQueue]) -> StoreResult<Option<Timestamp>> {
        let tables = self.lock_tables();
        let rows = || tables.executions.values();
        let timers = rows().flat_map(|row| row.timers.values()).map(|timer| timer.fire_at);
        let actions = rows()
            .flat_map(|row| row.actions.values())
            .filter(|action| queues.contains(&action.terms.queue))
            .filter_map(|action| action.view.next_attempt_at);
        Ok(timers.chain(actions).min())
    }
}
