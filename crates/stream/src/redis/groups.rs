//! Consumer groups and the generation: detection of a server that lost its memory.
//!
//! Rule: whenever a group had to be created, the generation changes. A process that did not notice the loss
//! itself (because it was not reading at that moment) notices the changed generation.
//!
//! A crash between creating a group and changing the generation loses that signal; the sweep of overdue
//! events then finds the lost doorbells, later.

use millstream_core::lane::Lane;
use redis::{Pipeline, RedisResult, Value};

use super::fault::{self, unavailable};
use super::keys::{GROUP, Keys};
use super::link::Link;
use super::{reply, windows};
use crate::{Result, StreamError};

/// Creates missing groups, at 0 so that nothing published earlier is skipped. Returns their lanes.
pub(super) async fn ensure(link: &Link, keys: &Keys) -> Result<Vec<Lane>> {
    let mut create = Pipeline::new();
    for lane in Lane::all() {
        create.cmd("XGROUP").arg("CREATE").arg(keys.bells(lane)).arg(GROUP).arg("0").arg("MKSTREAM");
    }
    let answers = link.run(&mut create).await?;
    let mut made = Vec::new();
    let mut refused = None;
    for (lane, answer) in Lane::all().zip(answers) {
        match answer {
            Ok(_) => made.push(lane),
            Err(error) if fault::is_busy_group(&error) => {}
            Err(error) => refused = Some(error),
        }
    }
    if !made.is_empty() {
        let mut renew = Pipeline::new();
        renew.cmd("SET").arg(keys.generation()).arg(fresh());
        // The counts belong to the lost stream.
        for lane in &made {
            renew.cmd("DEL").arg(keys.deep(*lane));
        }
        windows::open(&mut renew, keys);
        fault::all(link.run(&mut renew).await?)?;
    }
    match refused {
        Some(error) => Err(unavailable(error)),
        None => Ok(made),
    }
}

/// The random value that is lost with the server's memory.
pub(super) async fn generation(link: &Link, keys: &Keys) -> Result<String> {
    ensure(link, keys).await?;
    let mut pipeline = Pipeline::new();
    pipeline.cmd("SET").arg(keys.generation()).arg(fresh()).arg("NX").ignore();
    pipeline.cmd("GET").arg(keys.generation());
    let answers: Vec<RedisResult<Value>> = link.run(&mut pipeline).await?;
    let value = fault::all(answers)?.into_iter().next().unwrap_or(Value::Nil);
    reply::text(&value).ok_or_else(|| fault::unexpected("GET generation", &value))
}

/// Creates a missing group again and returns the error for the caller.
pub(super) async fn heal(link: &Link, keys: &Keys, cause: &redis::RedisError) -> (Vec<Lane>, StreamError) {
    match ensure(link, keys).await {
        Ok(made) => (made, StreamError::Amnesia(cause.to_string())),
        Err(error) => (Vec::new(), error),
    }
}

fn fresh() -> String {
    uuid::Uuid::new_v4().to_string()
}
