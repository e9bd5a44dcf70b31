//! Two tenants and one worker: what one has waiting does not hold up the other.

use millstream_core::id::{ExecutionId, ExecutionKey, TenantId};
use millstream_core::status::{EventStatus, ExecutionStatus};
use millstream_testkit::Sink;
use millstream_testkit::eventually;
use millstream_testkit::eventually::PATIENCE;
use millstream_testkit::sink::Answer;
use millstream_worker::WorkerOptions;

use crate::bench::Bench;

const BACKLOG: usize = 60;

fn job(sink: &Sink, path: &str) -> String {
    format!(
        "
name: job
initial: open
states:
  open: {{ on: {{ go: {{ do: [call] }}, called: {{ to: done }} }} }}
  done: {{ final: true }}
actions:
  call: {{ http: {{ method: GET, url: {:?} }}, on_success: called }}
",
        sink.url(path)
    )
}

fn key_of(tenant: &str, number: usize) -> ExecutionKey {
    ExecutionKey {
        tenant: TenantId::parse(tenant).unwrap(),
        execution: ExecutionId::parse(format!("x{number}")).unwrap(),
    }
}

#[tokio::test]
async fn an_action_does_not_wait_for_the_backlog_of_another_tenant() {
    let (bench, sink) = (Bench::new(), Sink::start().await);
    sink.script("/busy", vec![Answer::Hold(200); BACKLOG]);
    for tenant in ["busy", "quiet"] {
        let tenant = TenantId::parse(tenant).unwrap();
        bench.define_for(&tenant, &job(&sink, &format!("/{tenant}"))).await;
    }
    // One action at a time, and one that waits for its turn.
    let _worker = bench.worker_with(WorkerOptions { action_slots: 1, ..bench.options() });
    let mut busy = Vec::new();
    for number in 0..BACKLOG {
        let key = bench.start_key("job", key_of("busy", number)).await;
        bench.send(&key, "go", "null").await;
        busy.push(key);
    }
    eventually(PATIENCE, || async {
        let calls = sink.calls_to("/busy").len();
        if calls > 0 { Ok(()) } else { Err(calls) }
    })
    .await;
    let quiet = bench.start_key("job", key_of("quiet", 0)).await;
    let event = bench.send(&quiet, "go", "null").await;
    bench.until_event(event, EventStatus::Processing).await;
    sink.release();
    bench.until_status(&quiet, ExecutionStatus::Completed).await;
    for key in &busy {
        bench.until_status(key, ExecutionStatus::Completed).await;
    }
    let place = sink.calls().iter().position(|call| call.path == "/quiet").unwrap();
    assert!(place <= 4, "{place} of {BACKLOG} actions of the other tenant came first");
}
