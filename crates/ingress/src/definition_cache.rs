//! Definition cache of the ingress: compiled definitions, and the definition of each execution.
//!
//! A version of a definition never changes, so it is cached without an expiry. An execution keeps its
//! version for life, but its id can be reused: retention frees ids, and another process may have started
//! another execution with the same id. Therefore that mapping is cached for a minute, dropped as soon as
//! the store reports the execution as gone, and never the only reason of a refusal. The latest version of a
//! name does change and is read every time.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lru::LruCache;
use millstream_model::document::SourceFormat;
use millstream_model::id::{DefinitionRef, ExecutionKey, Name, TenantId};
use millstream_rpc::evaluation_pool::{EvaluationPlace, EvaluationPool};
use millstream_rpc::weighed_cache::WeighedCache;
use millstream_store::definition_store::{DefinitionStore, StoredDefinition};
use millstream_store::{StoreError, StoreResult};
use millstream_workflow::definition_parser;
use millstream_workflow::machine::Machine;
use tokio::time::Instant;

use crate::coalescer::Coalescer;

/// Upper bound of all cached machines, by estimated size.
const MACHINE_BYTES: usize = 64 * 1024 * 1024;
const TARGETS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(100_000);
/// Wall-clock limit of an expression evaluation; a stopped evaluation may be retried.
const EVALUATION_PATIENCE: Duration = Duration::from_secs(5);
/// Cache time of the definition of an execution.
const MEMORY: Duration = Duration::from_secs(60);

/// The definition of an execution; `None` where there is no such execution.
type TargetCoalescer = Coalescer<ExecutionKey, Option<DefinitionRef>>;

pub(crate) struct DefinitionCache {
    lookup: TargetCoalescer,
    definitions: Arc<dyn DefinitionStore>,
    machines: Mutex<WeighedCache<(TenantId, DefinitionRef), Arc<Machine>>>,
    /// Definitions are compiled off the runtime, a few at a time.
    pub(crate) compilations: EvaluationPool,
    /// Pool for reading and folding large graphs off the runtime; separate from compilations, so that it
    /// does not wait for them.
    pub(crate) graph_work: EvaluationPool,
    /// Pool for slow rules and input expressions.
    pub(crate) evaluations: EvaluationPool,
    targets: Mutex<LruCache<ExecutionKey, (DefinitionRef, Instant)>>,
}

/// Whether an execution was in the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TargetEviction {
    /// It was, and has been removed.
    Forgotten,
    Nothing,
}

impl DefinitionCache {
    pub(crate) fn of(
        lookup: TargetCoalescer,
        definitions: Arc<dyn DefinitionStore>,
        place: EvaluationPlace,
    ) -> Self {
        Self {
            lookup,
            definitions,
            machines: Mutex::new(WeighedCache::with_capacity(MACHINE_BYTES)),
            // No time limit: the size of a definition bounds its compilation time.
            compilations: EvaluationPool::new(Duration::MAX, place),
            graph_work: EvaluationPool::new(Duration::MAX, place),
            evaluations: EvaluationPool::new(EVALUATION_PATIENCE, place),
            targets: Mutex::new(LruCache::new(TARGETS)),
        }
    }

    /// The machine of a version, or of the latest version.
    pub(crate) async fn find_machine(
        &self,
        tenant: &TenantId,
        name: &Name,
        version: Option<i32>,
    ) -> StoreResult<Option<(DefinitionRef, Arc<Machine>)>> {
        if let Some(version) = version {
            let wanted = (tenant.clone(), DefinitionRef { name: name.clone(), version });
            if let Some(machine) = lock_ignoring_poison(&self.machines).get(&wanted) {
                return Ok(Some((wanted.1, machine)));
            }
        }
        let Some(stored) = self.definitions.get_definition(tenant, name, version).await? else {
            return Ok(None);
        };
        let key = (tenant.clone(), stored.definition.clone());
        if let Some(machine) = lock_ignoring_poison(&self.machines).get(&key) {
            return Ok(Some((key.1, machine)));
        }
        let definition = stored.definition.clone();
        let compiled = self.compilations.run(move |_| {
            let machine = compile_definition(&stored)?;
            let weight = machine.estimated_memory(stored.source.len());
            Ok((machine, weight))
        });
        let compiled: StoreResult<(Machine, usize)> =
            compiled.await.map_err(|closed| StoreError::Unavailable(closed.to_string()))?;
        let (machine, weight) = compiled?;
        let machine = Arc::new(machine);
        lock_ignoring_poison(&self.machines).put(key, machine.clone(), weight);
        Ok(Some((definition, machine)))
    }

