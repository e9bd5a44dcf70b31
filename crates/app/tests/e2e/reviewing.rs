//! The review example: a device renders, people review, over HTTP as in production.

use millstream_testkit::{FleetMode, eventually};
use reqwest::Method;
use serde_json::{Value, json};

use crate::api::{E2eApi, page_items, text_field};
use crate::world::{E2eWorld, SOON, start_world};

both_modes!(
    agreeing_reviewers_end_the_review,
    third_reviewer_resolves_disagreement,
    idle_reviewer_is_replaced,
    killed_fleet_loses_no_review,
    cancelled_review_is_not_offered,
);

const REVIEW: &str = include_str!("../../../../examples/review.yaml");
const QUEUE: &str = include_str!("../../../../examples/queues/review.yaml");
const SECOND_LOOK: &str = include_str!("../../../../examples/queues/second_look.yaml");

struct ReviewScene {
    world: E2eWorld,
    /// Running workers.
    workers: Vec<usize>,
}

async fn review_scene(mode: FleetMode) -> ReviewScene {
    set_with(mode, QUEUE).await
}

/// Set-up is complete, and the film is about to be rendered.
async fn set_with(mode: FleetMode, queue: &str) -> ReviewScene {
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(REVIEW).await;
    put_document(api, "/v1/queues/review", "application/yaml", queue.to_owned()).await;
    put_document(api, "/v1/queues/second_look", "application/yaml", SECOND_LOOK.to_owned()).await;
    put_json(api, "/v1/people/dora", json!({ "skills": ["senior"] })).await;
    put_json(api, "/v1/devices/farm-1", json!({ "capabilities": ["gpu"] })).await;
    api.start_with_events("review", "r-1", json!({ "scene": "harbour" }), &["render"]).await;
    let workers = match mode {
        FleetMode::Embedded => Vec::new(),
        FleetMode::Fleet { workers } => (0..workers).collect(),
    };
    ReviewScene { world, workers }
}

async fn put_document(api: &E2eApi, path: &str, content_type: &str, body: String) {
    let request = api.client.request(Method::PUT, path).header("content-type", content_type).body(body);
    let reply = millstream_testkit::client::send_request(request).await;
    assert!([200, 201].contains(&reply.status), "{path}: {} {}", reply.status, reply.body);
}

async fn put_json(api: &E2eApi, path: &str, body: Value) {
    put_document(api, path, "application/json", body.to_string()).await;
}

impl ReviewScene {
    fn api(&self) -> &E2eApi {
        &self.world.api
    }

    /// The device completes its run.
    async fn render(&self) {
        let run = eventually(SOON, || async {
            let page =
                self.api().client.get("/v1/devices/farm-1/assignments?wait=5").await.expect_status(200);
            page_items(&page).into_iter().next().ok_or(page)
        })
        .await;
        assert_eq!(run["input"], json!({ "scene": "harbour" }));
        let (id, token) = (text_field(&run, "run_id"), &run["token"]);
        for (act, more) in [
            ("accept", json!({})),
            ("start", json!({})),
            ("complete", json!({ "output": { "frames": 300 } })),
        ] {
            let mut body = more;
            body["device"] = json!("farm-1");
            body["token"] = token.clone();
            self.api().client.post(&format!("/v1/runs/{id}/{act}"), &body).await.expect_status(200);
        }
    }

    /// Waits until there is something for the person, and begins it.
    async fn next_item(&self, person: &str, queue: &str) -> Value {
        let body = json!({ "person": person, "queues": [queue], "start": true });
        eventually(SOON, || async {
            let given = self.api().client.post("/v1/assignments/next", &body).await.expect_status(200);
            if given["assignment"].is_null() { Err(given) } else { Ok(given) }
        })
        .await
    }

    async fn submit_answer(&self, given: &Value, answer: Value) -> Value {
        let assignment = text_field(&given["assignment"], "assignment_id");
        let body = json!({ "person": given["assignment"]["person"], "answer": answer });
        self.api()
            .client
            .post(&format!("/v1/assignments/{assignment}/submit"), &body)
            .await
            .expect_status(200)
    }

    async fn answer_next(&self, person: &str, queue: &str, answer: Value) -> Value {
        let given = self.next_item(person, queue).await;
        assert_eq!(given["payload"]["film"], json!({ "frames": 300 }), "{given}");
        self.submit_answer(&given, answer).await;
        given
    }

    /// Like `kill -9` of all performing processes, and a start of new ones.
    async fn kill_all(&mut self) {
        match self.world.fleet.mode() {
            FleetMode::Embedded => {
                self.world.fleet.kill_ingress();
                self.world.fleet.start_ingress(&[]).await;
            }
            FleetMode::Fleet { .. } => {
                for index in std::mem::take(&mut self.workers) {
                    self.world.fleet.kill_worker(index);
                }
                self.workers = vec![self.world.fleet.start_worker(&[])];
            }
        }
    }
}

