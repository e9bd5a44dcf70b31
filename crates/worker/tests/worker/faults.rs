//! Continuous faults of store and stream: nothing is lost and nothing is done twice.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use millstream_model::entropy::{Entropy, random_unit};
use millstream_model::status::ExecutionStatus;

use crate::bench::{WorkerBench, key};
use crate::faulty::{self, FaultHook, FaultyCall, ServiceFault};

const EXECUTIONS: usize = 40;

const JOB: &str = r#"
name: job
initial: working
context: { done: 0, last: -1, ordered: true }
states:
  working:
    on:
      add:
        set: { last: event.payload.n, ordered: context.ordered && event.payload.n == context.last + 1 }
        do: [first, second, note]
      finished:
        - { if: context.done == 9, to: closed, set: { done: context.done + 1 } }
        - { set: { done: context.done + 1 } }
  closed: { final: true }
actions:
  note: { log: "got ${event.payload.n}" }
  first: { noop: event.payload.n }
  second: { noop: results.first, needs: [first], on_success: finished }
"#;

/// Number of faults of each kind: the test proves nothing about a kind that never occurred.
#[derive(Debug, Default)]
struct FaultCounts {
    /// Committed, with a lost answer.
    commits: AtomicUsize,
    settlements: AtomicUsize,
    doorbells: AtomicUsize,
    others: AtomicUsize,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_faults_lose_and_double_nothing() {
    let bench = WorkerBench::new();
    bench.define(JOB).await;
    let injected = Arc::new(FaultCounts::default());
    let hook: FaultHook = {
        let (entropy, injected) = (bench.entropy.clone(), injected.clone());
        Arc::new(move |call| {
            // A silently lost doorbell and a store in doubt are the hard cases.
            let hard = matches!(
                call,
                FaultyCall::Commit(..)
                    | FaultyCall::Settle
                    | FaultyCall::Publish
                    | FaultyCall::FireDue
                    | FaultyCall::RecordInputs
                    | FaultyCall::Ack
            );
            // The first call of each kind always fails: many events make few commits.
            let none_yet = |bit: &AtomicUsize| bit.load(Ordering::Relaxed) == 0;
            let first = (matches!(call, FaultyCall::Commit(..)) && none_yet(&injected.commits))
                || (matches!(call, FaultyCall::Settle) && none_yet(&injected.settlements))
                || (matches!(call, FaultyCall::Publish) && none_yet(&injected.doorbells));
            let fault = match (random_unit(&*entropy as &dyn Entropy) * 100.0) as u32 {
                _ if first => ServiceFault::InDoubt,
                0..12 => ServiceFault::Unavailable,
                12..24 if hard => ServiceFault::InDoubt,
                24..30 => ServiceFault::Contention,
                _ => ServiceFault::None,
            };
            let bit = match (call, fault) {
                (_, ServiceFault::None) => return fault,
                (FaultyCall::Commit(..), ServiceFault::InDoubt) => &injected.commits,
                (FaultyCall::Settle, ServiceFault::InDoubt) => &injected.settlements,
                (FaultyCall::Publish, ServiceFault::InDoubt) => &injected.doorbells,
                _ => &injected.others,
            };
            bit.fetch_add(1, Ordering::Relaxed);
            fault
        })
    };
    let _workers: Vec<_> = (0..3)
        .map(|_| {
            let options = millstream_worker::WorkerOptions { lease: Duration::from_secs(1), ..bench.hasty() };
            bench.worker_on(
                faulty::stores(&bench.stores, &hook),
                faulty::streams(&bench.streams, &hook),
                options,
            )
        })
        .collect();
    for n in 0..EXECUTIONS {
        bench.start("job", &format!("x{n}")).await;
    }
    for n in 0..10 {
        for execution in 0..EXECUTIONS {
            bench.send(&key(&format!("x{execution}")), "add", &format!(r#"{{"n":{n}}}"#)).await;
        }
    }
    for execution in 0..EXECUTIONS {
        let key = key(&format!("x{execution}"));
        let ended = bench.until_status(&key, ExecutionStatus::Completed).await;
        let context = &ended.state.context;
        assert_eq!((context["done"].as_str(), context["ordered"].as_str()), ("10", "true"), "{key}");
        bench.assert_sound(&key).await;
        let mut outcomes: BTreeMap<String, usize> = BTreeMap::new();
        for entry in bench.history(&key).await.iter().filter(|e| e.transition.name.as_str() == "finished") {
            let outcome: serde_json::Value = entry.payload.decode().unwrap();
            *outcomes.entry(outcome["key"].to_string()).or_default() += 1;
        }
        assert_eq!(outcomes.len(), 10);
        assert!(outcomes.values().all(|times| *times == 1), "an outcome was reported twice: {outcomes:?}");
    }
    bench.until_done().await;
    for bit in [&injected.commits, &injected.settlements, &injected.doorbells, &injected.others] {
        assert!(bit.load(Ordering::Relaxed) > 0, "a kind of fault never occurred: {injected:?}");
    }
}
