//! Cache of programs: compiled definitions, and the built-in one.
//!
//! A version of a definition never changes, so an entry never expires. The absence of a definition is cached
//! as well, with the reason. A definition that this build cannot read may be readable by other builds: during
//! a rolling upgrade a newer worker can use it, so `Foreign` differs from `Gone`, which holds for all builds.
//! A failed read of the store is not cached.
//!
//! The cache is bounded by the memory of the programs, and compiling runs off the runtime: a definition with
//! many patterns takes seconds and megabytes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use millstream_model::document::SourceFormat;
use millstream_model::id::{DefinitionRef, TenantId};
use millstream_rpc::evaluation_pool::{EvaluationPlace, EvaluationPool};
use millstream_rpc::weighed_cache::WeighedCache;
use millstream_store::StoreError;
use millstream_store::definition_store::DefinitionStore;
use millstream_workflow::definition_parser;
use millstream_workflow::machine::Machine;
use millstream_workflow::program::ExecutionProgram;

/// A program, or why there is none.
pub(crate) type UsableProgram = Result<ExecutionProgram, UnusableProgram>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum UnusableProgram {
    /// Absent from the store, for every worker.
    Gone(Arc<str>),
    /// Not readable by this build; another build may read it.
    Foreign(Arc<str>),
}

impl std::fmt::Display for UnusableProgram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Gone(reason) | Self::Foreign(reason) => f.write_str(reason),
        }
    }
}

/// Upper bound on the memory of all cached programs, by estimate.
const KEPT_BYTES: usize = 64 * 1024 * 1024;
/// Compiling has no time limit: the size of a definition bounds it.
const NO_HURRY: Duration = Duration::MAX;

type CachedPrograms = WeighedCache<(TenantId, DefinitionRef), UsableProgram>;

#[derive(Debug)]
pub(crate) struct ProgramCache {
    kept: Mutex<CachedPrograms>,
    /// Definitions are compiled off the runtime, a few at a time.
    compilations: EvaluationPool,
}

impl ProgramCache {
    pub(crate) fn compiled_at(place: EvaluationPlace) -> Self {
        let kept = Mutex::new(CachedPrograms::with_capacity(KEPT_BYTES));
        Self { kept, compilations: EvaluationPool::new(NO_HURRY, place) }
    }

    pub(crate) async fn get(
        &self,
        store: &dyn DefinitionStore,
        tenant: &TenantId,
        definition: &DefinitionRef,
    ) -> Result<UsableProgram, StoreError> {
        if let Some(built_in) = ExecutionProgram::built_in(definition) {
            return Ok(Ok(built_in));
        }
        let key = (tenant.clone(), definition.clone());
        if let Some(found) = self.lock_cache().get(&key) {
            return Ok(found);
        }
        let (usable, weight) = match store
            .get_definition(tenant, &definition.name, Some(definition.version))
            .await
        {
            Ok(Some(stored)) => {
                let definition = definition.clone();
                let compiled =
                    self.compilations.run(move |_| compile_program(&stored.source, &definition)).await;
                compiled.map_err(|closed| StoreError::Unavailable(closed.to_string()))?
            }
            Ok(None) => (Err(UnusableProgram::Gone(format!("definition {definition} is gone").into())), 0),
            Err(StoreError::Corrupt(reason)) => {
                let reason = format!("definition {definition} cannot be read: {reason}");
                (Err(UnusableProgram::Foreign(reason.into())), 0)
            }
            Err(error @ (StoreError::Unavailable(_) | StoreError::Contention(_))) => return Err(error),
        };
        if let Err(reason) = &usable {
            tracing::error!(definition = %definition, error = %reason, "definition is not usable by this worker");
        }
        self.lock_cache().put(key, usable.clone(), weight);
        Ok(usable)
    }

    fn lock_cache(&self) -> MutexGuard<'_, CachedPrograms> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Compiles a definition; returns the program and its size in memory.
fn compile_program(source: &str, definition: &DefinitionRef) -> (UsableProgram, usize) {
    match definition_parser::parse(source, SourceFormat::Json).and_then(Machine::compile) {
        Ok(machine) => {
            let weight = machine.estimated_memory(source.len());
            (Ok(ExecutionProgram::Machine(Arc::new(machine))), weight)
        }
        Err(problems) => {
            let reason = format!("definition {definition} does not compile: {problems}");
            (Err(UnusableProgram::Foreign(reason.into())), 0)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use millstream_model::id::Name;
    use millstream_model::time::Timestamp;
    use millstream_store::StoreResult;
    use millstream_store::definition_store::{NewDefinition, PutDefinition, StoredDefinition};

    use super::*;

    /// Contains every definition and counts reads.
    #[derive(Debug, Default)]
    struct EveryDefinition(AtomicUsize);

    #[async_trait::async_trait]
    impl DefinitionStore for EveryDefinition {
        async fn put_definition(
            &self,
            _: &TenantId,
            _: &NewDefinition,
            _: Timestamp,
        ) -> StoreResult<PutDefinition> {
            Err(StoreError::Unavailable("this store is read-only".to_owned()))
        }

        async fn get_definition(
            &self,
            _: &TenantId,
            name: &Name,
            version: Option<i32>,
        ) -> StoreResult<Option<StoredDefinition>> {
            self.0.fetch_add(1, Ordering::SeqCst);
            let definition = DefinitionRef { name: name.clone(), version: version.unwrap_or(1) };
            let source = format!(r#"{{"name":"{name}","initial":"a","states":{{"a":{{"final":true}}}}}}"#);
            let (dialect, checksum, created_at) = (1, String::new(), Timestamp::EPOCH);
            Ok(Some(StoredDefinition { definition, dialect, source, checksum, created_at }))
        }

        async fn list_definitions(
            &self,
            _: &TenantId,
            _: Option<&Name>,
            _: usize,
        ) -> StoreResult<Vec<StoredDefinition>> {
            Ok(Vec::new())
        }
    }

    fn programs(kept_bytes: usize) -> ProgramCache {
        let compilations = EvaluationPool::new(NO_HURRY, EvaluationPlace::Threads);
        ProgramCache { kept: Mutex::new(CachedPrograms::with_capacity(kept_bytes)), compilations }
    }

    async fn get(programs: &ProgramCache, store: &EveryDefinition, name: &str) {
        let definition = DefinitionRef { name: Name::parse(name).unwrap(), version: 1 };
        let found = programs.get(store, &TenantId::default_tenant(), &definition).await.unwrap();
        assert!(found.is_ok(), "{found:?}");
    }

    #[tokio::test]
    async fn program_cache_is_bounded_by_size() {
        for (kept_bytes, reads) in [(1 << 20, 2), (2_000, 4)] {
            let (programs, store) = (programs(kept_bytes), EveryDefinition::default());
            for name in ["one", "one", "two", "one", "one", "two"] {
                get(&programs, &store, name).await;
            }
            assert_eq!(store.0.load(Ordering::SeqCst), reads, "{kept_bytes} bytes");
        }
    }

    #[tokio::test]
    async fn program_compiles_off_the_runtime() {
        let (programs, store) = (programs(1 << 20), EveryDefinition::default());
        let mut compiling = std::pin::pin!(get(&programs, &store, "one"));
        // The store answers at once, so only the thread of the pool is waited for.
        assert!(futures::poll!(&mut compiling).is_pending());
        compiling.await;
    }
}
