//! Several changes of one item, one after the other, as one that is written at once.

use super::next::{Opening, OpeningChange};
use super::step::Change;

impl Change {
    /// This change and then the next one, which was decided about what this one leaves. What they add to totals is
    /// counted change by change: an assignment may have been through more than one status.
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
