//! Merges successive changes of one item into one change, which is committed at once.

use super::next::{Opening, OpeningChange};
use super::step::Change;

impl Change {
    /// Merges this change with the next one, which was decided on the result of this one. Increments of
    /// totals are counted per change: an assignment may pass through several statuses.
    pub fn then(self, next: Change) -> Change {
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
        let opening = Opening { change, ..next.opening };
        Change { work: next.work, changed, log, opening, told: self.told.or(next.told) }
    }
}
