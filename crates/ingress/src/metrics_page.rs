//! The `/metrics` page: rendered off the runtime, shared by concurrent scrapers, and bounded in size.
//!
//! Rendering is synchronous and its time grows with the number of series; on a runtime thread it would
//! block every other request of the process. The page is truncated at [`MAX_BYTES`]: labels are bounded (a
//! house rule checks that), so a page beyond it is a defect, which is logged as an error.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use tokio::sync::Mutex;

/// Renders every metric of the process as Prometheus text.
pub type RenderMetrics = Arc<dyn Fn() -> String + Send + Sync>;

/// Upper bound of the page.
pub const MAX_BYTES: usize = 8 * 1024 * 1024;

/// The last line of a truncated page.
const CUT: &str = "# truncated: the page is too large\n";

/// A rendered page, and the end of its rendering.
#[derive(Debug, Clone)]
struct RenderedPage {
    text: Bytes,
    ended: Instant,
}

/// Shared by all scrapers of a process.
#[derive(Clone)]
pub struct MetricsPage {
    render: RenderMetrics,
    /// Held while a page is rendered.
    last: Arc<Mutex<Option<RenderedPage>>>,
}

impl std::fmt::Debug for MetricsPage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MetricsPage").finish_non_exhaustive()
    }
}

impl MetricsPage {
    pub fn of(render: RenderMetrics) -> Self {
        Self { render, last: Arc::default() }
    }

    /// The current page. A scraper that arrives during a rendering gets that page.
    pub async fn render_shared(&self) -> Bytes {
        let asked = Instant::now();
        // The rendering thread owns the lock: a scraper that disconnects does not start a second rendering.
        let mut last = Arc::clone(&self.last).lock_owned().await;
        if let Some(page) = last.as_ref().filter(|page| page.ended >= asked) {
            return page.text.clone();
        }
        let render = Arc::clone(&self.render);
        let rendering = tokio::task::spawn_blocking(move || {
            let text = Bytes::from(cut_page(render(), MAX_BYTES));
            *last = Some(RenderedPage { text: text.clone(), ended: Instant::now() });
            text
        });
        rendering.await.unwrap_or_else(|error| {
            tracing::error!(%error, "rendering the metrics failed");
            Bytes::from_static(b"# rendering the metrics failed\n")
        })
    }
}

/// Truncates a page that is too large at a line end, and logs it.
fn cut_page(mut text: String, max_bytes: usize) -> String {
    if text.len() <= max_bytes {
        return text;
    }
    let bytes = text.len();
    let room = max_bytes.saturating_sub(CUT.len()).min(bytes);
    let end = text.as_bytes()[..room].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    text.truncate(end);
    text.push_str(CUT);
    tracing::error!(bytes, max_bytes, "the metrics page is too large and was truncated");
    text
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn metrics_page_truncates_at_line_end() {
        let line = "millstream_x{lane=\"1\"} 1\n";
        assert_eq!(cut_page(line.to_owned(), line.len()), line);
        let cut = cut_page(line.repeat(100), 2 * line.len() + CUT.len() + 3);
        assert_eq!(cut, format!("{line}{line}{CUT}"));
        assert_eq!(cut_page("ö".repeat(100), CUT.len() + 5), CUT);
        assert_eq!(cut_page(line.to_owned(), 3), CUT);
    }

    #[tokio::test]
    async fn concurrent_scrapers_share_one_rendering() {
        let (release, released) = mpsc::channel::<()>();
        let (released, renderings) = (std::sync::Mutex::new(released), Arc::new(AtomicUsize::new(0)));
        let counted = renderings.clone();
        let page = MetricsPage::of(Arc::new(move || {
            counted.fetch_add(1, Ordering::SeqCst);
            released.lock().unwrap().recv().unwrap();
            "millstream_up 1\n".to_owned()
        }));
        let mut scrapers = tokio::task::JoinSet::new();
        for _ in 0..5 {
            let page = page.clone();
            scrapers.spawn(async move { page.render_shared().await });
        }
        // This runtime has one thread: it makes progress while the rendering waits.
        while renderings.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        release.send(()).unwrap();
        while let Some(text) = scrapers.join_next().await {
            assert_eq!(text.unwrap(), "millstream_up 1\n");
        }
        assert_eq!(renderings.load(Ordering::SeqCst), 1);
        release.send(()).unwrap();
        page.render_shared().await;
        assert_eq!(renderings.load(Ordering::SeqCst), 2, "a later scrape shows later numbers");
    }
}
