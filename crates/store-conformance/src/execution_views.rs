//! Views of executions: lists, history, isolation of tenants.

use millstream_model::id::{AcceptNo, DefinitionRef, ExecutionKey, Seq};
use millstream_model::status::{ExecutionPhase, ExecutionStatus};
use millstream_store::event_log::EventSubmission;
use millstream_store::execution_store::PageRemainder;
use millstream_store::paging::HISTORY_PAGE_BYTES;
use millstream_store::views::ExecutionFilter;
use millstream_workflow::log::EventOrigin;

use crate::ConformanceBench;
use crate::commit_builder::{ConformanceVisit, ready, waiting};
use crate::fixture::{
    HOUR, armed_execution, event, execution, execution_of, grant, name, new_execution, pausing, raw, tenant,
    timer,
};

async fn list(
    bench: &ConformanceBench,
    filter: ExecutionFilter,
    after: Option<AcceptNo>,
    limit: usize,
) -> Vec<(String, AcceptNo)> {
    let views = &bench.stores.execution_views;
    let page = views.list_executions(&tenant("acme"), &filter, after, limit).await.unwrap();
    page.into_iter().map(|view| (view.execution.execution.to_string(), view.position)).collect()
}

async fn listed(bench: &ConformanceBench, filter: ExecutionFilter) -> Vec<String> {
    list(bench, filter, None, 100).await.into_iter().map(|(id, _)| id).collect()
}

pub async fn executions_are_found_in_requested_order(bench: ConformanceBench) {
    for key in [execution("one"), execution("two"), execution_of("rival", "three")] {
        bench.start(&key).await;
    }
    let asked = ["two", "three", "one", "two"].map(execution);
    let found = bench.stores.execution_views.find_executions(&asked).await.unwrap();
    let ids: Vec<Option<ExecutionKey>> =
        found.into_iter().map(|view| view.map(|view| view.execution)).collect();
    assert_eq!(ids, [Some(execution("two")), None, Some(execution("one")), Some(execution("two"))]);
}

pub async fn executions_are_listed_newest_first(bench: ConformanceBench) {
    let ids = ["b", "a", "d", "c", "e"];
    for id in ids {
        bench.start(&execution(id)).await;
        bench.start(&execution_of("rival", id)).await;
    }
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = list(&bench, ExecutionFilter::default(), after, 2).await;
        let Some((_, last)) = page.last() else { break };
        after = Some(*last);
        seen.extend(page.into_iter().map(|(id, _)| id));
    }
    assert_eq!(seen, ["e", "c", "d", "a", "b"]);
}

pub async fn executions_filter_by_definition_state_status(bench: ConformanceBench) {
    let now = bench.now().await;
    let mut other = new_execution(&bench, &execution("bill"), now);
    other.definition = DefinitionRef { name: name("bill"), version: 3 };
    bench.start_as(other).await;
    for (id, to, phase) in
        [("paid", "paid", ExecutionPhase::Active), ("closed", "closed", ExecutionPhase::Completed)]
    {
        let key = execution(id);
        let state = bench.start(&key).await;
        let event = bench.post(&key, "go").await;
        bench
            .commit_done(ConformanceVisit::to(&key, &state, now).end(event, to, phase).without_snapshot())
            .await;
    }
    bench.start(&execution("stuck")).await;
    let pause = [pausing(&execution("stuck"), "broken")];
    bench.stores.interventions.pause_executions(&pause, now).await.unwrap();

    let by_definition = ExecutionFilter { definition: Some(name("bill")), ..Default::default() };
    assert_eq!(listed(&bench, by_definition).await, ["bill"]);
    let by_state = ExecutionFilter { state: Some(name("paid")), ..Default::default() };
    assert_eq!(listed(&bench, by_state).await, ["paid"]);
    let by_status = |status| ExecutionFilter { status: Some(status), ..Default::default() };
    assert_eq!(listed(&bench, by_status(ExecutionStatus::Active)).await, ["paid", "bill"]);
    assert_eq!(listed(&bench, by_status(ExecutionStatus::Paused)).await, ["stuck"]);
    assert_eq!(listed(&bench, by_status(ExecutionStatus::Completed)).await, ["closed"]);
    assert!(listed(&bench, by_status(ExecutionStatus::Failed)).await.is_empty());
    let all = ExecutionFilter {
        definition: Some(name("order")),
        state: Some(name("received")),
        status: Some(ExecutionStatus::Paused),
    };
    assert_eq!(listed(&bench, all).await, ["stuck"]);
}

