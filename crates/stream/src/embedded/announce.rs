//! Announcements within the process: a broadcast channel.

use tokio::sync::broadcast;

use super::stream::EmbeddedStream;
use crate::Result;
use crate::announce::{Announcer, News};

#[async_trait::async_trait]
impl Announcer for EmbeddedStream {
    async fn announce(&self, news: &[News]) -> Result<()> {
        for item in news {
            // A send without listeners is not an error.
            let _ = self.news.send(item.clone());
        }
        Ok(())
    }

    async fn listen(&self) -> Result<broadcast::Receiver<News>> {
        Ok(self.news.subscribe())
    }
}
