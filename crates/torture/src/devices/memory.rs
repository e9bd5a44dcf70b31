//! The seats that a device believes to hold.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A seat of a run.
pub(super) type Place = (String, u16);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hold {
    pub(super) token: i64,
    pub(super) step: u64,
    pub(super) total: u64,
}

#[derive(Debug, Default)]
pub(super) struct Memory(Mutex<BTreeMap<Place, Hold>>);

impl Memory {
    fn all(&self) -> MutexGuard<'_, BTreeMap<Place, Hold>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn remember(&self, place: &Place, hold: Hold) {
        self.all().insert(place.clone(), hold);
    }

    /// Forgets the seat, if the token is unchanged.
    pub(super) fn forget(&self, place: &Place, token: i64) {
        let mut all = self.all();
        if all.get(place).is_some_and(|hold| hold.token == token) {
            all.remove(place);
        }
    }

    pub(super) fn has(&self, place: &Place, token: i64) -> bool {
        self.all().get(place).is_some_and(|hold| hold.token == token)
    }

    pub(super) fn holds(&self) -> Vec<(Place, Hold)> {
        self.all().iter().map(|(place, hold)| (place.clone(), *hold)).collect()
    }

    pub(super) fn clear(&self) {
        self.all().clear();
    }
}
