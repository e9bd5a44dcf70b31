//! Fair scheduling of attempts: a few begin at a time, round robin between tenants.
//!
//! Under more load than the process has CPU for, work has to wait. If every leased action were given to the
//! runtime at once, all of them would wait in its run queue, and so would each step of another tenant's
//! event. Here [`STARTS_PER_PASS`] attempts begin at a time and the runtime serves its other tasks in
//! between, so its run queue stays short and the backlog waits in a fair queue.
//!
//! This is not the limit of attempts under way: that is the number of slots.

use millstream_model::fair::{FairQueue, TenantWeights};
use millstream_model::id::TenantId;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Attempts that begin before the runtime serves its other tasks. An attempt is polled about ten times until
/// it is reported, and a pass of the runtime is at most 61 polls.
const STARTS_PER_PASS: usize = 4;

/// Begins attempts as they arrive, until `halt` or the last sender is gone, and then drops those under way.
pub(crate) async fn run_fair_start<T, F>(
    mut arrivals: mpsc::Receiver<(TenantId, T)>,
    weights: TenantWeights,
    halt: &CancellationToken,
    mut begin: impl FnMut(T) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let mut waiting = FairQueue::with_weights(weights);
    let mut under_way = JoinSet::new();
    loop {
        for _ in 0..STARTS_PER_PASS {
            let Some((_, next)) = waiting.pop() else { break };
            under_way.spawn(begin(next));
        }
        if waiting.is_empty() {
            tokio::select! {
                biased;
                () = halt.cancelled() => return,
                Some(_) = under_way.join_next(), if !under_way.is_empty() => {}
                arrived = arrivals.recv() => match arrived {
                    Some((tenant, item)) => waiting.push(&tenant, item),
                    None => return,
                },
            }
        } else {
            tokio::select! {
                biased;
                () = halt.cancelled() => return,
                () = tokio::task::yield_now() => {}
            }
        }
        while under_way.try_join_next().is_some() {}
        while let Ok((tenant, item)) = arrivals.try_recv() {
            waiting.push(&tenant, item);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;
    use std::sync::{Arc, Mutex};

    use super::*;

    fn tenant(name: &str) -> TenantId {
        TenantId::parse(name).unwrap()
    }

    type AttemptArrivals<T> = (mpsc::Sender<(TenantId, T)>, mpsc::Receiver<(TenantId, T)>);

    /// 1,000 items of one tenant and then one of another.
    fn backlog() -> AttemptArrivals<&'static str> {
        let (sender, arrivals) = mpsc::channel(2_000);
        for _ in 0..1_000 {
            sender.try_send((tenant("busy"), "busy")).unwrap();
        }
        sender.try_send((tenant("quiet"), "quiet")).unwrap();
        (sender, arrivals)
    }

    #[tokio::test]
    async fn attempt_overtakes_other_tenant_backlog() {
        let begun = Arc::new(Mutex::new(Vec::new()));
        let halt = CancellationToken::new();
        let (_open, arrivals) = backlog();
        let (note, stop) = (begun.clone(), halt.clone());
        run_fair_start(arrivals, TenantWeights::default(), &halt, move |item| {
            let mut begun = note.lock().unwrap();
            begun.push(item);
            if begun.len() == 1_001 {
                stop.cancel();
            }
            async {}
        })
        .await;
        let at = begun.lock().unwrap().iter().position(|item| *item == "quiet").unwrap();
        assert!(at <= 2, "it was number {at} of those that began");
    }

    #[tokio::test]
    async fn attempt_backlog_yields_to_runtime() {
        let halt = CancellationToken::new();
        let (turns, seen) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        let other = async {
            while !halt.is_cancelled() {
                turns.set(turns.get() + 1);
                tokio::task::yield_now().await;
            }
        };
        let (_open, arrivals) = backlog();
        let (counted, at_last, stop, mut begun) = (turns.clone(), seen.clone(), halt.clone(), 0);
        let running = run_fair_start(arrivals, TenantWeights::default(), &halt, move |_| {
            begun += 1;
            at_last.set(counted.get());
            if begun == 1_001 {
                stop.cancel();
            }
            async {}
        });
        tokio::join!(running, other);
        assert!(seen.get() >= 1_001 / STARTS_PER_PASS, "{} turns while 1,001 attempts began", seen.get());
    }
}
