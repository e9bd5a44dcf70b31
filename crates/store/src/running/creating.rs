//! A run comes to be, with its devices chosen, in one write.

use millstream_core::claim::{self, RunSpec};
use millstream_core::id::RunKey;

use super::around::Around;
use super::placing::placed;
use super::writing::{Draft, Outcome, Settle, TRIES, contended};
use crate::run_store::{Expected, StoredRun};
use crate::{Result, StoreError};

#[derive(Debug)]
pub enum Created {
    New(Box<claim::Run>),
    /// There is one by this key, which may be the same.
    Exists(Box<StoredRun>),
}

pub async fn create(around: &dyn Around, key: &RunKey, spec: &RunSpec, by: Option<&str>) -> Result<Created> {
    for _ in 0..TRIES {
        let now = around.now();
        let change = claim::create(spec.clone(), by, now);
        let (change, others) = placed(around, key, change, by, now).await?;
        let draft = Draft { key: key.clone(), expected: Expected::Nothing, change, others };
        match draft.write(around, Settle::Here, now).await {
            Ok(Outcome::Done) => return Ok(Created::New(Box::new(draft.change.run))),
            Ok(Outcome::Faster { key: other, current: Some(current) }) if other == *key => {
                return Ok(Created::Exists(current));
            }
            Ok(Outcome::Faster { .. }) | Err(StoreError::Contention(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Err(contended(key))
}
