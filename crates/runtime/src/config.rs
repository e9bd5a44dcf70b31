//! Settings: typed, layered, printable.
//!
//! `config/default.toml` (built in) < a file < `MILLSTREAM_…` environment < flags. Roles receive options made
//! from this and never read the environment themselves. An unknown key is an error in a file and in the
//! environment alike: a typo must not become a silent default.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use figment2::providers::{Format, Serialized, Toml};
use figment2::{Figment, value::Value};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::devices::Devices;
use crate::quotas::{QuotaTable, TenantSettings};
use crate::{drills, secrets};

/// The commented defaults, as they are in the repository.
pub const DEFAULTS: &str = include_str!("../../../config/default.toml");

/// Environment variable with the path of the settings file.
const FILE: &str = "MILLSTREAM_CONFIG";
/// Environment names that are not settings.
const NOT_SETTINGS: &[&str] = &[FILE];

/// All settings, documented in `config/default.toml`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    pub database_url: String,
    pub redis_url: String,
    pub listen: OptionalAddress,
    pub listen_tls: OptionalAddress,
    pub url: String,
    pub key: String,
    pub http_allow: Networks,
    pub executor_allow: Networks,
    pub log: String,
    pub log_format: LogFormat,
    pub threads: usize,
    pub dev: Dev,
    pub postgres: Postgres,
    pub redis: Redis,
    pub tls: Tls,
    pub ingress: Ingress,
    pub worker: Worker,
    pub devices: Devices,
    pub outbound: Outbound,
    pub retention: Retention,
    pub quota: QuotaTable,
    pub tenants: BTreeMap<String, TenantSettings>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    Auto,
    Text,
    Json,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dev {
    pub dir: PathBuf,
    pub workers: usize,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Postgres {
    pub connections: u32,
    pub statement_timeout: Span,
    pub lock_timeout: Span,
    pub acquire_timeout: Span,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Redis {
    pub prefix: String,
    pub connections: usize,
    pub ca_file: PathBuf,
    pub client_certificate: PathBuf,
    pub client_key: PathBuf,
}

/// Paths of PEM files; an empty one is not set.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    pub certificate: PathBuf,
    pub key: PathBuf,
    pub client_ca: PathBuf,
    pub ca_file: PathBuf,
    pub client_certificate: PathBuf,
    pub client_key: PathBuf,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ingress {
    pub max_in_flight: usize,
    pub max_queued: usize,
    pub max_connections: usize,
    pub max_connections_per_address: usize,
    pub max_streams_per_connection: u32,
    pub idle_timeout: Span,
    pub allowed_hosts: Vec<String>,
    pub drain: Span,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Worker {
    pub batch: usize,
    pub action_slots: usize,
    pub node_slots: usize,
    pub lease: Span,
    pub lock_ttl: Span,
    pub reclaim_idle: Span,
    pub overdue: Span,
    pub drain: Span,
    pub poison_cap: i32,
    pub http_max_response: usize,
    pub secrets_dir: PathBuf,
    pub signal_ttl: Span,
    pub executors: Vec<String>,
    pub executor_silence: Span,
    pub listen: OptionalAddress,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outbound {
    pub stream: String,
    pub stream_length: usize,
    pub redis_url: String,
    pub webhooks: Vec<String>,
    pub timeout: Span,
    pub types: Vec<String>,
    pub source: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retention {
    pub completed: Span,
    pub failed: Span,
    pub cancelled: Span,
    pub keys: Span,
}

/// A duration in the notation of definitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Span(pub Duration);

impl TryFrom<String> for Span {
    type Error = millstream_core::duration::InvalidDuration;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        millstream_core::duration::parse(&text).map(Self)
    }
}

impl From<Span> for String {
    fn from(span: Span) -> String {
        millstream_core::duration::format(span.0)
    }
}

/// An optional address; the empty text is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct OptionalAddress(pub Option<SocketAddr>);

impl TryFrom<String> for OptionalAddress {
    type Error = std::net::AddrParseError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        if text.is_empty() { Ok(Self(None)) } else { text.parse().map(|address| Self(Some(address))) }
    }
}

impl std::str::FromStr for OptionalAddress {
    type Err = std::net::AddrParseError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::try_from(text.to_owned())
    }
}

impl From<SocketAddr> for OptionalAddress {
    fn from(address: SocketAddr) -> Self {
        Self(Some(address))
    }
}

impl From<OptionalAddress> for String {
    fn from(address: OptionalAddress) -> String {
        address.0.map(|address| address.to_string()).unwrap_or_default()
    }
}

/// A list of CIDRs; in the environment, one text separated by commas.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "ListOrText", into = "Vec<String>")]
pub struct Networks(pub Vec<IpNet>);

#[derive(Deserialize)]
#[serde(untagged)]
enum ListOrText {
    List(Vec<String>),
    Text(String),
}

impl TryFrom<ListOrText> for Networks {
    type Error = String;
    fn try_from(written: ListOrText) -> Result<Self, String> {
        let texts = match written {
            ListOrText::List(list) => list,
            ListOrText::Text(text) => text.split(',').map(str::to_owned).collect(),
        };
        texts
            .iter()
            .map(|text| text.trim())
            .filter(|text| !text.is_empty())
            .map(|text| text.parse().map_err(|_| format!("{text:?} is not a network like 10.1.0.0/16")))
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

impl From<Networks> for Vec<String> {
    fn from(networks: Networks) -> Self {
        networks.0.iter().map(ToString::to_string).collect()
    }
}

/// Settings from command-line flags: the last layer.
#[derive(Debug, Default, Serialize)]
pub struct Flags {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub database_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redis_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listen: Option<SocketAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
}

/// The settings of this process: its environment, a file (given, or named by the environment), and flags.
pub fn of_process(file: Option<&Path>, flags: &Flags) -> Result<Config> {
    let named = std::env::var_os(FILE).filter(|file| !file.is_empty()).map(PathBuf::from);
    let environment = std::env::vars().filter(|(name, _)| name.starts_with("MILLSTREAM_"));
    load(file.or(named.as_deref()), environment, flags)
}

/// Merges the layers.
pub fn load(
    file: Option<&Path>,
    environment: impl Iterator<Item = (String, String)>,
    flags: &Flags,
) -> Result<Config> {
    let mut layers = Figment::from(Toml::string(DEFAULTS));
    if let Some(file) = file {
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("cannot read the settings file {}", file.display()))?;
        layers = layers.merge(Toml::string(&text));
    }
    for (name, value) in environment {
        if let Some(key) = setting_key(&name) {
            if layers.find_value(&key).is_err() {
                bail!("{name}: there is no setting {key:?}; `millstream config` lists them all");
            }
            let value = literal(&layers, &key, value);
            layers = layers.merge((key.as_str(), value));
        }
    }
    // Global profile, like the environment's values: the default profile would lose against them.
    layers.merge(Serialized::globals(flags)).extract().map_err(|error| anyhow::anyhow!("settings: {error}"))
}

/// `MILLSTREAM_WORKER__LEASE` → `worker.lease`; `None` for variables that are not settings.
fn setting_key(name: &str) -> Option<String> {
    if NOT_SETTINGS.contains(&name)
        || drills::NAMES.contains(&name)
        || name.starts_with("MILLSTREAM_TEST_")
        || name.starts_with(secrets::PREFIX)
        || is_service_link(name)
    {
        return None;
    }
    name.strip_prefix("MILLSTREAM_").map(|rest| rest.to_lowercase().replace("__", "."))
}

/// A service link: Kubernetes sets such variables in every container beside a service named `millstream…`.
fn is_service_link(name: &str) -> bool {
    let port_of_a_service = |(_, rest): (&str, &str)| {
        rest.is_empty()
            || rest.strip_prefix('_').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    name.ends_with("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
        || name.split_once("_PORT").is_some_and(port_of_a_service)
}

/// An environment value in the type of the default: `8` becomes a number only where the default is a number.
fn literal(layers: &Figment, key: &str, text: String) -> Value {
    match layers.find_value(key) {
        Ok(Value::Num(..) | Value::Bool(..)) => {
            text.parse().unwrap_or_else(|_: std::convert::Infallible| Value::from(text.clone()))
        }
        Ok(Value::Array(..)) => Value::from(
            text.split(',')
                .map(|part| part.trim().to_owned())
                .filter(|part| !part.is_empty())
                .collect::<Vec<_>>(),
        ),
        _ => Value::from(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(env: &[(&str, &str)]) -> Result<Config> {
        load(None, env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())), &Flags::default())
    }

    #[test]
    fn the_built_in_file_is_complete() {
        let config = with(&[]).unwrap();
        assert_eq!(String::from(config.listen), "127.0.0.1:7400");
        assert_eq!(config.worker.lease.0, Duration::from_secs(15));
    }

    #[test]
    fn the_environment_wins_over_the_file_and_flags_over_both() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("m.toml");
        std::fs::write(&file, "listen = \"127.0.0.1:1\"\n[worker]\nlease = \"3s\"\n").unwrap();
        let env = [("MILLSTREAM_LISTEN", "127.0.0.1:2"), ("MILLSTREAM_WORKER__ACTION_SLOTS", "7")];
        let env = || env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        let config = load(Some(&file), env(), &Flags::default()).unwrap();
        assert_eq!(
            (
                config.listen.0.map(|address| address.port()),
                config.worker.lease.0.as_secs(),
                config.worker.action_slots
            ),
            (Some(2), 3, 7)
        );
        let flags = Flags { listen: "127.0.0.1:3".parse().ok(), ..Flags::default() };
        assert_eq!(String::from(load(Some(&file), env(), &flags).unwrap().listen), "127.0.0.1:3");
    }

    #[test]
    fn a_setting_that_does_not_exist_is_named() {
        let error = with(&[("MILLSTREAM_WORKER__LEESE", "1s")]).unwrap_err().to_string();
        assert!(error.contains("MILLSTREAM_WORKER__LEESE") && error.contains("worker.leese"), "{error}");
    }

    #[test]
    fn links_to_a_service_of_our_name_are_not_settings() {
        for name in [
            "MILLSTREAM_SERVICE_HOST",
            "MILLSTREAM_PORT",
            "MILLSTREAM_INGRESS_SERVICE_PORT_HTTP",
            "MILLSTREAM_PORT_7400_TCP_ADDR",
        ] {
            assert!(with(&[(name, "tcp://10.0.0.1:7400")]).is_ok(), "{name}");
        }
        assert!(with(&[("MILLSTREAM_PORTS", "1")]).is_err());
    }

    #[test]
    fn a_bad_value_is_named_with_its_key() {
        let error = with(&[("MILLSTREAM_WORKER__LEASE", "soon")]).unwrap_err().to_string();
        assert!(error.contains("lease") && error.contains("soon"), "{error}");
    }

    #[test]
    fn networks_are_separated_by_commas() {
        let config = with(&[("MILLSTREAM_HTTP_ALLOW", "127.0.0.0/8, ::1/128")]).unwrap();
        assert_eq!(config.http_allow.0.len(), 2);
    }

    #[test]
    fn numeric_looking_text_stays_text() {
        assert_eq!(with(&[("MILLSTREAM_REDIS__PREFIX", "42")]).unwrap().redis.prefix, "42");
    }
}
