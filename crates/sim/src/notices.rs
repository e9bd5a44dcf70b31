//! The store of a simulation, continued: outbound notifications of runs and items.

use millstream_core::id::Name;
use millstream_core::time::Timestamp;
use millstream_store::Result;
use millstream_store::notices::{DueNotice, NoticeBacklog, NoticePutOff, Notices};

use crate::stores::Scheduled;

#[async_trait::async_trait]
impl Notices for Scheduled {
    async fn spread_notices(&self, sinks: &[Name], limit: usize, now: Timestamp) -> Result<usize> {
        let (me, owned) = (self.clone(), sinks.to_vec());
        let effect = async move { me.truth.notices.spread_notices(&owned, limit, now).await };
        self.role.send("spread_notices", String::new, effect).await
    }

    async fn due_notices(&self, sink: &Name, limit: usize, now: Timestamp) -> Result<Vec<DueNotice>> {
        let effect = self.truth.notices.due_notices(sink, limit, now);
        self.role.call("due_notices", || sink.to_string(), effect).await
    }

    async fn notices_told(&self, sink: &Name, positions: &[i64]) -> Result<()> {
        let (me, to, owned) = (self.clone(), sink.clone(), positions.to_vec());
        let effect = async move { me.truth.notices.notices_told(&to, &owned).await };
        self.role.send("notices_told", || sink.to_string(), effect).await
    }

    async fn put_notices_off(&self, sink: &Name, notices: &[NoticePutOff]) -> Result<()> {
        let (me, to, owned) = (self.clone(), sink.clone(), notices.to_vec());
        let effect = async move { me.truth.notices.put_notices_off(&to, &owned).await };
        self.role.send("put_notices_off", || sink.to_string(), effect).await
    }

    async fn notice_backlogs(&self) -> Result<Vec<NoticeBacklog>> {
        self.role.call("notice_backlogs", String::new, self.truth.notices.notice_backlogs()).await
    }

    async fn purge_notices(&self, before: Timestamp, limit: usize) -> Result<u64> {
        let effect = self.truth.notices.purge_notices(before, limit);
        self.role.call("purge_notices", String::new, effect).await
    }
}
