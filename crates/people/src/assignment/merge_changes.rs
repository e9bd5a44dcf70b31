//! Merges successive changes of one item into one change, which is committed at once.

use super::select::{ItemOpening, OpeningChange};
use super::step::ItemChange;

impl ItemChange {
    /// Merges this change with the next one, which was decided on the result of this one. Increments of
    /// totals are counted per change: an assignment may pass through several statuses.
    pub fn merge_next(self, next: ItemChange) -> ItemChange {
        let mut changed = self.changed;
        changed.extend(next.changed);
        changed.sort_unstable();
        changed.dedup();
        let mut log = self.log;
        log.extend(next.log);
        let change = match (self.opening.change, next.opening.change) {
            (before, OpeningChange::None) => before,
            (OpeningChange::Place, OpeningChange::Update) => OpeningChange::Place,
            (_, after @ (OpeningChange::Place | OpeningChange::Update | OpeningChange::Close)) => after,
        };
        let opening = ItemOpening { change, ..next.opening };
        ItemChange { work: next.work, changed, log, opening, told: self.told.or(next.told) }
    }
}
