//! Clients: each posts sequentially to executions of its own, and repeats unanswered posts under the same key
//! at the other ingress.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::definitions;
use super::record::{PostRecord, PostVerdict, TorturePost};
use super::wire::{self, PostAnswer, TortureWire};
use crate::chance::TortureRandom;
use crate::stage::{POISON, TortureStage};

const CLIENTS: u64 = 16;
/// Clients that only race with timers.
const RACERS: u64 = 4;
/// Clients that keep actions in progress all the time.
const ACTORS: u64 = 4;
/// Maximum backlog of a client that it still catches up.
const MOST_BEHIND: Duration = Duration::from_secs(4);
/// How long an unanswered post is repeated.
const PERSISTENCE: Duration = Duration::from_secs(60);
/// Interval between bombs, in reclaim times: several attempts are needed until one is a dead letter, and with
/// more bombs than workers the fleet does little else than die of them.
const BETWEEN_BOMBS: u32 = 20;

#[derive(Debug)]
pub struct TortureLoad {
    stop: watch::Sender<bool>,
    bombs: watch::Sender<bool>,
    clients: JoinSet<()>,
}

impl TortureLoad {
    /// Starts the clients, which together try to post `rate` events per second.
    pub fn start(stage: &Arc<TortureStage>, record: &PostRecord, seed: &TortureRandom, rate: u64) -> Self {
        let (stop, stopped) = watch::channel(false);
        let (bombs, released) = watch::channel(false);
        let mut clients = JoinSet::new();
        let client = |number: u64| TortureClient {
            number,
            wire: TortureWire::to_stage(stage),
            record: record.clone(),
            chance: seed.for_the(&format!("client-{number}")),
            stop: stopped.clone(),
            own: Vec::new(),
            memory: Vec::new(),
        };
        for number in 0..CLIENTS {
            clients.spawn(client(number).run(rate as f64 / CLIENTS as f64));
        }
        for number in CLIENTS..CLIENTS + RACERS {
            clients.spawn(client(number).race_timers());
        }
        for number in CLIENTS + RACERS..CLIENTS + RACERS + ACTORS {
            clients.spawn(client(number).keep_acting());
        }
        if stage.drills {
            let pause = stage.deadlines.reclaim_idle * BETWEEN_BOMBS;
            clients.spawn(client(CLIENTS + RACERS + ACTORS).throw_bombs(released, pause));
        }
        Self { stop, bombs, clients }
    }

    /// From now on poison events may be posted.
    pub fn release_bombs(&self) {
        self.bombs.send_replace(true);
    }

    /// Lets every client finish its present operation.
    pub async fn finish(mut self) {
        self.stop.send_replace(true);
        while self.clients.join_next().await.is_some() {}
    }
}

/// An execution that one client alone posts to.
#[derive(Debug, Clone)]
struct OwnExecution {
    id: String,
    definition: &'static str,
    next: i64,
}

struct TortureClient {
    number: u64,
    wire: TortureWire,
    record: PostRecord,
    chance: TortureRandom,
    stop: watch::Receiver<bool>,
    own: Vec<OwnExecution>,
    /// Some posts that were acknowledged, to be repeated.
    memory: Vec<TorturePost>,
}

impl TortureClient {
    async fn run(mut self, rate: f64) {
        for definition in ["ledger", "ledger", "ledger", "ledger", "job", "job", "alarm", "alarm", "gate"] {
            self.start_execution(definition).await;
        }
        let mut due = Instant::now();
        while !self.is_stopped() {
            let posted = self.act_once().await;
            due += Duration::from_secs_f64(posted as f64 / rate);
            let now = Instant::now();
            due = due.max(now.checked_sub(MOST_BEHIND).unwrap_or(now));
            if due > now {
                tokio::time::sleep(due - now).await;
            }
        }
        // Some gates stay shut, with their deferred events.
        let gates: Vec<usize> = self.all_of("gate");
        for at in gates {
            if self.number.is_multiple_of(2) {
                let unlock = self.next_post(at, "unlock");
                self.post_events(vec![unlock]).await;
            }
        }
    }

