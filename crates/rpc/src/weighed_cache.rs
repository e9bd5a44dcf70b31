//! LRU cache bounded by estimated memory.

use std::hash::Hash;

use lru::LruCache;

/// A cache bounded by the estimated size of its values, not by their number.
#[derive(Debug)]
pub struct WeighedCache<K: Hash + Eq, V> {
    kept: LruCache<K, (V, usize)>,
    weight: usize,
    capacity: usize,
}

/// Estimated size of an entry beside its value.
const ENTRY_WEIGHT: usize = 512;

impl<K: Hash + Eq, V: Clone> WeighedCache<K, V> {
    pub fn with_capacity(bytes: usize) -> Self {
        Self { kept: LruCache::unbounded(), weight: 0, capacity: bytes }
    }

    pub fn get(&mut self, key: &K) -> Option<V> {
        self.kept.get(key).map(|(value, _)| value.clone())
    }

    /// Inserts a value, and evicts the least recently used ones until all fit. The newest value stays, even
    /// if it alone exceeds the capacity.
    pub fn put(&mut self, key: K, value: V, weight: usize) {
        let weight = weight.saturating_add(ENTRY_WEIGHT);
        self.weight = self.weight.saturating_add(weight);
        if let Some((_, replaced)) = self.kept.put(key, (value, weight)) {
            self.weight = self.weight.saturating_sub(replaced);
        }
        while self.weight > self.capacity && self.kept.len() > 1 {
            let Some((_, (_, dropped))) = self.kept.pop_lru() else { return };
            self.weight = self.weight.saturating_sub(dropped);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_evicts_lru_by_weight() {
        let mut cache = WeighedCache::with_capacity(10_000);
        for key in 0..3 {
            cache.put(key, key, 2_000);
        }
        assert_eq!(cache.get(&0), Some(0));
        cache.put(3, 3, 4_000);
        assert_eq!((cache.get(&0), cache.get(&1), cache.get(&3)), (Some(0), None, Some(3)));
        cache.put(4, 4, 1_000_000);
        assert_eq!((cache.get(&4), cache.kept.len()), (Some(4), 1));
        cache.put(4, 5, 1_000);
        assert_eq!(cache.weight, 1_000 + ENTRY_WEIGHT);
    }
}