async fn agreeing_reviewers_end_the_review(mode: FleetMode) {
    let scene = review_scene(mode).await;
    scene.render().await;
    scene.answer_next("ann", "review", json!({ "good": true })).await;
    assert_eq!(scene.api().execution("r-1").await["state"], "reviewing", "one is not enough");
    scene.answer_next("ben", "review", json!({ "good": true, "comment": "splendid" })).await;
    let ended = scene.api().execution_in("r-1", "completed").await;
    assert_eq!(ended["state"], "accepted");
    let names = scene.api().transition_names("r-1").await;
    assert_eq!(names, ["millstream.start", "render", "rendered", "reviewed"]);
}

async fn third_reviewer_resolves_disagreement(mode: FleetMode) {
    let scene = review_scene(mode).await;
    scene.render().await;
    scene.answer_next("ann", "review", json!({ "good": true })).await;
    let given = scene.next_item("ben", "review").await;
    let assignment = text_field(&given["assignment"], "assignment_id");
    // The queue requires a reason, and the person may submit again.
    let silent = json!({ "person": "ben", "answer": { "good": false } });
    let path = format!("/v1/assignments/{assignment}/submit");
    let problem = scene.api().client.post(&path, &silent).await.expect_problem(422);
    assert!(problem["problems"].to_string().contains("say what is wrong"), "{problem}");
    scene.submit_answer(&given, json!({ "good": false, "comment": "too dark" })).await;
    let decided = scene.answer_next("dora", "second_look", json!({ "good": false })).await;
    let opinions = json!([{ "good": true }, { "good": false, "comment": "too dark" }]);
    assert_eq!(decided["payload"]["opinions"], opinions);
    let ended = scene.api().execution_in("r-1", "completed").await;
    assert_eq!(ended["state"], "rejected");
}

async fn idle_reviewer_is_replaced(mode: FleetMode) {
    let hasty = QUEUE
        .replace("timeout_seconds: 1800", "timeout_seconds: 3")
        .replace("max_attempts_per_person: 2", "max_attempts_per_person: 1");
    let scene = set_with(mode, &hasty).await;
    scene.render().await;
    let lying = scene.next_item("ann", "review").await;
    let path = format!("/v1/assignments/{}", text_field(&lying["assignment"], "assignment_id"));
    eventually(SOON, || async {
        let seen = scene.api().client.get(&path).await.expect_status(200);
        if seen["status"] == "expired" { Ok(()) } else { Err(seen) }
    })
    .await;
    scene.answer_next("ben", "review", json!({ "good": true })).await;
    scene.answer_next("cara", "review", json!({ "good": true })).await;
    assert_eq!(scene.api().execution_in("r-1", "completed").await["state"], "accepted");
    let late = json!({ "person": "ann", "answer": { "good": true } });
    scene.api().client.post(&format!("{path}/submit"), &late).await.expect_problem(409);
}

async fn killed_fleet_loses_no_review(mode: FleetMode) {
    let mut scene = review_scene(mode).await;
    scene.render().await;
    scene.answer_next("ann", "review", json!({ "good": true })).await;
    let ben = scene.next_item("ben", "review").await;
    scene.kill_all().await;
    scene.submit_answer(&ben, json!({ "good": false, "comment": "too dark" })).await;
    scene.kill_all().await;
    let dora = scene.next_item("dora", "second_look").await;
    scene.kill_all().await;
    scene.submit_answer(&dora, json!({ "good": true })).await;
    let ended = scene.api().execution_in("r-1", "completed").await;
    assert_eq!(ended["state"], "accepted");
    let names = scene.api().transition_names("r-1").await;
    assert_eq!(names, ["millstream.start", "render", "rendered", "reviewed", "decided"]);
    for queue in ["review", "second_look"] {
        let all = scene.api().all_pages(&format!("/v1/items?queue={queue}")).await;
        assert_eq!(all.len(), 1, "{all:?}");
    }
}

async fn cancelled_review_is_not_offered(mode: FleetMode) {
    let scene = review_scene(mode).await;
    scene.render().await;
    let given = scene.next_item("ann", "review").await;
    scene.api().client.post("/v1/executions/r-1/cancel", &json!({})).await.expect_status(202);
    scene.api().execution_in("r-1", "cancelled").await;
    let item = text_field(&given["item"], "item_id");
    eventually(SOON, || async {
        let seen = scene.api().client.get(&format!("/v1/items/{item}")).await.expect_status(200);
        if seen["status"] == "withdrawn" { Ok(()) } else { Err(seen) }
    })
    .await;
    let answer = json!({ "person": "ann", "answer": { "good": true } });
    let assignment = text_field(&given["assignment"], "assignment_id");
    scene
        .api()
        .client
        .post(&format!("/v1/assignments/{assignment}/submit"), &answer)
        .await
        .expect_problem(409);
}