    fn is_stopped(&self) -> bool {
        *self.stop.borrow()
    }

    /// Performs one operation and returns the number of posted events.
    async fn act_once(&mut self) -> usize {
        match self.chance.below(100) {
            0..55 => {
                let count = 6 + self.chance.index(12);
                let posts = (0..count).map(|_| self.ledger_post()).collect();
                self.post_events(posts).await
            }
            55..70 => {
                let post = self.ledger_post();
                self.post_events(vec![post]).await
            }
            70..80 => {
                let name = match self.chance.below(100) {
                    0..50 => "work",
                    50..65 => "flaky",
                    65..80 => "lost",
                    80..90 => "slow",
                    _ => "never",
                };
                self.post_to("job", name).await
            }
            80..88 => {
                let name = if self.chance.percent(70) { "arm" } else { "disarm" };
                self.post_to("alarm", name).await
            }
            88..92 => {
                let name = *self.chance.pick(&["pass", "pass", "unlock", "lock"]);
                self.post_to("gate", name).await
            }
            92..96 => self.repeat_post().await,
            96..98 => self.post_and_forget().await,
            _ => self.replace_a_ledger().await,
        }
    }

    fn all_of(&self, definition: &str) -> Vec<usize> {
        (0..self.own.len()).filter(|at| self.own[*at].definition == definition).collect()
    }

    fn ledger_post(&mut self) -> TorturePost {
        let ledgers = self.all_of("ledger");
        let at = *self.chance.pick(&ledgers);
        self.next_post(at, "add")
    }

    async fn post_to(&mut self, definition: &str, name: &str) -> usize {
        let candidates = self.all_of(definition);
        let at = *self.chance.pick(&candidates);
        let post = self.next_post(at, name);
        self.post_events(vec![post]).await
    }

    fn next_post(&mut self, at: usize, name: &str) -> TorturePost {
        let own = &mut self.own[at];
        let n = own.next;
        own.next += 1;
        let key = format!("{}#{n}", own.id);
        let (execution, name) = (own.id.clone(), name.to_owned());
        TorturePost { execution, name, n, key, sent: Instant::now(), told: PostVerdict::Nothing }
    }

    /// Posts until every item has its answer, or time is over. A single event, or several as a batch.
    async fn post_events(&mut self, mut posts: Vec<TorturePost>) -> usize {
        let count = posts.len();
        let began = Instant::now();
        for post in &mut posts {
            post.sent = began;
        }
        self.wire.switch_ingress(&mut self.chance);
        let mut failures = 0;
        loop {
            let answers = self.wire.send_posts(&posts, &self.record).await;
            for (post, answer) in posts.iter_mut().zip(answers) {
                match answer {
                    PostAnswer::Accepted(event) => {
                        post.told = PostVerdict::Accepted { event, at: Instant::now() }
                    }
                    PostAnswer::Refused(status) => post.told = PostVerdict::Refused(status),
                    PostAnswer::Nothing => {}
                }
            }
            let open = posts.iter().any(|post| post.told == PostVerdict::Nothing);
            if !open || began.elapsed() > PERSISTENCE {
                break;
            }
            failures += 1;
            if failures == 2 {
                self.record.lock_state().tries.stranded += 1;
            }
        }
        if posts.iter().any(|post| post.told == PostVerdict::Nothing) {
            self.record.lock_state().tries.given_up += 1;
        }
        self.remember_posts(&posts);
        self.record.lock_state().posts.extend(posts);
        count
    }

    fn remember_posts(&mut self, posts: &[TorturePost]) {
        for post in posts.iter().filter(|post| matches!(post.told, PostVerdict::Accepted { .. })) {
            if self.memory.len() < 64 {
                self.memory.push(post.clone());
            } else if self.chance.percent(10) {
                let at = self.chance.index(self.memory.len());
                self.memory[at] = post.clone();
            }
        }
    }

