//! The store of a simulation, continued: outbound notifications of runs and items.

use millstream_model::id::Name;
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::notices::{DueNotice, NoticeBacklog, NoticeBackoff, Notices};

use crate::stores::ScheduledStores;

#[async_trait::async_trait]
impl Notices for ScheduledStores {
    async fn spread_notices(&self, sinks: &[Name], limit: usize, now: Timestamp) -> StoreResult<usize> {
        let (me, owned) = (self.clone(), sinks.to_vec());
        let effect = async move { me.truth.notices.spread_notices(&owned, limit, now).await };
        self.role.send("spread_notices", String::new, effect).await
    }

    async fn due_notices(&self, sink: &Name, limit: usize, now: Timestamp) -> StoreResult<Vec<DueNotice>> {
        let effect = self.truth.notices.due_notices(sink, limit, now);
        self.role.call("due_notices", || sink.to_string(), effect).await
    }

    async fn delete_delivered_notices(&self, sink: &Name, positions: &[i64]) -> StoreResult<()> {
        let (me, to, owned) = (self.clone(), sink.clone(), positions.to_vec());
        let effect = async move { me.truth.notices.delete_delivered_notices(&to, &owned).await };
        self.role.send("notices_told", || sink.to_string(), effect).await
    }

    async fn postpone_notices(&self, sink: &Name, notices: &[NoticeBackoff]) -> StoreResult<()> {
        let (me, to, owned) = (self.clone(), sink.clone(), notices.to_vec());
        let effect = async move { me.truth.notices.postpone_notices(&to, &owned).await };
        self.role.send("put_notices_off", || sink.to_string(), effect).await
    }

    async fn notice_backlogs(&self) -> StoreResult<Vec<NoticeBacklog>> {
        self.role.call("notice_backlogs", String::new, self.truth.notices.notice_backlogs()).await
    }

    async fn purge_notices(&self, before: Timestamp, limit: usize) -> StoreResult<u64> {
        let effect = self.truth.notices.purge_notices(before, limit);
        self.role.call("purge_notices", String::new, effect).await
    }
}
