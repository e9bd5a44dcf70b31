//! Key revocation during a call: a stream or a long wait ends within a few seconds after its key is revoked
//! or expires.
//!
//! One task per process asks the store about all keys that hold something open, in one query. A short call
//! is never watched: [`run_while_live`] starts watching when a handler takes longer than [`AT_ONCE`], and
//! the body of a stream starts watching when it first has nothing to send.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use hyper::body::{Frame, SizeHint};
use millstream_model::time::Timestamp;
use millstream_store::key_store::KeyHash;
use tokio_util::sync::CancellationToken;

use super::lookup::KeyLookup;
use crate::refusal::{RefusalKind, RequestRefusal};

/// Interval of the lookup of keys that hold something open.
pub(crate) const RECHECK: Duration = Duration::from_secs(2);
/// Interval at which the last use of keys is written.
pub(crate) const RECORD: Duration = Duration::from_secs(60);
/// Handlers that answer within this time are not watched.
const AT_ONCE: Duration = Duration::from_secs(1);
/// Keys per query.
const BATCH: usize = 512;
const ENDED: &str = "the API key was revoked or has expired";

/// A key and its expiry time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeldKey {
    pub(crate) hash: KeyHash,
    pub(crate) expires_at: Option<Timestamp>,
}

/// Keys that hold a stream or a wait open.
#[derive(Debug, Clone, Default)]
pub(crate) struct WatchedKeys(Arc<Mutex<HashMap<KeyHash, WatchedKey>>>);

#[derive(Debug)]
struct WatchedKey {
    ended: CancellationToken,
    expires_at: Option<Timestamp>,
    holders: usize,
}

/// One stream or wait that ends with its key.
#[derive(Debug)]
struct KeyLife {
    keys: WatchedKeys,
    hash: KeyHash,
    ended: CancellationToken,
}

impl WatchedKeys {
    fn watch_key(&self, key: HeldKey) -> KeyLife {
        let mut watched = self.lock_keys();
        let entry = watched.entry(key.hash).or_insert_with(|| WatchedKey {
            ended: CancellationToken::new(),
            expires_at: key.expires_at,
            holders: 0,
        });
        entry.holders += 1;
        KeyLife { keys: self.clone(), hash: key.hash, ended: entry.ended.clone() }
    }

    fn lock_keys(&self) -> MutexGuard<'_, HashMap<KeyHash, WatchedKey>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends everything that the key holds open; a later holder starts over.
    pub(super) fn end_key(&self, hash: &KeyHash) {
        if let Some(watched) = self.lock_keys().remove(hash) {
            watched.ended.cancel();
        }
    }
}

impl Drop for KeyLife {
    fn drop(&mut self) {
        let mut watched = self.keys.lock_keys();
        if let Some(entry) = watched.get_mut(&self.hash)
            && !self.ended.is_cancelled()
        {
            entry.holders -= 1;
            if entry.holders == 0 {
                watched.remove(&self.hash);
            }
        }
    }
}

/// Watches the keys that hold something open, and records the last use of keys, until `closing`.
pub(crate) async fn attend_keys(keys: Arc<KeyLookup>, closing: CancellationToken) {
    let mut recheck = tokio::time::interval(RECHECK);
    let mut record = tokio::time::interval(RECORD);
    recheck.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    record.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = closing.cancelled() => break,
            _ = recheck.tick() => end_dead_keys(&keys).await,
            _ = record.tick() => keys.record_uses().await,
        }
    }
    keys.record_uses().await;
}

async fn end_dead_keys(keys: &KeyLookup) {
    let held: Vec<HeldKey> = {
        let watched = keys.watched.lock_keys();
        watched.iter().map(|(hash, entry)| HeldKey { hash: *hash, expires_at: entry.expires_at }).collect()
    };
    for batch in held.chunks(BATCH) {
        let hashes: Vec<KeyHash> = batch.iter().map(|key| key.hash).collect();
        let found = keys.store.find_keys(&hashes).await;
        let now = keys.clock.now();
        for (at, key) in batch.iter().enumerate() {
            let is_live = match &found {
                Ok(found) => {
                    found.get(at).is_some_and(|key| key.as_ref().is_some_and(|key| key.is_live(now)))
                }
                // An unavailable store ends no stream; the key's own expiry does.
                Err(_) => key.expires_at.is_none_or(|expires_at| now < expires_at),
            };
            if !is_live {
                keys.end_key(&key.hash);
            }
        }
    }
}

/// Answers the call. If its key ends first, a wait is refused and a stream ends.
pub(crate) async fn run_while_live(
    keys: &KeyLookup,
    key: Option<HeldKey>,
    call: impl Future<Output = Response>,
) -> Result<Response, RequestRefusal> {
    let Some(key) = key else { return Ok(call.await) };
    let mut call = std::pin::pin!(call);
    let response = tokio::select! {
        biased;
        response = &mut call => response,
        () = tokio::time::sleep(AT_ONCE) => {
            let life = keys.watched.watch_key(key);
            tokio::select! {
                biased;
                response = &mut call => response,
                () = life.ended.cancelled() => return Err(RequestRefusal::new(RefusalKind::Unauthorized, ENDED)),
            }
        }
    };
    let transport = match response.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes) {
        Some(media) if media.starts_with(b"application/grpc") => CallTransport::Grpc,
        Some(media) if media.starts_with(b"text/event-stream") => CallTransport::Http,
        Some(_) | None => return Ok(response),
    };
    let keys = keys.watched.clone();
    Ok(response.map(|body| Body::new(KeyBoundBody { body, transport, keys, key, watch: None })))
}

#[derive(Debug, Clone, Copy)]
enum CallTransport {
    Http,
    Grpc,
}

/// The body of a stream that ends with its key.
struct KeyBoundBody {
    body: Body,
    transport: CallTransport,
    keys: WatchedKeys,
    key: HeldKey,
    watch: Option<KeyWatch>,
}

struct KeyWatch {
    life: KeyLife,
    ended: BoxFuture<'static, ()>,
}

impl KeyBoundBody {
    /// Dropping the body releases the leases and permits of the stream.
    fn end_stream(&mut self) -> Option<Result<Frame<Bytes>, axum::Error>> {
        self.body = Body::empty();
        match self.transport {
            CallTransport::Http => None,
            CallTransport::Grpc => {
                let mut trailers = HeaderMap::new();
                trailers.insert("grpc-status", HeaderValue::from_static("16"));
                trailers.insert("grpc-message", HeaderValue::from_static(ENDED));
                Some(Ok(Frame::trailers(trailers)))
            }
        }
    }
}

impl hyper::body::Body for KeyBoundBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        if this.watch.as_ref().is_some_and(|watch| watch.life.ended.is_cancelled()) {
            this.watch = None;
            return Poll::Ready(this.end_stream());
        }
        match Pin::new(&mut this.body).poll_frame(context) {
            Poll::Ready(frame) => Poll::Ready(frame),
            Poll::Pending => {
                let (keys, key) = (&this.keys, this.key);
                let watch = this.watch.get_or_insert_with(|| {
                    let life = keys.watch_key(key);
                    let ended = life.ended.clone().cancelled_owned().boxed();
                    KeyWatch { life, ended }
                });
                match watch.ended.poll_unpin(context) {
                    Poll::Pending => Poll::Pending,
                    Poll::Ready(()) => {
                        this.watch = None;
                        Poll::Ready(this.end_stream())
                    }
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}
