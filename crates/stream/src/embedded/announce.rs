//! Announcements within the process: a broadcast channel.

use tokio::sync::broadcast;

use super::stream::EmbeddedStream;
use crate::StreamResult;
use crate::announcement::{Announcement, Announcer};

#[async_trait::async_trait]
impl Announcer for EmbeddedStream {
    async fn announce_commits(&self, news: &[Announcement]) -> StreamResult<()> {
        for item in news {
            // A send without listeners is not an error.
            let _ = self.news.send(item.clone());
        }
        Ok(())
    }

    async fn subscribe_all(&self) -> StreamResult<broadcast::Receiver<Announcement>> {
        Ok(self.news.subscribe())
    }
}
