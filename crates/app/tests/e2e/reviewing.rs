//! The review example: a device renders, people review, over HTTP as in production.

use millstream_testkit::{Mode, eventually};
use reqwest::Method;
use serde_json::{Value, json};

use crate::api::{Api, items, text};
use crate::world::{SOON, World, start};

both_modes!(
    two_people_who_agree_end_the_review,
    where_two_people_disagree_a_third_one_decides,
    a_reviewer_who_lets_it_lie_is_replaced,
    nothing_is_lost_when_everything_is_killed_in_the_middle,
    people_are_not_asked_for_a_review_that_was_cancelled,
);

const REVIEW: &str = include_str!("../../../../examples/review.yaml");
const QUEUE: &str = include_str!("../../../../examples/queues/review.yaml");
const SECOND_LOOK: &str = include_str!("../../../../examples/queues/second_look.yaml");

struct Scene {
    world: World,
    /// Running workers.
    workers: Vec<usize>,
}

async fn set(mode: Mode) -> Scene {
    set_with(mode, QUEUE).await
}

/// Set-up is complete, and the film is about to be rendered.
async fn set_with(mode: Mode, queue: &str) -> Scene {
    let world = start(mode).await;
    let api = &world.api;
    api.apply(REVIEW).await;
    put(api, "/v1/queues/review", "application/yaml", queue.to_owned()).await;
    put(api, "/v1/queues/second_look", "application/yaml", SECOND_LOOK.to_owned()).await;
    put_json(api, "/v1/people/dora", json!({ "skills": ["senior"] })).await;
    put_json(api, "/v1/devices/farm-1", json!({ "capabilities": ["gpu"] })).await;
    api.begin("review", "r-1", json!({ "scene": "harbour" }), &["render"]).await;
    let workers = match mode {
        Mode::Embedded => Vec::new(),
        Mode::Fleet { workers } => (0..workers).collect(),
    };
    Scene { world, workers }
}

async fn put(api: &Api, path: &str, content_type: &str, body: String) {
    let request = api.client.request(Method::PUT, path).header("content-type", content_type).body(body);
    let reply = millstream_testkit::client::send(request).await;
    assert!([200, 201].contains(&reply.status), "{path}: {} {}", reply.status, reply.body);
}

async fn put_json(api: &Api, path: &str, body: Value) {
    put(api, path, "application/json", body.to_string()).await;
}

impl Scene {
    fn api(&self) -> &Api {
        &self.world.api
    }

    /// The device completes its run.
    async fn render(&self) {
        let run = eventually(SOON, || async {
            let page = self.api().client.get("/v1/devices/farm-1/assignments?wait=5").await.expect(200);
            items(&page).into_iter().next().ok_or(page)
        })
        .await;
        assert_eq!(run["input"], json!({ "scene": "harbour" }));
        let (id, token) = (text(&run, "run_id"), &run["token"]);
        for (act, more) in [
            ("accept", json!({})),
            ("start", json!({})),
            ("complete", json!({ "output": { "frames": 300 } })),
        ] {
            let mut body = more;
            body["device"] = json!("farm-1");
            body["token"] = token.clone();
            self.api().client.post(&format!("/v1/runs/{id}/{act}"), &body).await.expect(200);
        }
    }

    /// Waits until there is something for the person, and begins it.
    async fn takes(&self, person: &str, queue: &str) -> Value {
        let body = json!({ "person": person, "queues": [queue], "start": true });
        eventually(SOON, || async {
            let given = self.api().client.post("/v1/assignments/next", &body).await.expect(200);
            if given["assignment"].is_null() { Err(given) } else { Ok(given) }
        })
        .await
    }

    async fn submits(&self, given: &Value, answer: Value) -> Value {
        let assignment = text(&given["assignment"], "assignment_id");
        let body = json!({ "person": given["assignment"]["person"], "answer": answer });
        self.api().client.post(&format!("/v1/assignments/{assignment}/submit"), &body).await.expect(200)
    }

    async fn answers(&self, person: &str, queue: &str, answer: Value) -> Value {
        let given = self.takes(person, queue).await;
        assert_eq!(given["payload"]["film"], json!({ "frames": 300 }), "{given}");
        self.submits(&given, answer).await;
        given
    }

    /// Like `kill -9` of all performing processes, and a start of new ones.
    async fn kill_all(&mut self) {
        match self.world.fleet.mode() {
            Mode::Embedded => {
                self.world.fleet.kill_ingress();
                self.world.fleet.start_ingress(&[]).await;
            }
            Mode::Fleet { .. } => {
                for index in std::mem::take(&mut self.workers) {
                    self.world.fleet.kill_worker(index);
                }
                self.workers = vec![self.world.fleet.start_worker(&[])];
            }
        }
    }
}

