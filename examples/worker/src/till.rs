//! A stand-in for whoever takes the money. It knows idempotency keys, as yours should.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// More than this is declined.
const LIMIT: u64 = 1_000;

#[derive(Debug, Default)]
pub struct Till {
    /// Receipt and amount by key.
    charges: Mutex<HashMap<String, (String, u64)>>,
    busy: bool,
}

/// Why nothing was charged.
#[derive(Debug)]
pub enum Refusal {
    Declined,
    Busy,
}

impl Till {
    /// The receipt; the same key gets the same one and is charged once.
    pub fn charge(&self, key: &str, order: &str, amount: u64) -> Result<String, Refusal> {
        if self.busy {
            return Err(Refusal::Busy);
        }
        if amount > LIMIT {
            return Err(Refusal::Declined);
        }
        let mut charges = self.charges.lock().unwrap_or_else(PoisonError::into_inner);
        let number = charges.len() + 1;
        let (receipt, _) =
            charges.entry(key.to_owned()).or_insert_with(|| (format!("{order}-{number}"), amount));
        Ok(receipt.clone())
    }
}

#[cfg(test)]
impl Till {
    pub fn busy() -> Self {
        Self { busy: true, ..Self::default() }
    }

    pub fn taken(&self) -> u64 {
        let charges = self.charges.lock().unwrap_or_else(PoisonError::into_inner);
        charges.values().map(|(_, amount)| amount).sum()
    }
}
