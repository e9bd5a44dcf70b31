//! Passwords that cross a network in clear text, found in the settings at the start and logged as warnings.

use millstream_store_postgres::{PostgresEncryption, encryption_of};
use url::Url;

/// A password in `database_url`, or one that PostgreSQL's own environment variables add.
pub(crate) fn warn_about_database(url: &str) {
    match encryption_of(url) {
        Some(PostgresEncryption::None) => tracing::warn!(
            "the password of the database and all data cross the network in clear text: add sslmode=verify-full (and sslrootcert=FILE for a private CA) to `database_url`"
        ),
        Some(PostgresEncryption::IfOffered) => tracing::warn!(
            "the connection to the database is encrypted only if the server offers it, and the server is not verified: add sslmode=verify-full (and sslrootcert=FILE for a private CA) to `database_url`"
        ),
        Some(PostgresEncryption::Always) | None => {}
    }
}

pub(crate) fn warn_about_redis(setting: &str, url: &str) {
    if is_redis_password_in_clear(url) {
        tracing::warn!(
            "the password of Redis crosses the network in clear text: use rediss:// in `{setting}`, with `redis.ca_file` for a private CA"
        );
    }
}

fn is_redis_password_in_clear(url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| {
        matches!(url.scheme(), "redis" | "valkey")
            && url.password().is_some_and(|password| !password.is_empty())
            && url.host_str().is_some_and(|host| !is_loopback(host))
    })
}

fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redis_password_without_tls_is_detected() {
        for clear in ["redis://:pw@redis.example:6379", "redis://me:pw@10.0.0.1/0", "redis://:pw@[fd00::1]:1"]
        {
            assert!(is_redis_password_in_clear(clear), "{clear}");
        }
        for fine in [
            "rediss://:pw@redis.example:6379",
            "redis://redis.example:6379",
            "redis://:pw@127.0.0.1:6379",
            "redis://:pw@localhost",
            "redis://:pw@[::1]:6379",
            "redis+unix:///run/redis.sock?pass=pw",
            "",
        ] {
            assert!(!is_redis_password_in_clear(fine), "{fine}");
        }
    }
}
