//! Consumer groups and the generation: detection of a server that lost its memory.
//!
//! Rule: whenever a group had to be created, the generation changes. A process that did not notice the loss
//! itself (because it was not reading at that moment) notices the changed generation.
//!
//! A crash between creating a group and changing the generation loses that signal; the sweep of overdue
//! events then finds the lost doorbells, later.

use millstream_model::lane::Lane;
use redis::{Pipeline, RedisResult, Value};

use super::connection::RedisLink;
use super::error_kind::{self, to_unavailable};
use super::keys::{GROUP, RedisKeys};
use super::{reply, windows};
use crate::{StreamError, StreamResult};

/// Creates missing groups, at 0 so that nothing published earlier is skipped. Returns their lanes.
pub(super) async fn ensure_groups(link: &RedisLink, keys: &RedisKeys) -> StreamResult<Vec<Lane>> {
    let mut create = Pipeline::new();
    for lane in Lane::all() {
        create.cmd("XGROUP").arg("CREATE").arg(keys.bells_key(lane)).arg(GROUP).arg("0").arg("MKSTREAM");
    }
    let answers = link.run_pipeline(&mut create).await?;
    let mut made = Vec::new();
    let mut refused = None;
    for (lane, answer) in Lane::all().zip(answers) {
        match answer {
            Ok(_) => made.push(lane),
            Err(error) if error_kind::is_busy_group(&error) => {}
            Err(error) => refused = Some(error),
        }
    }
    if !made.is_empty() {
        let mut renew = Pipeline::new();
        renew.cmd("SET").arg(keys.generation_key()).arg(new_generation());
        // The counts belong to the lost stream.
        for lane in &made {
            renew.cmd("DEL").arg(keys.unread_counts_key(*lane));
        }
        windows::mark_windowed(&mut renew, keys);
        error_kind::all_answers(link.run_pipeline(&mut renew).await?)?;
    }
    match refused {
        Some(error) => Err(to_unavailable(error)),
        None => Ok(made),
    }
}

/// The random value that is lost with the server's memory.
pub(super) async fn read_generation(link: &RedisLink, keys: &RedisKeys) -> StreamResult<String> {
    ensure_groups(link, keys).await?;
    let mut pipeline = Pipeline::new();
    pipeline.cmd("SET").arg(keys.generation_key()).arg(new_generation()).arg("NX").ignore();
    pipeline.cmd("GET").arg(keys.generation_key());
    let answers: Vec<RedisResult<Value>> = link.run_pipeline(&mut pipeline).await?;
    let value = error_kind::all_answers(answers)?.into_iter().next().unwrap_or(Value::Nil);
    reply::as_text(&value).ok_or_else(|| error_kind::unexpected_answer("GET generation", &value))
}

/// Creates a missing group again and returns the error for the caller.
pub(super) async fn recreate_groups(
    link: &RedisLink,
    keys: &RedisKeys,
    cause: &redis::RedisError,
) -> (Vec<Lane>, StreamError) {
    match ensure_groups(link, keys).await {
        Ok(made) => (made, StreamError::Amnesia(cause.to_string())),
        Err(error) => (Vec::new(), error),
    }
}

fn new_generation() -> String {
    uuid::Uuid::new_v4().to_string()
}
