//! Expression budget: limits on the work and the memory of all expressions of one step.
//!
//! CEL always terminates, but nested comprehensions over a large list take long, and a list of copies of a
//! long text needs more memory than a process has. All evaluations of one decision share one [`ExprBudget`]: all
//! conditions, `set`s and inputs of one event, all conditions of one graph decision, all rules of one answer.
//! Every visited node costs one unit, every text that is read or built costs units by its length, and every
//! built value holds bytes until its evaluation ends; the kept part (the JSON of a `set` or an input) stays
//! held until the step ends.
//!
//! An exhausted budget stays exhausted: the step is rejected, even if its expressions handled the error. That
//! is deterministic, because costs depend on the data alone. A [`StopRule`] is the opposite: it comes from
//! the shell (a clock, or a move to another thread), it abandons an evaluation without a decision, and it
//! never rejects.

use std::cell::Cell;
use std::fmt;

use super::EvalError;

/// Work limit of all expressions of one step: some tens of milliseconds.
pub const STEP_UNITS: u64 = 1_000_000;
/// Memory limit of all expressions of one step, by the estimates of this module. While a list or a text
/// grows, the allocation may be twice as large.
pub const STEP_BYTES: u64 = 12 * 1024 * 1024;

/// Units between two polls of the stop rule.
const UNITS_PER_POLL: u64 = 4_096;
/// Texts are read and copied at this many bytes per unit.
const TEXT_BYTES_PER_UNIT: u64 = 32;
/// JSON is parsed at this many bytes per unit.
const JSON_BYTES_PER_UNIT: u64 = 16;

/// Memory of a text in addition to its bytes.
const TEXT_OVERHEAD: u64 = 32;
/// Memory of one list slot, spare capacity of a growing list included.
const LIST_ITEM: u64 = 40;
/// Memory of a map with one entry.
const MAP: u64 = 400;
/// Memory of one map entry, without the text of its key.
const MAP_ENTRY: u64 = 48;

/// Abandons an evaluation without a decision. Owned by the shell; decisions never depend on it.
#[derive(Clone, Copy)]
pub struct StopRule<'a> {
    /// Work after which the evaluation is abandoned.
    pub units: u64,
    /// Polled every few thousand units; true abandons the evaluation.
    pub is_overdue: &'a dyn Fn() -> bool,
}

impl StopRule<'_> {
    /// Never stops.
    pub const NEVER: StopRule<'static> = StopRule { units: u64::MAX, is_overdue: &|| false };
}

impl fmt::Debug for StopRule<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StopRule").field("units", &self.units).finish_non_exhaustive()
    }
}

/// Why a budget is exhausted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BudgetEnd {
    /// Work limit exceeded: deterministic, depends on the data and the expressions alone.
    Work,
    /// Memory limit exceeded: deterministic as well.
    Bytes,
    /// Stopped by the stop rule: no decision.
    Stopped,
}

impl BudgetEnd {
    /// Rejection reason.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Work => "the expressions take too much work on this data",
            Self::Bytes => "the expressions need too much memory on this data",
            Self::Stopped => "the stop rule ended the evaluation",
        }
    }
}

/// The remaining work and memory of one step.
#[derive(Debug)]
pub struct ExprBudget<'a> {
    units: u64,
    bytes: u64,
    spent: Cell<u64>,
    held: Cell<u64>,
    /// The part of `held` that stays until its evaluation ends.
    pinned: Cell<u64>,
    peak: Cell<u64>,
    next_poll: Cell<u64>,
    end: Cell<Option<BudgetEnd>>,
    stop: StopRule<'a>,
}

impl Default for ExprBudget<'_> {
    fn default() -> Self {
        Self::of_step(StopRule::NEVER)
    }
}

impl<'a> ExprBudget<'a> {
    /// The budget of one step.
    pub fn of_step(stop: StopRule<'a>) -> Self {
        Self::with_limits(STEP_UNITS, STEP_BYTES, stop)
    }

    /// Without limits, for evaluations outside of a step that are bounded in another way.
    pub fn unlimited() -> Self {
        Self::with_limits(u64::MAX - 1, u64::MAX - 1, StopRule::NEVER)
    }

    /// A budget with other limits, for tests of the limits.
    pub fn with_limits(units: u64, bytes: u64, stop: StopRule<'a>) -> Self {
        Self {
            units,
            bytes,
            spent: Cell::new(0),
            held: Cell::new(0),
            pinned: Cell::new(0),
            peak: Cell::new(0),
            next_poll: Cell::new(UNITS_PER_POLL.min(stop.units).min(units + 1)),
            end: Cell::new(None),
            stop,
        }
    }

    /// Why it is exhausted; `None` while it is not.
    pub fn end(&self) -> Option<BudgetEnd> {
        self.end.get()
    }

    /// Units spent so far.
    pub fn spent(&self) -> u64 {
        self.spent.get()
    }

    /// The most bytes that were held at once.
    pub fn peak_bytes(&self) -> u64 {
        self.peak.get()
    }

    pub(crate) fn spend(&self, units: u64) -> Result<(), EvalError> {
        let spent = self.spent.get().saturating_add(units);
        self.spent.set(spent);
        if spent < self.next_poll.get() {
            return Ok(());
        }
        self.poll_stop_rule(spent)
    }