pub async fn history_has_transitions_with_payloads(bench: ConformanceBench) {
    let key = execution("one");
    let now = bench.now().await;
    let timers = vec![timer(Seq::FIRST, 0, now.minus(HOUR), "expire")];
    let mut state = bench.start_as(armed_execution(&bench, &key, timers, now)).await;
    let paid = EventSubmission { payload: raw(r#"{"amount": 1.50}"#), ..event(&bench, &key, "pay") };
    bench.append_event(&paid).await;
    let fired = bench.event_id();
    bench.stores.timers.fire_due(&[fired], now).await.unwrap();
    let lost = bench.post(&key, "nonsense").await;
    let visit = ConformanceVisit::to(&key, &state, now).apply(paid.event_id, "paid").reject(lost, "no");
    state = bench.commit_done(visit).await;
    bench.commit_done(ConformanceVisit::to(&key, &state, now).apply(fired, "expired")).await;

    let history = async |after, limit| {
        bench.stores.execution_views.read_history(&key, Seq(after), limit).await.unwrap().entries
    };
    let all = history(0, 10).await;
    let payloads: Vec<_> = all.iter().map(|entry| entry.payload.as_str()).collect();
    assert_eq!(payloads, [r#"{"total":12.50}"#, r#"{"amount": 1.50}"#, "null"]);
    assert_eq!(all[1].transition.event_id, paid.event_id);
    assert_eq!(all[1].accepted_at, bench.event(&key, paid.event_id).await.created_at);
    assert_eq!(
        (all[1].origin, all[2].origin),
        (EventOrigin::Posted, EventOrigin::Timer { armed_seq: Seq::FIRST })
    );
    let seqs = async |after, limit| -> Vec<i64> {
        history(after, limit).await.iter().map(|entry| entry.transition.seq.0).collect()
    };
    assert_eq!(seqs(0, 2).await, [1, 2]);
    assert_eq!(seqs(2, 2).await, [3]);
    assert!(seqs(3, 2).await.is_empty());
}

pub async fn history_page_is_cut_by_bytes(bench: ConformanceBench) {
    let key = execution("one");
    let mut state = bench.start(&key).await;
    let heavy = raw(&format!("\"{}\"", "x".repeat(HISTORY_PAGE_BYTES / 4)));
    for _ in 0..6 {
        let sent = EventSubmission { payload: heavy.clone(), ..event(&bench, &key, "pay") };
        bench.append_event(&sent).await;
        let visit = ConformanceVisit::to(&key, &state, bench.now().await).apply(sent.event_id, "paid");
        state = bench.commit_done(visit).await;
    }
    let page = async |after, limit| {
        let page = bench.stores.execution_views.read_history(&key, Seq(after), limit).await.unwrap();
        (page.entries.iter().map(|entry| entry.transition.seq.0).collect::<Vec<_>>(), page.more)
    };
    assert_eq!(page(0, 1000).await, (vec![1, 2, 3, 4], PageRemainder::Remains));
    assert_eq!(page(4, 1000).await, (vec![5, 6, 7], PageRemainder::Nothing));
    assert_eq!(page(0, 2).await, (vec![1, 2], PageRemainder::Remains));
    assert_eq!(page(5, 2).await, (vec![6, 7], PageRemainder::Nothing));
    assert_eq!(page(7, 2).await, (vec![], PageRemainder::Nothing));
}

pub async fn execution_of_other_tenant_is_invisible(bench: ConformanceBench) {
    let (mine, foreign) = (execution("one"), execution_of("rival", "one"));
    let timers = vec![timer(Seq::FIRST, 0, bench.now().await.plus(HOUR), "expire")];
    let now = bench.now().await;
    let state = bench.start_as(armed_execution(&bench, &mine, timers, now)).await;
    let id = bench.post(&mine, "go").await;
    bench.commit_done(ConformanceVisit::to(&mine, &state, now).act(id, "working", &[ready("a")])).await;
    let views = &bench.stores.execution_views;
    assert!(views.find_executions(std::slice::from_ref(&foreign)).await.unwrap()[0].is_none());
    assert!(views.read_history(&foreign, Seq(0), 10).await.unwrap().entries.is_empty());
    assert!(views.list_actions(&foreign, None, 10).await.unwrap().is_empty());
    assert!(views.list_timers(&foreign, None, 10).await.unwrap().is_empty());
    let filter = ExecutionFilter::default();
    assert!(views.list_executions(&tenant("rival"), &filter, None, 10).await.unwrap().is_empty());
}

pub async fn actions_and_timers_are_paged(bench: ConformanceBench) {
    let key = execution("one");
    let now = bench.now().await;
    // In the order of their times, which differs from that of their positions.
    let timers = [(0, 3), (1, 1), (2, 1), (3, 2)]
        .map(|(ordinal, hours)| timer(Seq::FIRST, ordinal, now.plus(HOUR * hours), &format!("t{ordinal}")));
    let mut state = bench.start_as(armed_execution(&bench, &key, timers.to_vec(), now)).await;
    for _ in 0..2 {
        let id = bench.post(&key, "go").await;
        let actions = [ready("c"), ready("b"), ready("a")];
        state = bench.commit_done(ConformanceVisit::to(&key, &state, now).act(id, "working", &actions)).await;
    }
    let views = &bench.stores.execution_views;
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = views.list_actions(&key, after, 2).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some(last.place());
        seen.push(page.iter().map(|view| format!("{}{}", view.key.seq, view.key.action)).collect::<String>());
    }
    assert_eq!(seen, ["2c2b", "2a3c", "3b3a"]);
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = views.list_timers(&key, after, 3).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some(last.place());
        seen.push(page.iter().map(|view| view.send.to_string()).collect::<String>());
    }
    assert_eq!(seen, ["t1t2t3", "t0"]);
}

pub async fn actions_are_listed_by_seq_and_position(bench: ConformanceBench) {
    let key = execution("one");
    let (_, state, _) = bench.acting(&key, &[ready("z"), waiting("a", &["z"]), ready("m")], grant(0)).await;
    let id = bench.post(&key, "go").await;
    bench
        .commit_done(ConformanceVisit::to(&key, &state, bench.now().await).act(id, "more", &[ready("b")]))
        .await;
    let listed: Vec<_> = bench
        .actions(&key)
        .await
        .iter()
        .map(|view| format!("{}/{}", view.key.seq, view.key.action))
        .collect();
    assert_eq!(listed, ["2/z", "2/a", "2/m", "3/b"]);
}
