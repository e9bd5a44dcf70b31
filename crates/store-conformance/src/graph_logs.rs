//! Logs of executors.

use millstream_model::id::ExecutionKey;
use millstream_store::graph_store::{ExecutorLogText, GraphRows, LogView, MAX_LOG_BYTES};

use crate::ConformanceBench;
use crate::fixture::{execution, name};
use crate::graph::{node, rows};

fn log(key: &ExecutionKey, node: &str, attempt: u32, text: &str) -> ExecutorLogText {
    ExecutorLogText { execution: key.clone(), node: name(node), attempt, text: text.to_owned() }
}

impl ConformanceBench {
    async fn keep(&self, logs: &[ExecutorLogText]) {
        self.stores.graphs.append_logs(logs, self.now().await).await.unwrap();
    }

    async fn logs(&self, key: &ExecutionKey, node: &str) -> Vec<LogView> {
        self.stores.graph_views.read_logs(key, &name(node), 0, usize::MAX).await.unwrap()
    }
}

fn texts(logs: &[LogView]) -> Vec<(u32, &str)> {
    logs.iter().map(|log| (log.attempt, log.text.as_str())).collect()
}

pub async fn node_logs_keep_all_attempts_in_order(bench: ConformanceBench) {
    let key = execution("g");
    bench.start_graph(&key, vec![node("a", &[], &[]), node("b", &[], &[])]).await;
    bench.keep(&[log(&key, "a", 1, "one"), log(&key, "b", 1, "other"), log(&key, "a", 1, "two")]).await;
    bench.keep(&[log(&key, "a", 2, "three")]).await;
    bench.keep(&[log(&key, "a", 1, "late")]).await;
    let logs = bench.logs(&key, "a").await;
    assert_eq!(texts(&logs), [(1, "one"), (1, "two"), (2, "three"), (1, "late")]);
    assert!(logs.windows(2).all(|pair| pair[0].position < pair[1].position));
    assert!(logs.iter().all(|log| !log.truncated));
    assert_eq!(texts(&bench.logs(&key, "b").await), [(1, "other")]);
    let views = &bench.stores.graph_views;
    let rest = views.read_logs(&key, &name("a"), logs[1].position, 1).await.unwrap();
    assert_eq!(rest, [logs[2].clone()]);
}

pub async fn full_log_is_cut_and_marked(bench: ConformanceBench) {
    let key = execution("g");
    bench.start_graph(&key, vec![node("a", &[], &[])]).await;
    let half = "x".repeat(MAX_LOG_BYTES / 2);
    bench.keep(&[log(&key, "a", 1, &half), log(&key, "a", 1, &half)]).await;
    assert!(bench.logs(&key, "a").await.iter().all(|log| !log.truncated), "exactly full");
    bench.keep(&[log(&key, "a", 1, "more")]).await;
    bench.keep(&[log(&key, "a", 1, "and more")]).await;
    let logs = bench.logs(&key, "a").await;
    assert_eq!(
        logs.iter().map(|log| (log.text.len(), log.truncated)).collect::<Vec<_>>(),
        [(half.len(), false), (half.len(), true)]
    );
    // Within one batch, and between two characters.
    let odd = "x".repeat(MAX_LOG_BYTES - 3);
    bench.keep(&[log(&key, "a", 2, &odd), log(&key, "a", 2, "ää"), log(&key, "a", 2, "!")]).await;
    let logs = bench.logs(&key, "a").await;
    let second: Vec<_> = logs.iter().filter(|log| log.attempt == 2).collect();
    assert_eq!((second.len(), second[1].text.as_str(), second[1].truncated), (2, "ä", true));
    let full = "x".repeat(MAX_LOG_BYTES);
    bench.keep(&[log(&key, "a", 3, &full), log(&key, "a", 3, "more")]).await;
    let logs = bench.logs(&key, "a").await;
    let third: Vec<_> = logs.iter().filter(|log| log.attempt == 3).collect();
    assert_eq!((third.len(), third[0].truncated), (1, true));
}

pub async fn logs_of_removed_nodes_are_dropped(bench: ConformanceBench) {
    let key = execution("g");
    let state = bench.start_graph(&key, vec![node("a", &[], &[]), node("b", &[], &[])]).await;
    bench.start(&execution("machine")).await;
    let batch = [
        log(&execution("missing"), "a", 1, "?"),
        log(&execution("machine"), "a", 1, "?"),
        log(&key, "missing", 1, "?"),
        log(&key, "a", 1, "a\0b"),
    ];
    bench.keep(&batch).await;
    assert_eq!(texts(&bench.logs(&key, "a").await), [(1, "a\u{fffd}b")], "the rest of the batch is kept");
    assert!(bench.logs(&key, "missing").await.is_empty());
    assert!(bench.logs(&execution("machine"), "a").await.is_empty());
    bench.change_graph(&key, &state, GraphRows { deleted: vec![name("b")], ..rows(vec![]) }).await;
    bench.keep(&[log(&key, "b", 1, "late")]).await;
    assert!(bench.logs(&key, "b").await.is_empty());
}
