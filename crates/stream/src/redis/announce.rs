//! Announcements through Redis pub/sub: not stored, so a disconnected listener misses them.

use redis::Pipeline;
use tokio::sync::broadcast;

use super::stream::RedisStream;
use super::subscriber::Subscriber;
use super::{fault, news};
use crate::Result;
use crate::announce::{Announcer, News};

/// Announcements per message: about 25 KB, far below the output buffer limit of a subscriber.
const PER_MESSAGE: usize = 256;

#[async_trait::async_trait]
impl Announcer for RedisStream {
    async fn announce(&self, news: &[News]) -> Result<()> {
        let channel = self.keys.news();
        let mut pipeline = Pipeline::new();
        for chunk in news.chunks(PER_MESSAGE) {
            pipeline.cmd("PUBLISH").arg(&channel).arg(news::encode(chunk));
        }
        fault::all(self.link.run(&mut pipeline).await?)?;
        Ok(())
    }

    /// Succeeds while the server is away: the listener receives again after the reconnect.
    async fn listen(&self) -> Result<broadcast::Receiver<News>> {
        let subscriber =
            self.subscriber.get_or_init(|| Subscriber::start(self.link.clone(), self.keys.news()));
        Ok(subscriber.listen().await)
    }
}
