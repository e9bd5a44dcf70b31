//! Settlement races: neither of two may see the other unsettled, and there is no deadlock.

use millstream_model::status::{ActionStatus, EventStatus};

use crate::ConformanceBench;
use crate::commit_builder::{ready, waiting};
use crate::fixture::{execution, grant};
use crate::settle::{settle, succeed};

const ROUNDS: usize = 200;

pub async fn concurrent_settlements_never_leave_event_processing(bench: ConformanceBench) {
    for round in 0..ROUNDS {
        let key = execution(&format!("e{round}"));
        let (id, _, done) = bench.acting(&key, &[ready("a"), ready("b")], grant(2)).await;
        let tasks = [0, 1].map(|n| {
            let (bench, one) = (bench.clone(), succeed(&done.leased[n], "1"));
            tokio::spawn(async move { settle(&bench, vec![one], grant(0)).await })
        });
        for task in tasks {
            task.await.unwrap();
        }
        let status = bench.event(&key, id).await.status;
        assert_eq!(status, EventStatus::Completed, "round {round}");
    }
}

pub async fn concurrent_needs_free_dependent_once(bench: ConformanceBench) {
    for round in 0..ROUNDS / 4 {
        let key = execution(&format!("e{round}"));
        let actions = [ready("a"), ready("b"), waiting("c", &["a", "b"])];
        let (_, _, done) = bench.acting(&key, &actions, grant(2)).await;
        let tasks = [0, 1].map(|n| {
            let (bench, one) = (bench.clone(), succeed(&done.leased[n], "1"));
            tokio::spawn(async move { settle(&bench, vec![one], grant(1)).await.leased })
        });
        let mut freed = Vec::new();
        for task in tasks {
            freed.extend(task.await.unwrap());
        }
        assert_eq!(freed.len(), 1, "round {round}");
        let c = bench.action(&key, "c").await;
        assert_eq!((c.status, c.attempts), (ActionStatus::Leased, 1), "round {round}");
    }
}

pub async fn crossed_settlements_surface_no_deadlock(bench: ConformanceBench) {
    for round in 0..ROUNDS / 4 {
        let keys = ["x", "y", "z"].map(|name| execution(&format!("{name}{round}")));
        let (mut forth, mut back, mut events) = (Vec::new(), Vec::new(), Vec::new());
        for key in &keys {
            let (id, _, done) = bench.acting(key, &[ready("a"), ready("b")], grant(2)).await;
            forth.push(succeed(&done.leased[0], "1"));
            back.push(succeed(&done.leased[1], "1"));
            events.push((key, id));
        }
        back.reverse();
        let tasks = [forth, back].map(|batch| {
            let bench = bench.clone();
            tokio::spawn(async move { settle(&bench, batch, grant(0)).await })
        });
        for task in tasks {
            task.await.unwrap();
        }
        for (key, id) in events {
            let status = bench.event(key, id).await.status;
            assert_eq!(status, EventStatus::Completed, "round {round}, {key}");
        }
    }
}

pub async fn settlements_and_commits_run_concurrently(bench: ConformanceBench) {
    let key = execution("one");
    let mut state = bench.start(&key).await;
    for round in 0..ROUNDS / 4 {
        let id = bench.post(&key, "go").await;
        let now = bench.now().await;
        let visit = crate::commit_builder::ConformanceVisit::to(&key, &state, now).act(
            id,
            "working",
            &[ready("a"), ready("b")],
        );
        let committed = bench.commit(vec![visit], grant(2)).await.remove(0);
        let done = crate::commit_builder::done(committed);
        let after = bench.load(&key, None).await.state.unwrap().0;
        let next = bench.post(&key, "next").await;
        let settling = {
            let (bench, batch) = (bench.clone(), done.leased.iter().map(|a| succeed(a, "1")).collect());
            tokio::spawn(async move { settle(&bench, batch, grant(0)).await })
        };
        let visit = crate::commit_builder::ConformanceVisit::to(&key, &after, now).apply(next, "idle");
        state = bench.commit_done(visit).await;
        settling.await.unwrap();
        assert_eq!(bench.event(&key, id).await.status, EventStatus::Completed, "round {round}");
    }
}