    /// The slow path of [`ExprBudget::spend`]: polls the stop rule and checks the work limit.
    fn poll_stop_rule(&self, spent: u64) -> Result<(), EvalError> {
        if self.end.get().is_none() {
            // The stop rule takes precedence: if it applies, the step is decided again elsewhere.
            if spent >= self.stop.units || (self.stop.is_overdue)() {
                self.end.set(Some(BudgetEnd::Stopped));
            } else if spent > self.units {
                self.end.set(Some(BudgetEnd::Work));
            }
        }
        if let Some(end) = self.end.get() {
            self.next_poll.set(0);
            return Err(EvalError::new(end.reason()));
        }
        let next = (spent + UNITS_PER_POLL).min(self.stop.units).min(self.units + 1);
        self.next_poll.set(next);
        Ok(())
    }

    /// Charges for reading or comparing a text.
    pub(super) fn read_text(&self, len: usize) -> Result<(), EvalError> {
        self.spend(1 + len as u64 / TEXT_BYTES_PER_UNIT)
    }

    /// Charges for building a text: it is read once and held.
    pub fn build_text(&self, len: usize) -> Result<(), EvalError> {
        self.read_text(len)?;
        self.hold_bytes(TEXT_OVERHEAD + len as u64)
    }

    /// Charges for parsing JSON text, independent of the kept part.
    pub fn parse_json(&self, len: usize) -> Result<(), EvalError> {
        self.spend(1 + len as u64 / JSON_BYTES_PER_UNIT)
    }

    pub(super) fn build_list(&self, items: usize) -> Result<(), EvalError> {
        self.spend(items as u64 / 4)?;
        self.hold_bytes(LIST_ITEM * items as u64)
    }

    /// Charges for a text that becomes one item of a list.
    pub fn build_item(&self, len: usize) -> Result<(), EvalError> {
        self.hold_bytes(LIST_ITEM)?;
        self.build_text(len)
    }

    pub(super) fn build_map(&self) -> Result<(), EvalError> {
        self.spend(1)?;
        self.hold_bytes(MAP)
    }

    pub(super) fn build_entry(&self, key_len: usize) -> Result<(), EvalError> {
        self.hold_bytes(MAP_ENTRY)?;
        self.build_text(key_len)
    }

    fn hold_bytes(&self, bytes: u64) -> Result<(), EvalError> {
        let held = self.held.get().saturating_add(bytes);
        if held > self.bytes && self.end.get().is_none() {
            self.end.set(Some(BudgetEnd::Bytes));
            self.next_poll.set(0);
        }
        if let Some(end) = self.end.get() {
            return Err(EvalError::new(end.reason()));
        }
        self.held.set(held);
        self.peak.set(self.peak.get().max(held));
        Ok(())
    }

    /// Runs one evaluation and releases the memory of its values afterwards.
    pub(crate) fn run_scoped<T>(&self, evaluate: impl FnOnce() -> T) -> T {
        let (held, pinned) = (self.held.get(), self.pinned.get());
        let value = evaluate();
        self.held.set(held);
        self.pinned.set(pinned);
        value
    }

    /// Held bytes without the pinned ones; for [`ExprBudget::release_since`].
    pub(super) fn loose_bytes(&self) -> u64 {
        self.held.get() - self.pinned.get()
    }

    /// Releases everything built since `loose` was read, except pinned values.
    pub(super) fn release_since(&self, loose: u64) {
        self.held.set(loose + self.pinned.get());
    }

    /// Pins the values built since `loose` was read: they stay until the evaluation ends.
    pub(super) fn pin_since(&self, loose: u64) {
        self.pinned.set(self.held.get() - loose);
    }

    /// Holds the bytes of a value that outlives its evaluation.
    pub fn keep_bytes(&self, len: usize) -> Result<(), EvalError> {
        self.hold_bytes(TEXT_OVERHEAD + len as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exhausted_budget_stays_exhausted() {
        let budget = ExprBudget::with_limits(10, 1_000, StopRule::NEVER);
        assert!(budget.spend(10).is_ok());
        assert!(budget.spend(1).is_err());
        assert!(budget.spend(0).is_err());
        assert!(budget.keep_bytes(1).is_err());
        assert_eq!(budget.end(), Some(BudgetEnd::Work));
    }

    #[test]
    fn ended_evaluation_releases_bytes() {
        let budget = ExprBudget::with_limits(1_000, 300, StopRule::NEVER);
        for _ in 0..10 {
            budget.run_scoped(|| budget.build_text(200)).unwrap();
        }
        budget.keep_bytes(200).unwrap();
        assert!(budget.keep_bytes(200).is_err());
        assert_eq!(budget.end(), Some(BudgetEnd::Bytes));
        assert_eq!(budget.peak_bytes(), 232);
    }

    #[test]
    fn stop_rule_differs_from_work_limit() {
        let budget = ExprBudget::of_step(StopRule { units: 100, ..StopRule::NEVER });
        assert!(budget.spend(99).is_ok());
        assert!(budget.spend(1).is_err());
        assert_eq!(budget.end(), Some(BudgetEnd::Stopped));

        let overdue = Cell::new(false);
        let is_overdue = || overdue.get();
        let budget = ExprBudget::of_step(StopRule { is_overdue: &is_overdue, units: u64::MAX });
        assert!(budget.spend(UNITS_PER_POLL).is_ok());
        overdue.set(true);
        assert!(budget.spend(UNITS_PER_POLL).is_err());
        assert_eq!(budget.end(), Some(BudgetEnd::Stopped));
    }
}
