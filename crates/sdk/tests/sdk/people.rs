//! Work for people over a stub: the requests, and the interpretation of the answers.

use millstream_sdk::client::AssignmentStatus;
use serde_json::{Value, json};

use crate::stub::StubServer;
use crate::world::persistent;

const GIVEN: &str = r#"{"assignment":{"assignment_id":"a-1","item_id":"s-17","person":"ann","queue":"review",
    "status":"in_progress","deadline":"2026-01-01T01:00:00.000Z","attempt":1,"answer":null,"created_at":"2026-01-01T00:00:00.000Z"},
    "item":{"item_id":"s-17","queue":"review","status":"open","priority":5,"skills":[],"overlap":1,
    "created_at":"2026-01-01T00:00:00.000Z","escalated_from":[]},"payload":{"text":"hallo"},"already_assigned":false}"#;
const DONE: &str = r#"{"assignment_id":"a-1","item_id":"s-17","person":"ann","queue":"review","status":"completed",
    "answer":{"label":"greeting"},"created_at":"2026-01-01T00:00:00.000Z"}"#;
const WRONG: &str = r#"{"type":"urn:millstream:problem:invalid-answer","title":"The answer is not valid","status":422,
    "detail":"label: is required","problems":[{"path":"label","message":"is required"}]}"#;

#[tokio::test]
async fn person_gets_work_and_submits_answer() {
    let stub = StubServer::answering(&[(503, "{}"), (200, GIVEN), (422, WRONG), (200, DONE)]).await;
    let client = persistent(stub.address);
    let work = client.next_work("ann").queue("review").started().await.unwrap().expect("something to do");
    assert_eq!((work.payload, work.already_assigned), (json!({"text": "hallo"}), false));
    let id = work.assignment.assignment_id;
    assert_eq!(work.assignment.status, AssignmentStatus::InProgress);
    let wrong = client.submit_answer(&id, "ann", json!({})).await.unwrap_err();
    let problem = wrong.problem().unwrap();
    assert_eq!((problem.word(), problem.problems[0].path.as_str()), ("invalid-answer", "label"));
    let done = client.submit_answer(&id, "ann", json!({"label": "greeting"})).await.unwrap();
    assert_eq!((done.status, &done.answer["label"]), (AssignmentStatus::Completed, &json!("greeting")));
    let asked = stub.asked();
    let bodies: Vec<Value> = asked.iter().map(|ask| serde_json::from_str(&ask.body).unwrap()).collect();
    assert_eq!(bodies[1], json!({"person": "ann", "queues": ["review"], "start": true}));
    assert_eq!(asked[0].body, asked[1].body);
    assert_eq!((asked[3].path.as_str(), &bodies[3]["person"]), ("/v1/assignments/a-1/submit", &json!("ann")));
}

#[tokio::test]
async fn person_without_work_gets_none() {
    let stub = StubServer::answering(&[(200, r#"{"assignment":null,"idle":"nothing_open"}"#)]).await;
    assert_eq!(persistent(stub.address).next_work("ann").await.unwrap(), None);
}

#[tokio::test]
async fn uncertain_answer_is_not_submitted_twice() {
    let stub = StubServer::answering(&[(503, "{}"), (200, DONE)]).await;
    let error = persistent(stub.address).submit_answer("a-1", "ann", 1).await.unwrap_err();
    assert_eq!((error.problem().unwrap().status, stub.asked().len()), (503, 1));
}

#[tokio::test]
async fn person_skips_and_sends_heartbeat() {
    let skipped = DONE.replace("completed", "skipped");
    let skipped: &'static str = Box::leak(skipped.into_boxed_str());
    let stub = StubServer::answering(&[(200, GIVEN_ALONE), (200, skipped)]).await;
    let client = persistent(stub.address);
    assert!(client.heartbeat_assignment("a-1", "ann").await.unwrap().deadline.is_some());
    let skipped = client.skip_assignment("a-1", "ann", Some("not German")).await.unwrap();
    assert_eq!(skipped.status, AssignmentStatus::Skipped);
    let asked = stub.asked();
    assert_eq!(asked[0].path, "/v1/assignments/a-1/heartbeat");
    assert_eq!(asked[1].body, r#"{"person":"ann","reason":"not German"}"#);
}

const GIVEN_ALONE: &str = r#"{"assignment_id":"a-1","item_id":"s-17","person":"ann","queue":"review",
    "status":"in_progress","deadline":"2026-01-01T01:00:00.000Z","attempt":1,"answer":null,"created_at":"2026-01-01T00:00:00.000Z"}"#;
