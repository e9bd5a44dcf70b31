//! How much one evaluation may cost.
//!
//! CEL always ends, but a comprehension inside a comprehension over a large list ends late. Every node
//! that is visited and every value that is built costs a unit, long texts cost more; an evaluation that
//! runs out of units is an error like any other.

use std::cell::Cell;

use super::EvalError;

/// Enough to turn the largest payload into values once and to walk it; some ten milliseconds of work.
pub(super) const UNITS: u64 = 400_000;

/// What is left of one evaluation's allowance.
#[derive(Debug)]
pub(super) struct Budget(Cell<u64>);

impl Budget {
    pub(super) fn full() -> Self {
        Self(Cell::new(UNITS))
    }

    pub(super) fn spend(&self, units: u64) -> Result<(), EvalError> {
        match self.0.get().checked_sub(units) {
            Some(left) => {
                self.0.set(left);
                Ok(())
            }
            None => {
                self.0.set(0);
                Err(EvalError::new("the expression takes too much work on this data"))
            }
        }
    }

    /// The price of building or comparing a text.
    pub(super) fn spend_text(&self, len: usize) -> Result<(), EvalError> {
        self.spend(1 + len as u64 / 32)
    }
}
