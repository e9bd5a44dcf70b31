//! Queues, people, items and assignments against a real engine.

use std::time::Duration;

use millstream_sdk::client::{
    AssignmentStatus, EligiblePeople, ItemLogWord, ItemStatus, NewWorkItem, NewWorkQueue, NextWorkAnswer,
    NoWorkForPerson, SourceFormat, StoredSource, WorkIdleReason, WorkState,
};
use serde_json::json;

use crate::world::SdkWorld;

async fn open_queue(world: &SdkWorld) {
    let config = NewWorkQueue { timeout_seconds: Some(Duration::from_secs(90).into()), ..Default::default() };
    world.client.put_queue("review", &config).await.unwrap();
}

#[tokio::test]
async fn queue_is_configured_paused_and_listed() {
    let world = &SdkWorld::new().await;
    let client = &world.client;
    open_queue(world).await;
    let queue = client.queue("review").await.unwrap();
    assert_eq!((queue.config.timeout_seconds, queue.config.pre_assignment_timeout), (90, Some(300)));
    assert_eq!((queue.config.people, queue.state), (EligiblePeople::Anyone, WorkState::Active));
    let unlimited = NewWorkQueue { pre_assignment_timeout: Some(None), ..Default::default() };
    let replaced = client.put_queue("review", &unlimited).await.unwrap();
    assert_eq!(replaced.config.pre_assignment_timeout, None);
    let listed =
        client.put_queue_yaml("second", "people: [ann]\nescalate: { queue: review }\n").await.unwrap();
    assert_eq!(listed.config.people, EligiblePeople::Listed(vec!["ann".to_owned()]));
    let names: Vec<String> = client.queues().await.unwrap().into_iter().map(|queue| queue.queue).collect();
    assert_eq!(names, ["review", "second"]);
    assert_eq!(client.pause_queue("review").await.unwrap().state, WorkState::Paused);
    let reason = client.next_work("ann").queue("review").or_reason().await.unwrap();
    let paused = NoWorkForPerson { assignment: (), idle: WorkIdleReason::QueuePaused };
    assert_eq!(reason, NextWorkAnswer::Nothing(paused));
    assert_eq!(client.resume_queue("review").await.unwrap().state, WorkState::Active);
}

#[tokio::test]
async fn people_have_skills_and_state() {
    let client = &SdkWorld::new().await.client;
    let ann = client.put_person("ann", ["latin"]).await.unwrap();
    assert_eq!((ann.skills.as_slice(), ann.state), (["latin".to_owned()].as_slice(), WorkState::Active));
    assert_eq!(client.pause_person("ann").await.unwrap().state, WorkState::Paused);
    assert_eq!(client.resume_person("ann").await.unwrap(), ann);
    assert_eq!(client.person("ann").await.unwrap(), ann);
    assert_eq!(client.people().await.unwrap(), [ann]);
}

#[tokio::test]
async fn items_are_imported_listed_and_withdrawn() {
    let world = &SdkWorld::new().await;
    let client = &world.client;
    open_queue(world).await;
    let items = [NewWorkItem::of(json!({ "n": 1 })).id("i-1").priority(7), NewWorkItem::of(json!(2))];
    let report = client.import_items("review", &items).await.unwrap();
    let ids = report.item_ids.unwrap();
    assert_eq!((report.created, ids.len(), ids[0].as_str()), (2, 2, "i-1"));
    let again = client.import_item("review", &items[1]).await.unwrap();
    assert_eq!((again.repeated, again.item_ids.unwrap()[0].as_str()), (1, ids[1].as_str()));
    let lines = (0..700).map(|n| NewWorkItem::of(json!({ "line": n })));
    let wrong = NewWorkItem::of(json!(0)).overlap(99);
    let report = client.import_item_lines("review", lines.chain([wrong.clone()])).await.unwrap();
    assert_eq!((report.read, report.created, report.refused_count, report.item_ids), (701, 700, 1, None));
    assert_eq!((report.refused[0].line, report.refused[0].problems[0].path.as_str()), (Some(701), "overlap"));
    let refused = client.import_item("review", &wrong).await.unwrap_err();
    assert_eq!(refused.problem().unwrap().problems[0].path, "overlap");

    let withdrawn = client.withdraw_item("i-1", Some("a mistake")).await.unwrap();
    assert_eq!((withdrawn.item.status, withdrawn.payload), (ItemStatus::Withdrawn, json!({ "n": 1 })));
    let item = client.item("i-1").await.unwrap().item;
    assert_eq!((item.reason.as_deref(), item.priority), (Some("a mistake"), 7));
    assert_eq!(client.items().status(ItemStatus::Withdrawn).await.unwrap(), [item]);
    assert_eq!(client.items().queue("review").page_size(300).await.unwrap().len(), 702);
    let log = client.item_log("i-1").await.unwrap();
    let words: Vec<ItemLogWord> = log.into_iter().map(|entry| entry.what).collect();
    assert_eq!(words, [ItemLogWord::Imported, ItemLogWord::Withdrawn]);
}

