//! Continuous faults of store and stream: nothing is lost and nothing is done twice.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use millstream_core::entropy::{Entropy, unit};
use millstream_core::status::ExecutionStatus;

use crate::bench::{Bench, key};
use crate::faulty::{self, Call, Fault, Hook};

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
struct Injected {
    /// Committed, with a lost answer.
    commits: AtomicUsize,
    settlements: AtomicUsize,
    doorbells: AtomicUsize,
    others: AtomicUsize,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_doubled_when_every_call_may_fail() {
    let bench = Bench::new();
    bench.define(JOB).await;
    let injected = Arc::new(Injected::default());
    let hook: Hook = {
        let (entropy, injected) = (bench.entropy.clone(), injected.clone());
        Arc::new(move |call| {
            // A silently lost doorbell and a store in doubt are the hard cases.
            let hard = matches!(
                call,
                Call::Commit(..)
                    | Call::Settle
                    | Call::Publish
                    | Call::FireDue
                    | Call::RecordInputs
                    | Call::Ack
            );
            // The first call of each kind always fails: many events make few commits.
            let none_yet = |bit: &AtomicUsize| bit.load(Ordering::Relaxed) == 0;
            let first = (matches!(call, Call::Commit(..)) && none_yet(&injected.commits))
                || (matches!(call, Call::Settle) && none_yet(&injected.settlements))
                || (matches!(call, Call::Publish) && none_yet(&injected.doorbells));
            let fault = match (unit(&*entropy as &dyn Entropy) * 100.0) as u32 {
                _ if first => Fault::InDoubt,
                0..12 => Fault::Unavailable,
                12..24 if hard => Fault::InDoubt,
                24..30 => Fault::Contention,
                _ => Fault::None,
            };
            let bit = match (call, fault) {
                (_, Fault::None) => return fault,
                (Call::Commit(..), Fault::InDoubt) => &injected.commits,
                (Call::Settle, Fault::InDoubt) => &injected.settlements,
                (Call::Publish, Fault::InDoubt) => &injected.doorbells,
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
