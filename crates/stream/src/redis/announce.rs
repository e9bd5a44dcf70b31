//! Announcements through Redis pub/sub: not stored, so a disconnected listener misses them.

use redis::Pipeline;
use tokio::sync::broadcast;

use super::stream::RedisStream;
use super::subscriber::RedisSubscriber;
use super::{announcement_lines, error_kind};
use crate::StreamResult;
use crate::announcement::{Announcement, Announcer};

/// Announcements per message: about 25 KB, far below the output buffer limit of a subscriber.
const PER_MESSAGE: usize = 256;

#[async_trait::async_trait]
impl Announcer for RedisStream {
    async fn announce_commits(&self, news: &[Announcement]) -> StreamResult<()> {
        let channel = self.keys.announcements_channel();
        let mut pipeline = Pipeline::new();
        for chunk in news.chunks(PER_MESSAGE) {
            pipeline.cmd("PUBLISH").arg(&channel).arg(announcement_lines::encode_announcements(chunk));
        }
        error_kind::all_answers(self.link.run_pipeline(&mut pipeline).await?)?;
        Ok(())
    }

    /// Succeeds while the server is away: the listener receives again after the reconnect.
    async fn subscribe_all(&self) -> StreamResult<broadcast::Receiver<Announcement>> {
        let subscriber = self.subscriber.get_or_init(|| {
            RedisSubscriber::start_task(self.link.clone(), self.keys.announcements_channel())
        });
        Ok(subscriber.subscribe_all().await)
    }
}
