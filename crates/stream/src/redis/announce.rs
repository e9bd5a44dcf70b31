//! Announcing through pub/sub: nothing is kept, whoever is not there misses it.

use redis::Pipeline;
use tokio::sync::broadcast;

use super::stream::RedisStream;
use super::subscriber::Subscriber;
use super::{fault, news};
use crate::Result;
use crate::announce::{Announcer, News};

/// News per message: some 25 KB, far below what a subscriber's output buffer allows.
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

    /// Never fails because the server is away: the listener hears again as soon as it is back.
    async fn listen(&self) -> Result<broadcast::Receiver<News>> {
        let subscriber =
            self.subscriber.get_or_init(|| Subscriber::start(self.link.clone(), self.keys.news()));
        Ok(subscriber.listen().await)
    }
}
