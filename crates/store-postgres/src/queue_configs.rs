//! Cache of parsed queue configurations: a configuration is read with every assignment and rarely changes.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use millstream_people::assignment::QueueConfig;

use crate::errors::{PostgresFailure, PostgresResult};

/// Cache of parsed configurations, by their text.
#[derive(Debug, Default)]
pub(crate) struct QueueConfigCache(Mutex<CachedConfigs>);

#[derive(Debug, Default)]
struct CachedConfigs {
    by_text: HashMap<String, QueueConfig>,
    text_bytes: usize,
}

impl QueueConfigCache {
    /// Upper bound on the cached texts. A parsed configuration is about as large as its text.
    const MAX_TEXT_BYTES: usize = 8 << 20;

    pub(crate) fn parse_cached(&self, text: &str) -> PostgresResult<QueueConfig> {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(config) = lock().by_text.get(text) {
            return Ok(config.clone());
        }
        let config = QueueConfig::parse_stored(text).map_err(|error| {
            PostgresFailure::Undecodable(format!("queue config cannot be decoded: {error}"))
        })?;
        lock().keep(text, &config);
        Ok(config)
    }
}

impl CachedConfigs {
    /// Keeps a configuration; one that does not fit empties the cache first.
    fn keep(&mut self, text: &str, config: &QueueConfig) {
        if self.text_bytes + text.len() > QueueConfigCache::MAX_TEXT_BYTES {
            *self = Self::default();
        }
        if text.len() <= QueueConfigCache::MAX_TEXT_BYTES
            && self.by_text.insert(text.to_owned(), config.clone()).is_none()
        {
            self.text_bytes += text.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_configs_are_bounded_by_bytes() {
        let cache = QueueConfigCache::default();
        for number in 0..100 {
            let text = format!(r#"{{"name":"q{number}","agreement":"'{}'"}}"#, "x".repeat(200 << 10));
            assert_eq!(cache.parse_cached(&text).unwrap().name.as_str(), format!("q{number}"));
            let kept = cache.0.lock().unwrap();
            let held: usize = kept.by_text.keys().map(String::len).sum();
            assert_eq!(kept.text_bytes, held);
            assert!(held > 0 && held <= QueueConfigCache::MAX_TEXT_BYTES, "{held}");
        }
    }
}
