//! The seats that a device believes to hold.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A seat of a run.
pub(super) type SeatPlace = (String, u16);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SeatHold {
    pub(super) token: i64,
    pub(super) step: u64,
    pub(super) total: u64,
}

#[derive(Debug, Default)]
pub(super) struct DeviceMemory(Mutex<BTreeMap<SeatPlace, SeatHold>>);

impl DeviceMemory {
    fn lock_holds(&self) -> MutexGuard<'_, BTreeMap<SeatPlace, SeatHold>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn remember(&self, place: &SeatPlace, hold: SeatHold) {
        self.lock_holds().insert(place.clone(), hold);
    }

    /// Forgets the seat, if the token is unchanged.
    pub(super) fn forget(&self, place: &SeatPlace, token: i64) {
        let mut all = self.lock_holds();
        if all.get(place).is_some_and(|hold| hold.token == token) {
            all.remove(place);
        }
    }

    pub(super) fn has_token(&self, place: &SeatPlace, token: i64) -> bool {
        self.lock_holds().get(place).is_some_and(|hold| hold.token == token)
    }

    pub(super) fn all_holds(&self) -> Vec<(SeatPlace, SeatHold)> {
        self.lock_holds().iter().map(|(place, hold)| (place.clone(), *hold)).collect()
    }

    pub(super) fn clear(&self) {
        self.lock_holds().clear();
    }
}