    /// A repeat under the same key must get the same answer.
    async fn repeat_post(&mut self) -> usize {
        if self.memory.is_empty() {
            return 0;
        }
        let post = self.chance.pick(&self.memory).clone();
        self.record.lock_state().tries.repeats += 1;
        let answers = self.wire.send_posts(std::slice::from_ref(&post), &self.record).await;
        let PostVerdict::Accepted { event: first, .. } = post.told else { return 0 };
        for answer in answers {
            let contradiction = match answer {
                PostAnswer::Accepted(again) if again == first => continue,
                PostAnswer::Nothing => continue,
                PostAnswer::Accepted(again) => format!("{}: first {first}, then {again}", post.key),
                PostAnswer::Refused(status) => format!("{}: first {first}, then status {status}", post.key),
            };
            self.record.lock_state().contradictions.push(contradiction);
        }
        1
    }

    /// Does not wait for the answer: the event may exist or not.
    async fn post_and_forget(&mut self) -> usize {
        let mut post = self.ledger_post();
        let patience = Duration::from_millis(1 + self.chance.below(6));
        let answers = self.wire.send_within(std::slice::from_ref(&post), patience, &self.record).await;
        if let Some(PostAnswer::Accepted(event)) = answers.first() {
            post.told = PostVerdict::Accepted { event: *event, at: Instant::now() };
        }
        self.record.lock_state().posts.push(post);
        1
    }

    async fn replace_a_ledger(&mut self) -> usize {
        let ledgers = self.all_of("ledger");
        let at = *self.chance.pick(&ledgers);
        let close = self.next_post(at, "close");
        let late = self.next_post(at, "add");
        self.post_events(vec![close, late]).await;
        self.own.remove(at);
        self.start_execution("ledger").await;
        2
    }

    /// Starts an execution under an id of its own, with as many attempts as needed.
    async fn start_execution(&mut self, definition: &'static str) {
        let id = format!("{definition}-{}-{:08x}", self.number, self.chance.draw() & 0xffff_ffff);
        while !self.wire.start_execution(&id, definition, &mut self.chance, &self.record).await {
            // Otherwise an ingress that refuses at once would be asked again at once.
            tokio::time::sleep(wire::PAUSE).await;
        }
        self.record.lock_state().executions.insert(id.clone(), definition.to_owned());
        self.own.push(OwnExecution { id, definition, next: 0 });
    }

    /// Re-arms a timer, or disarms it, at the moment at which it fires.
    async fn race_timers(mut self) {
        self.start_execution("alarm").await;
        while !self.is_stopped() {
            let name = if self.chance.percent(75) { "arm" } else { "disarm" };
            let post = self.next_post(0, name);
            self.post_events(vec![post]).await;
            let spread = Duration::from_millis(self.chance.below(40));
            tokio::time::sleep(definitions::ALARM_AFTER - Duration::from_millis(20) + spread).await;
        }
    }

    /// Long actions, and pairs with answers at the same instant.
    async fn keep_acting(mut self) {
        self.start_execution("job").await;
        while !self.is_stopped() {
            let name = *self.chance.pick(&["work", "slow"]);
            let post = self.next_post(0, name);
            self.post_events(vec![post]).await;
            tokio::time::sleep(Duration::from_millis(150 + self.chance.below(200))).await;
        }
    }

    /// Posts poison events at intervals: each kills the worker that decides it.
    async fn throw_bombs(mut self, mut released: watch::Receiver<bool>, pause: Duration) {
        tokio::select! {
            _ = released.wait_for(|released| *released) => {}
            _ = self.stop.wait_for(|stopped| *stopped) => return,
        }
        loop {
            self.start_execution("bomb").await;
            let at = self.own.len() - 1;
            for name in ["tick", POISON, "tick"] {
                let post = self.next_post(at, name);
                self.post_events(vec![post]).await;
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = self.stop.wait_for(|stopped| *stopped) => return,
            }
        }
    }
}
