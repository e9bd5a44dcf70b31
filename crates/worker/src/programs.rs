//! Programs, kept: compiled definitions, and the one that is built in.
//!
//! A version of a definition never changes, so an entry is right for ever. Also kept is the fact that
//! there is none, and why. A definition that this build cannot read says nothing about other
//! builds: during a rolling upgrade a newer worker can use it, so that is told apart from one that is
//! gone for everybody. What the store could not answer is not kept.
//!
//! The cache is bounded by the memory that programs occupy, and compiling runs off the runtime: a definition
//! with many patterns takes seconds and megabytes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use millstream_core::definition::{self, Format};
use millstream_core::id::{DefinitionRef, TenantId};
use millstream_core::machine::Machine;
use millstream_core::program::Program;
use millstream_rpc::evaluation_pool::{EvaluationPlace, EvaluationPool};
use millstream_rpc::weighed_cache::WeighedCache;
use millstream_store::StoreError;
use millstream_store::definition_store::DefinitionStore;

/// A program, or why there is none.
pub(crate) type Usable = Result<Program, Unusable>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unusable {
    /// The store does not have it; no worker can do better.
    Gone(Arc<str>),
    /// Not readable by this build; another one may.
    Foreign(Arc<str>),
}

impl std::fmt::Display for Unusable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Gone(reason) | Self::Foreign(reason) => f.write_str(reason),
        }
    }
}

/// What all kept programs may occupy, by estimate.
const KEPT_BYTES: usize = 64 * 1024 * 1024;
/// Compiling has no clock: a definition's size bounds it.
const NO_HURRY: Duration = Duration::MAX;

type Kept = WeighedCache<(TenantId, DefinitionRef), Usable>;

#[derive(Debug)]
pub(crate) struct Programs {
    kept: Mutex<Kept>,
    /// Definitions are compiled off the runtime, a few at a time.
    compilations: EvaluationPool,
}

impl Programs {
    pub(crate) fn compiled_at(place: EvaluationPlace) -> Self {
        let kept = Mutex::new(Kept::with_capacity(KEPT_BYTES));
        Self { kept, compilations: EvaluationPool::new(NO_HURRY, place) }
    }

    pub(crate) async fn get(
        &self,
        store: &dyn DefinitionStore,
        tenant: &TenantId,
        definition: &DefinitionRef,
    ) -> Result<Usable, StoreError> {
        if let Some(built_in) = Program::built_in(definition) {
            return Ok(Ok(built_in));
        }
        let key = (tenant.clone(), definition.clone());
        if let Some(found) = self.lock().get(&key) {
            return Ok(found);
        }
        let (usable, weight) = match store.get(tenant, &definition.name, Some(definition.version)).await {
            Ok(Some(stored)) => {
                let definition = definition.clone();
                let compiled = self.compilations.run(move |_| compile(&stored.source, &definition)).await;
                compiled.map_err(|closed| StoreError::Unavailable(closed.to_string()))?
            }
            Ok(None) => (Err(Unusable::Gone(format!("definition {definition} is gone").into())), 0),
            Err(StoreError::Corrupt(reason)) => {
                let reason = format!("definition {definition} cannot be read: {reason}");
                (Err(Unusable::Foreign(reason.into())), 0)
            }
            Err(error @ (StoreError::Unavailable(_) | StoreError::Contention(_))) => return Err(error),
        };
        if let Err(reason) = &usable {
            tracing::error!(definition = %definition, error = %reason, "a definition cannot be used by this worker");
        }
        self.lock().put(key, usable.clone(), weight);
        Ok(usable)
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A program, and what it occupies.
fn compile(source: &str, definition: &DefinitionRef) -> (Usable, usize) {
    match definition::parse(source, Format::Json).and_then(Machine::compile) {
        Ok(machine) => {
            let weight = machine.weight(source.len());
            (Ok(Program::Machine(Arc::new(machine))), weight)
        }
        Err(problems) => {
            let reason = format!("definition {definition} does not compile: {problems}");
            (Err(Unusable::Foreign(reason.into())), 0)
        }
    }
}