#[tokio::test]
async fn assignment_is_completed_corrected_and_counted() {
    let world = &SdkWorld::new().await;
    let client = &world.client;
    open_queue(world).await;
    for id in ["i-1", "i-2"] {
        client.import_item("review", &NewWorkItem::of(json!(id)).id(id)).await.unwrap();
    }
    let work = client.next_work("ann").queue("review").await.unwrap().unwrap();
    assert_eq!((work.item.item_id.as_str(), &work.payload), ("i-1", &json!("i-1")));
    let id = &work.assignment.assignment_id;
    assert_eq!(client.next_work("ann").started().await.unwrap().unwrap().assignment.assignment_id, *id);
    assert!(client.heartbeat_assignment(id, "ann").await.unwrap().heartbeat_at.is_some());
    let done = client.submit_answer(id, "ann", json!({ "good": true })).await.unwrap();
    assert_eq!((done.status, &done.answer["good"]), (AssignmentStatus::Completed, &json!(true)));
    let agreement = client.item("i-1").await.unwrap().item.agreement.unwrap();
    assert_eq!((agreement.agreed, agreement.value), (true, Some(json!({ "good": true }))));
    let corrected = client.correct_assignment(id, Some("bob")).await.unwrap();
    let correction = corrected.next.unwrap();
    assert_eq!((correction.person.as_str(), correction.refers_to.as_ref()), ("bob", Some(id)));

    let second = client.next_work("ann").await.unwrap().unwrap().assignment;
    let moved = client.reassign_assignment(&second.assignment_id, Some("eve")).await.unwrap();
    assert_eq!(
        (moved.assignment.status, moved.next.unwrap().person.as_str()),
        (AssignmentStatus::Expired, "eve")
    );
    let of_ann = client.assignments().queue("review").person("ann").await.unwrap();
    assert_eq!(of_ann.len(), 2);
    let completed = client.assignments().status(AssignmentStatus::Completed).item("i-1").await.unwrap();
    assert_eq!(completed, [client.assignment(id).await.unwrap()]);

    let lines = client.queue_stats().queue("review").await.unwrap();
    assert_eq!((lines.len(), lines[0].completed, lines[0].items.open), (1, 1, Some(1)));
    let people = client.queue_stats().per_person().from_day("2020-01-01").await.unwrap();
    let names: Vec<Option<&str>> = people.iter().map(|line| line.person.as_deref()).collect();
    assert_eq!(names, [Some("ann"), Some("bob"), Some("eve")]);
    let ann = client.queue_stats().per_person_and_queue().person("ann").to_day("2100-01-01").await.unwrap();
    assert_eq!((ann[0].queue.as_deref(), ann[0].total, ann[0].items.open), (Some("review"), 2, None));
}

#[tokio::test]
async fn queue_from_text_is_created_once() {
    let client = &SdkWorld::new().await.client;
    let put = || client.put_queue_source("review", SourceFormat::Yaml, "overlap: 2\n");
    assert!(matches!(put().await.unwrap(), StoredSource::Created(_)));
    match put().await.unwrap() {
        StoredSource::Present(queue) => assert_eq!(queue.config.overlap, 2),
        StoredSource::Created(queue) => panic!("{queue:?}"),
    }
}

#[tokio::test]
async fn import_stream_reports_its_progress() {
    let world = &SdkWorld::new().await;
    open_queue(world).await;
    let pieces = ["{\"item_id\":\"i-1\",\"payl", "oad\":1}\n{\"payload\"\n"].map(|piece| Ok(piece.into()));
    let mut notices = world.client.import_item_stream("review", futures::stream::iter(pieces)).await.unwrap();
    let mut last = None;
    while let Some(notice) = notices.next().await.unwrap() {
        last = Some(notice);
    }
    let last = last.unwrap();
    assert_eq!((last.done, last.read, last.created, last.refused), (Some(true), 2, 1, 1));
    let refusals = last.refusals.unwrap();
    assert_eq!((refusals.len(), refusals[0].line), (1, Some(2)));
    assert_eq!(world.client.item("i-1").await.unwrap().item.item_id, "i-1");
    let unknown = world.client.import_item_stream("nothing", futures::stream::iter([])).await;
    assert!(unknown.unwrap_err().is_not_found());
}
