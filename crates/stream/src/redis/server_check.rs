//! Checks at start whether this server is usable.
//!
//! An eviction policy would drop streams *with their groups* under memory pressure, and locks at any time:
//! refused. Where settings cannot be read (managed services), a warning is logged.

use std::collections::HashMap;

use redis::{Pipeline, Value};

use super::connection::RedisLink;
use super::{error_kind, reply};
use crate::{StreamError, StreamResult};

const POLICY: &str = "noeviction";
/// The first version with `SET … NX GET` and the deleted ids of XAUTOCLAIM.
const OLDEST: (u64, u64) = (7, 0);

pub(super) async fn check_redis(link: &RedisLink) -> StreamResult<Vec<String>> {
    let mut pipeline = Pipeline::new();
    pipeline.cmd("PING");
    pipeline.cmd("INFO").arg("server");
    pipeline.cmd("INFO").arg("memory");
    pipeline.cmd("CONFIG").arg("GET").arg("maxmemory-policy");
    let mut answers = link.run_pipeline(&mut pipeline).await?.into_iter();
    if let Some(Err(error)) = answers.next() {
        return Err(error_kind::to_unavailable(error));
    }
    let server = parse_info(answers.next());
    let memory = parse_info(answers.next());
    let configured = match answers.next() {
        Some(Ok(settings)) => reply::as_pairs(settings)
            .and_then(|pairs| reply::record_field(&pairs, "maxmemory-policy"))
            .and_then(|policy| reply::as_text(&policy)),
        Some(Err(_)) | None => None,
    };
    let mut warnings = Vec::new();
    check_version(server.get("redis_version").map(String::as_str), &mut warnings)?;
    if server.get("redis_mode").is_some_and(|mode| mode == "cluster") {
        return Err(StreamError::Unusable(
            "redis runs as a cluster, which is not supported yet: use a single server or a failover pair"
                .to_owned(),
        ));
    }
    check_eviction_policy(configured.or_else(|| memory.get("maxmemory_policy").cloned()), &mut warnings)?;
    Ok(warnings)
}

fn check_version(version: Option<&str>, warnings: &mut Vec<String>) -> StreamResult<()> {
    let parsed = version.and_then(|text| {
        let mut parts = text.split('.').map(str::parse::<u64>);
        Some((parts.next()?.ok()?, parts.next()?.ok()?))
    });
    match parsed {
        Some(found) if found < OLDEST => Err(StreamError::Unusable(format!(
            "redis {} is too old: 7.0 or later is required",
            version.unwrap_or_default()
        ))),
        Some(_) => Ok(()),
        None => {
            warnings.push("the version of redis could not be read; 7.0 or later is required".to_owned());
            Ok(())
        }
    }
}

fn check_eviction_policy(policy: Option<String>, warnings: &mut Vec<String>) -> StreamResult<()> {
    match policy.as_deref() {
        Some(POLICY) => Ok(()),
        Some(other) => Err(StreamError::Unusable(format!(
            "maxmemory-policy is {other}, which evicts streams with their groups: set it to {POLICY}"
        ))),
        None => {
            warnings.push(format!(
                "maxmemory-policy could not be read: it must be {POLICY}, any other policy evicts streams"
            ));
            Ok(())
        }
    }
}

/// Parses `name:value` lines.
fn parse_info(answer: Option<redis::RedisResult<Value>>) -> HashMap<String, String> {
    let text =
        answer.and_then(redis::RedisResult::ok).and_then(|value| reply::as_text(&value)).unwrap_or_default();
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_refuses_redis_below_seven() {
        assert!(matches!(check_version(Some("6.2.14"), &mut Vec::new()), Err(StreamError::Unusable(_))));
        assert!(check_version(Some("7.0.15"), &mut Vec::new()).is_ok());
        assert!(check_version(Some("10.1.0"), &mut Vec::new()).is_ok());
    }

    #[test]
    fn check_refuses_evicting_policies() {
        assert!(check_eviction_policy(Some("noeviction".to_owned()), &mut Vec::new()).is_ok());
        for evicting in ["allkeys-lru", "volatile-ttl", "allkeys-random"] {
            let refused = check_eviction_policy(Some(evicting.to_owned()), &mut Vec::new());
            assert!(matches!(refused, Err(StreamError::Unusable(_))), "{evicting}");
        }
        let mut warnings = Vec::new();
        assert!(check_eviction_policy(None, &mut warnings).is_ok());
        assert_eq!(warnings.len(), 1);
    }
}