async fn two_people_who_agree_end_the_review(mode: Mode) {
    let scene = set(mode).await;
    scene.render().await;
    scene.answers("ann", "review", json!({ "good": true })).await;
    assert_eq!(scene.api().execution("r-1").await["state"], "reviewing", "one is not enough");
    scene.answers("ben", "review", json!({ "good": true, "comment": "splendid" })).await;
    let ended = scene.api().execution_in("r-1", "completed").await;
    assert_eq!(ended["state"], "accepted");
    let names = scene.api().names("r-1").await;
    assert_eq!(names, ["millstream.start", "render", "rendered", "reviewed"]);
}

async fn where_two_people_disagree_a_third_one_decides(mode: Mode) {
    let scene = set(mode).await;
    scene.render().await;
    scene.answers("ann", "review", json!({ "good": true })).await;
    let given = scene.takes("ben", "review").await;
    let assignment = text(&given["assignment"], "assignment_id");
    // The queue requires a reason, and the person may submit again.
    let silent = json!({ "person": "ben", "answer": { "good": false } });
    let path = format!("/v1/assignments/{assignment}/submit");
    let problem = scene.api().client.post(&path, &silent).await.problem(422);
    assert!(problem["problems"].to_string().contains("say what is wrong"), "{problem}");
    scene.submits(&given, json!({ "good": false, "comment": "too dark" })).await;
    let decided = scene.answers("dora", "second_look", json!({ "good": false })).await;
    let opinions = json!([{ "good": true }, { "good": false, "comment": "too dark" }]);
    assert_eq!(decided["payload"]["opinions"], opinions);
    let ended = scene.api().execution_in("r-1", "completed").await;
    assert_eq!(ended["state"], "rejected");
}

async fn a_reviewer_who_lets_it_lie_is_replaced(mode: Mode) {
    let hasty = QUEUE
        .replace("timeout_seconds: 1800", "timeout_seconds: 3")
        .replace("max_attempts_per_labeler: 2", "max_attempts_per_labeler: 1");
    let scene = set_with(mode, &hasty).await;
    scene.render().await;
    let lying = scene.takes("ann", "review").await;
    let path = format!("/v1/assignments/{}", text(&lying["assignment"], "assignment_id"));
    eventually(SOON, || async {
        let seen = scene.api().client.get(&path).await.expect(200);
        if seen["status"] == "expired" { Ok(()) } else { Err(seen) }
    })
    .await;
    scene.answers("ben", "review", json!({ "good": true })).await;
    scene.answers("cara", "review", json!({ "good": true })).await;
    assert_eq!(scene.api().execution_in("r-1", "completed").await["state"], "accepted");
    let late = json!({ "person": "ann", "answer": { "good": true } });
    scene.api().client.post(&format!("{path}/submit"), &late).await.problem(409);
}

async fn nothing_is_lost_when_everything_is_killed_in_the_middle(mode: Mode) {
    let mut scene = set(mode).await;
    scene.render().await;
    scene.answers("ann", "review", json!({ "good": true })).await;
    let ben = scene.takes("ben", "review").await;
    scene.kill_all().await;
    scene.submits(&ben, json!({ "good": false, "comment": "too dark" })).await;
    scene.kill_all().await;
    let dora = scene.takes("dora", "second_look").await;
    scene.kill_all().await;
    scene.submits(&dora, json!({ "good": true })).await;
    let ended = scene.api().execution_in("r-1", "completed").await;
    assert_eq!(ended["state"], "accepted");
    let names = scene.api().names("r-1").await;
    assert_eq!(names, ["millstream.start", "render", "rendered", "reviewed", "decided"]);
    for queue in ["review", "second_look"] {
        let all = scene.api().all(&format!("/v1/items?queue={queue}")).await;
        assert_eq!(all.len(), 1, "{all:?}");
    }
}

async fn people_are_not_asked_for_a_review_that_was_cancelled(mode: Mode) {
    let scene = set(mode).await;
    scene.render().await;
    let given = scene.takes("ann", "review").await;
    scene.api().client.post("/v1/executions/r-1/cancel", &json!({})).await.expect(202);
    scene.api().execution_in("r-1", "cancelled").await;
    let item = text(&given["item"], "item_id");
    eventually(SOON, || async {
        let seen = scene.api().client.get(&format!("/v1/items/{item}")).await.expect(200);
        if seen["status"] == "withdrawn" { Ok(()) } else { Err(seen) }
    })
    .await;
    let answer = json!({ "person": "ann", "answer": { "good": true } });
    let assignment = text(&given["assignment"], "assignment_id");
    scene.api().client.post(&format!("/v1/assignments/{assignment}/submit"), &answer).await.problem(409);
}
