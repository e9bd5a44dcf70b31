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
use millstream_core::definition::{self, Format};
use millstream_core::id::{DefinitionRef, ExecutionKey, Name, TenantId};
use millstream_core::machine::Machine;
use millstream_rpc::evaluation_pool::{EvaluationPlace, EvaluationPool};
use millstream_rpc::weighed_cache::WeighedCache;
use millstream_store::definition_store::{DefinitionStore, StoredDefinition};
use millstream_store::{Result, StoreError};
use tokio::time::Instant;

use crate::lookup::Lookup;

/// Upper bound of all cached machines, by estimated size.
const MACHINE_BYTES: usize = 64 * 1024 * 1024;
const TARGETS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(100_000);
/// Wall-clock limit of an expression evaluation; a stopped evaluation may be retried.
const EVALUATION_PATIENCE: Duration = Duration::from_secs(5);
/// Cache time of the definition of an execution.
const MEMORY: Duration = Duration::from_secs(60);

/// The definition of an execution; `None` where there is no such execution.
type Targets = Lookup<ExecutionKey, Option<DefinitionRef>>;

pub(crate) struct Machines {
    lookup: Targets,
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
pub(crate) enum Remembered {
    /// It was, and has been removed.
    Forgotten,
    Nothing,
}

impl Machines {
    pub(crate) fn of(lookup: Targets, definitions: Arc<dyn DefinitionStore>, place: EvaluationPlace) -> Self {
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
    pub(crate) async fn find(
        &self,
        tenant: &TenantId,
        name: &Name,
        version: Option<i32>,
    ) -> Result<Option<(DefinitionRef, Arc<Machine>)>> {
        if let Some(version) = version {
            let wanted = (tenant.clone(), DefinitionRef { name: name.clone(), version });
            if let Some(machine) = lock(&self.machines).get(&wanted) {
                return Ok(Some((wanted.1, machine)));
            }
        }
        let Some(stored) = self.definitions.get(tenant, name, version).await? else { return Ok(None) };
        let key = (tenant.clone(), stored.definition.clone());
        if let Some(machine) = lock(&self.machines).get(&key) {
            return Ok(Some((key.1, machine)));
        }
        let definition = stored.definition.clone();
        let compiled = self.compilations.run(move |_| {
            let machine = compile(&stored)?;
            let weight = machine.weight(stored.source.len());
            Ok((machine, weight))
        });
        let compiled: Result<(Machine, usize)> =
            compiled.await.map_err(|closed| StoreError::Unavailable(closed.to_string()))?;
        let (machine, weight) = compiled?;
        let machine = Arc::new(machine);
        lock(&self.machines).put(key, machine.clone(), weight);
        Ok(Some((definition, machine)))
    }

    /// The definition that each execution runs, in order; `None` where there is no such execution.
    pub(crate) async fn targets(&self, executions: &[ExecutionKey]) -> Result<Vec<Option<DefinitionRef>>> {
        let mut found: Vec<Option<DefinitionRef>> = {
            let mut targets = lock(&self.targets);
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
        let asked = self.lookup.ask(keys.clone()).await?;
        let mut targets = lock(&self.targets);
        for ((at, key), target) in missing.into_iter().zip(keys).zip(asked) {
            if let Some(target) = &target {
                targets.put(key, (target.clone(), Instant::now()));
            }
            found[at] = target;
        }
        Ok(found)
    }

    pub(crate) fn started(&self, execution: ExecutionKey, definition: DefinitionRef) {
        lock(&self.targets).put(execution, (definition, Instant::now()));
    }

    /// Drops an execution that the store reports as gone (retention): another one may reuse its id.
    pub(crate) fn gone(&self, execution: &ExecutionKey) -> Remembered {
        match lock(&self.targets).pop(execution) {
            Some(_) => Remembered::Forgotten,
            None => Remembered::Nothing,
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn compile(stored: &StoredDefinition) -> Result<Machine> {
    let unusable = |problems: &dyn std::fmt::Display| {
        StoreError::Corrupt(format!("definition {} cannot be used: {problems}", stored.definition))
    };
    let definition =
        definition::parse(&stored.source, Format::Json).map_err(|problems| unusable(&problems))?;
    Machine::compile(definition).map_err(|problems| unusable(&problems))
}

impl std::fmt::Debug for Machines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Machines").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use millstream_core::time::Timestamp;
    use millstream_store::definition_store::{NewDefinition, PutDefinition};
    use tokio_util::task::TaskTracker;

    use super::*;

    /// Has every definition, and counts the reads.
    #[derive(Debug, Default)]
    struct EveryDefinition(AtomicUsize);

    #[async_trait::async_trait]
    impl DefinitionStore for EveryDefinition {
        async fn put(&self, _: &TenantId, _: &NewDefinition, _: Timestamp) -> Result<PutDefinition> {
            Err(StoreError::Unavailable("nothing is written here".to_owned()))
        }

        async fn get(
            &self,
            _: &TenantId,
            name: &Name,
            version: Option<i32>,
        ) -> Result<Option<StoredDefinition>> {
            self.0.fetch_add(1, Ordering::SeqCst);
            let definition = DefinitionRef { name: name.clone(), version: version.unwrap_or(1) };
            let source = format!(r#"{{"name":"{name}","initial":"a","states":{{"a":{{"final":true}}}}}}"#);
            let (dialect, checksum, created_at) = (1, String::new(), Timestamp::EPOCH);
            Ok(Some(StoredDefinition { definition, dialect, source, checksum, created_at }))
        }

        async fn list(&self, _: &TenantId, _: Option<&Name>, _: usize) -> Result<Vec<StoredDefinition>> {
            Ok(Vec::new())
        }
    }

    fn machines_of(store: Arc<EveryDefinition>) -> Machines {
        let query = |keys: Vec<ExecutionKey>| async move { Ok(vec![None; keys.len()]) };
        let lookup = Lookup::start(query, &TaskTracker::new());
        Machines::of(lookup, store, EvaluationPlace::Threads)
    }

    #[tokio::test]
    async fn a_machine_is_compiled_off_the_runtime() {
        let machines = machines_of(Arc::new(EveryDefinition::default()));
        let (tenant, name) = (TenantId::default_tenant(), Name::parse("one").unwrap());
        let mut compiling = std::pin::pin!(machines.find(&tenant, &name, Some(1)));
        // The store answers at once, so the pending future waits for the thread of the pool.
        assert!(futures::poll!(&mut compiling).is_pending());
        assert!(compiling.await.unwrap().is_some());
        assert!(futures::poll!(std::pin::pin!(machines.find(&tenant, &name, Some(1)))).is_ready());
    }

    #[tokio::test]
    async fn machines_are_kept_by_what_they_occupy_and_not_by_their_number() {
        let tenant = TenantId::default_tenant();
        for (kept_bytes, reads) in [(1 << 20, 2), (2_000, 4)] {
            let store = Arc::new(EveryDefinition::default());
            let mut machines = machines_of(store.clone());
            machines.machines = Mutex::new(WeighedCache::with_capacity(kept_bytes));
            for name in ["one", "one", "two", "one", "one", "two"] {
                let found = machines.find(&tenant, &Name::parse(name).unwrap(), Some(1)).await.unwrap();
                assert!(found.is_some(), "{name}");
            }
            assert_eq!(store.0.load(Ordering::SeqCst), reads, "{kept_bytes} bytes");
        }
    }
}
