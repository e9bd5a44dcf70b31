//! Whether the password and the data in transit to PostgreSQL are encrypted, according to the database url.

use std::str::FromStr;

use sqlx::ConnectOptions;
use sqlx::postgres::{PgConnectOptions, PgSslMode};

/// How a password travels to another machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PostgresEncryption {
    /// `sslmode=disable` or `allow`.
    None,
    /// `sslmode=prefer`, the default: encrypted when the server offers it, and the server is not verified.
    IfOffered,
    /// `sslmode=require` encrypts; `verify-ca` and `verify-full` verify the server as well.
    Always,
}

/// `None` when there is no password, when the server is on this machine, or when the url is invalid.
pub fn encryption_of(url: &str) -> Option<PostgresEncryption> {
    let options = PgConnectOptions::from_str(url).ok()?;
    let has_password = options.to_url_lossy().password().is_some_and(|password| !password.is_empty());
    if !has_password || options.get_socket().is_some() || is_local(options.get_host()) {
        return None;
    }
    Some(match options.get_ssl_mode() {
        PgSslMode::Disable | PgSslMode::Allow => PostgresEncryption::None,
        PgSslMode::Prefer => PostgresEncryption::IfOffered,
        PgSslMode::Require | PgSslMode::VerifyCa | PgSslMode::VerifyFull => PostgresEncryption::Always,
    })
}

/// A name or an address of this machine, or the directory of a socket.
fn is_local(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host.starts_with('/')
        || host.eq_ignore_ascii_case("localhost")
        || bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_password_encryption_follows_sslmode() {
        for (sslmode, encryption) in [
            ("disable", PostgresEncryption::None),
            ("allow", PostgresEncryption::None),
            ("prefer", PostgresEncryption::IfOffered),
            ("require", PostgresEncryption::Always),
            ("verify-ca", PostgresEncryption::Always),
            ("verify-full", PostgresEncryption::Always),
        ] {
            let url = format!("postgres://me:pw@db.example/mill?sslmode={sslmode}");
            assert_eq!(encryption_of(&url), Some(encryption), "{sslmode}");
        }
    }

    #[test]
    fn local_server_needs_no_encryption() {
        for url in [
            "postgres://me:pw@127.0.0.1/mill?sslmode=disable",
            "postgres://me:pw@localhost/mill?sslmode=disable",
            "postgres://me:pw@[::1]/mill?sslmode=disable",
            "postgres://me:pw@%2Frun%2Fpostgresql/mill?sslmode=disable",
            "sqlite://x",
        ] {
            assert_eq!(encryption_of(url), None, "{url}");
        }
    }
}