    /// The definition that each execution runs, in order; `None` where there is no such execution.
    pub(crate) async fn definitions_of(
        &self,
        executions: &[ExecutionKey],
    ) -> StoreResult<Vec<Option<DefinitionRef>>> {
        let mut found: Vec<Option<DefinitionRef>> = {
            let mut targets = lock_ignoring_poison(&self.targets);
            let fresh = |(definition, since): &(DefinitionRef, Instant)| {
                (since.elapsed() < MEMORY).then(|| definition.clone())
            };
            executions.iter().map(|key| targets.get(key).and_then(fresh)).collect()
        };
        let missing: Vec<usize> = (0..found.len()).filter(|&at| found[at].is_none()).collect();
        if missing.is_empty() {
            return Ok(found);
        }
        let keys: Vec<ExecutionKey> = missing.iter().map(|&at| executions[at].clone()).collect();
        let asked = self.lookup.ask_batched(keys.clone()).await?;
        let mut targets = lock_ignoring_poison(&self.targets);
        for ((at, key), target) in missing.into_iter().zip(keys).zip(asked) {
            if let Some(target) = &target {
                targets.put(key, (target.clone(), Instant::now()));
            }
            found[at] = target;
        }
        Ok(found)
    }

    pub(crate) fn remember_target(&self, execution: ExecutionKey, definition: DefinitionRef) {
        lock_ignoring_poison(&self.targets).put(execution, (definition, Instant::now()));
    }

    /// Drops an execution that the store reports as gone (retention): another one may reuse its id.
    pub(crate) fn forget_target(&self, execution: &ExecutionKey) -> TargetEviction {
        match lock_ignoring_poison(&self.targets).pop(execution) {
            Some(_) => TargetEviction::Forgotten,
            None => TargetEviction::Nothing,
        }
    }
}

fn lock_ignoring_poison<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn compile_definition(stored: &StoredDefinition) -> StoreResult<Machine> {
    let unusable = |problems: &dyn std::fmt::Display| {
        StoreError::Corrupt(format!("definition {} cannot be used: {problems}", stored.definition))
    };
    let definition = definition_parser::parse(&stored.source, SourceFormat::Json)
        .map_err(|problems| unusable(&problems))?;
    Machine::compile(definition).map_err(|problems| unusable(&problems))
}

impl std::fmt::Debug for DefinitionCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Machines").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use millstream_model::time::Timestamp;
    use millstream_store::definition_store::{NewDefinition, PutDefinition};
    use tokio_util::task::TaskTracker;

    use super::*;

    /// Has every definition, and counts the reads.
    #[derive(Debug, Default)]
    struct CountingDefinitions(AtomicUsize);

    #[async_trait::async_trait]
    impl DefinitionStore for CountingDefinitions {
        async fn put_definition(
            &self,
            _: &TenantId,
            _: &NewDefinition,
            _: Timestamp,
        ) -> StoreResult<PutDefinition> {
            Err(StoreError::Unavailable("nothing is written here".to_owned()))
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

    fn machines_of(store: Arc<CountingDefinitions>) -> DefinitionCache {
        let query = |keys: Vec<ExecutionKey>| async move { Ok(vec![None; keys.len()]) };
        let lookup = Coalescer::start_coalescer(query, &TaskTracker::new());
        DefinitionCache::of(lookup, store, EvaluationPlace::Threads)
    }

    #[tokio::test]
    async fn definition_is_compiled_off_runtime() {
        let machines = machines_of(Arc::new(CountingDefinitions::default()));
        let (tenant, name) = (TenantId::default_tenant(), Name::parse("one").unwrap());
        let mut compiling = std::pin::pin!(machines.find_machine(&tenant, &name, Some(1)));
        // The store answers at once, so the pending future waits for the thread of the pool.
        assert!(futures::poll!(&mut compiling).is_pending());
        assert!(compiling.await.unwrap().is_some());
        assert!(futures::poll!(std::pin::pin!(machines.find_machine(&tenant, &name, Some(1)))).is_ready());
    }

    #[tokio::test]
    async fn definition_cache_is_bounded_by_weight() {
        let tenant = TenantId::default_tenant();
        for (kept_bytes, reads) in [(1 << 20, 2), (2_000, 4)] {
            let store = Arc::new(CountingDefinitions::default());
            let mut machines = machines_of(store.clone());
            machines.machines = Mutex::new(WeighedCache::with_capacity(kept_bytes));
            for name in ["one", "one", "two", "one", "one", "two"] {
                let found =
                    machines.find_machine(&tenant, &Name::parse(name).unwrap(), Some(1)).await.unwrap();
                assert!(found.is_some(), "{name}");
            }
            assert_eq!(store.0.load(Ordering::SeqCst), reads, "{kept_bytes} bytes");
        }
    }
}
