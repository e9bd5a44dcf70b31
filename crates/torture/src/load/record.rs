//! Requests of the clients and their answers: the one source that is independent of the engine.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use uuid::Uuid;

/// One event that a client wanted, under one key.
#[derive(Debug, Clone)]
pub struct TorturePost {
    pub execution: String,
    pub name: String,
    /// Its number among the posts of this client to this execution.
    pub n: i64,
    pub key: String,
    pub sent: Instant,
    pub told: PostVerdict,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PostVerdict {
    /// Accepted, under this id.
    Accepted { event: Uuid, at: Instant },
    /// Refused with this status: it must not exist.
    Refused(u16),
    /// No definite answer: it may exist once.
    Nothing,
}

/// Shared by all clients.
#[derive(Debug, Clone, Default)]
pub struct PostRecord(Arc<Mutex<PostRecordState>>);

#[derive(Debug, Clone, Default)]
pub struct PostRecordState {
    pub posts: Vec<TorturePost>,
    /// Executions by id, with their definition, that were acknowledged.
    pub executions: BTreeMap<String, String>,
    /// Repeats under an acknowledged key that were answered with another event.
    pub contradictions: Vec<String>,
    pub tries: PostTries,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct PostTries {
    pub requests: u64,
    /// No answer: refused, reset, timed out.
    pub unanswered: u64,
    /// 429 and 5xx.
    pub put_off: u64,
    /// Repeats of what had been acknowledged.
    pub repeats: u64,
    /// Posts that failed at one door and then at the other.
    pub stranded: u64,
    /// Posts that were given up.
    pub given_up: u64,
}

impl PostRecord {
    pub fn lock_state(&self) -> MutexGuard<'_, PostRecordState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn accepted(&self) -> usize {
        self.lock_state()
            .posts
            .iter()
            .filter(|post| matches!(post.told, PostVerdict::Accepted { .. }))
            .count()
    }

    pub fn post_tries(&self) -> PostTries {
        self.lock_state().tries
    }
}
