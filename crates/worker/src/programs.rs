//! Programs, kept: compiled definitions, and the one that is built in.
//!
//! A version of a definition never changes, so an entry is right for ever. Also kept is the fact that
//! there is none, and why. A definition that this build cannot read says nothing about other
//! builds: during a rolling upgrade a newer worker can use it, so that is told apart from one that is
//! gone for everybody. What the store could not answer is not kept.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use lru::LruCache;
use millstream_core::definition::{self, Format};
use millstream_core::id::{DefinitionRef, TenantId};
use millstream_core::machine::Machine;
use millstream_core::program::Program;
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

const KEPT: NonZeroUsize = NonZeroUsize::new(1024).unwrap();

#[derive(Debug)]
pub(crate) struct Programs(Mutex<LruCache<(TenantId, DefinitionRef), Usable>>);

impl Default for Programs {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(KEPT)))
    }
}

impl Programs {
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
        if let Some(found) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(found.clone());
        }
        let usable = match store.get(tenant, &definition.name, Some(definition.version)).await {
            Ok(Some(stored)) => compile(&stored.source, definition),
            Ok(None) => Err(Unusable::Gone(format!("definition {definition} is gone").into())),
            Err(StoreError::Corrupt(reason)) => {
                Err(Unusable::Foreign(format!("definition {definition} cannot be read: {reason}").into()))
            }
            Err(error @ (StoreError::Unavailable(_) | StoreError::Contention(_))) => return Err(error),
        };
        if let Err(reason) = &usable {
            tracing::error!(definition = %definition, error = %reason, "a definition cannot be used by this worker");
        }
        self.0.lock().unwrap_or_else(PoisonError::into_inner).put(key, usable.clone());
        Ok(usable)
    }
}

fn compile(source: &str, definition: &DefinitionRef) -> Usable {
    definition::parse(source, Format::Json)
        .and_then(Machine::compile)
        .map(|machine| Program::Machine(Arc::new(machine)))
        .map_err(|problems| {
            Unusable::Foreign(format!("definition {definition} does not compile: {problems}").into())
        })
}
