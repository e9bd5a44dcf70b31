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

use crate::devices::DeviceSettings;
use crate::quotas::{QuotaTable, TenantSettings};
use crate::{fault_injection, secrets};

/// The commented defaults, as they are in the repository.
pub const DEFAULTS: &str = include_str!("../embedded/default.toml");

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
    pub http_allow: NetworkList,
    pub executor_allow: NetworkList,
    pub log: String,
    pub log_format: LogFormat,
    pub threads: usize,
    pub dev: DevSettings,
    pub postgres: PostgresSettings,
    pub redis: RedisSettings,
    pub tls: TlsSettings,
    pub ingress: IngressSettings,
    pub worker: WorkerSettings,
    pub devices: DeviceSettings,
    pub outbound: OutboundSettings,
    pub retention: RetentionSettings,
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
pub struct DevSettings {
    pub dir: PathBuf,
    pub workers: usize,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PostgresSettings {
    pub connections: u32,
    pub statement_timeout: DurationSetting,
    pub lock_timeout: DurationSetting,
    pub acquire_timeout: DurationSetting,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedisSettings {
    pub prefix: String,
    pub connections: usize,
    pub ca_file: PathBuf,
    pub client_certificate: PathBuf,
    pub client_key: PathBuf,
}

/// Paths of PEM files; an empty one is not set.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsSettings {
    pub certificate: PathBuf,
    pub key: PathBuf,
    pub client_ca: PathBuf,
    pub ca_file: PathBuf,
    pub client_certificate: PathBuf,
    pub client_key: PathBuf,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IngressSettings {
    pub max_in_flight: usize,
    pub max_queued: usize,
    pub max_connections: usize,
    pub max_connections_per_address: usize,
    pub max_streams_per_connection: u32,
    pub idle_timeout: DurationSetting,
    pub allowed_hosts: Vec<String>,
    pub drain: DurationSetting,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerSettings {
    pub batch: usize,
    pub action_slots: usize,
    pub node_slots: usize,
    pub lease: DurationSetting,
    pub lock_ttl: DurationSetting,
    pub reclaim_idle: DurationSetting,
    pub overdue: DurationSetting,
    pub drain: DurationSetting,
    pub poison_cap: i32,
    pub http_max_response: usize,
    pub secrets_dir: PathBuf,
    pub signal_ttl: DurationSetting,
    pub executors: Vec<String>,
    pub executor_silence: DurationSetting,
    pub listen: OptionalAddress,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutboundSettings {
    pub stream: String,
    pub stream_length: usize,
    pub redis_url: String,
    pub webhooks: Vec<String>,
    pub timeout: DurationSetting,
    pub types: Vec<String>,
    pub source: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetentionSettings {
    pub completed: DurationSetting,
    pub failed: DurationSetting,
    pub cancelled: DurationSetting,
    pub keys: DurationSetting,
}

/// A duration in the notation of definitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DurationSetting(pub Duration);

impl TryFrom<String> for DurationSetting {
    type Error = millstream_model::duration::InvalidDuration;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        millstream_model::duration::parse(&text).map(Self)
    }
}

impl From<DurationSetting> for String {
    fn from(span: DurationSetting) -> String {
        millstream_model::duration::format_duration(span.0)
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
pub struct NetworkList(pub Vec<IpNet>);

#[derive(Deserialize)]
#[serde(untagged)]
enum ListOrText {
    List(Vec<String>),
    Text(String),
}

impl TryFrom<ListOrText> for NetworkList {
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

impl From<NetworkList> for Vec<String> {
    fn from(networks: NetworkList) -> Self {
        networks.0.iter().map(ToString::to_string).collect()
    }
}

/// Settings from command-line flags: the last layer.
#[derive(Debug, Default, Serialize)]
pub struct ConfigFlags {
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
pub fn load_for_process(file: Option<&Path>, flags: &ConfigFlags) -> Result<Config> {
    let named = std::env::var_os(FILE).filter(|file| !file.is_empty()).map(PathBuf::from);
    let environment = std::env::vars().filter(|(name, _)| name.starts_with("MILLSTREAM_"));
    merge_layers(file.or(named.as_deref()), environment, flags)
}

/// Merges the layers.
pub fn merge_layers(
    file: Option<&Path>,
    environment: impl Iterator<Item = (String, String)>,
    flags: &ConfigFlags,
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
            let value = typed_value(&layers, &key, value);
            layers = layers.merge((key.as_str(), value));
        }
    }
    // Global profile, like the environment's values: the default profile would lose against them.
    layers.merge(Serialized::globals(flags)).extract().map_err(|error| anyhow::anyhow!("settings: {error}"))
}

/// `MILLSTREAM_WORKER__LEASE` → `worker.lease`; `None` for variables that are not settings.
fn setting_key(name: &str) -> Option<String> {
    if NOT_SETTINGS.contains(&name)
        || fault_injection::NAMES.contains(&name)
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
fn typed_value(layers: &Figment, key: &str, text: String) -> Value {
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

    fn config_with(env: &[(&str, &str)]) -> Result<Config> {
        merge_layers(
            None,
            env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())),
            &ConfigFlags::default(),
        )
    }

    #[test]
    fn the_built_in_file_is_complete() {
        let config = config_with(&[]).unwrap();
        assert_eq!(String::from(config.listen), "127.0.0.1:7400");
        assert_eq!(config.worker.lease.0, Duration::from_secs(15));
    }

    #[test]
    fn settings_layers_override_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("m.toml");
        std::fs::write(&file, "listen = \"127.0.0.1:1\"\n[worker]\nlease = \"3s\"\n").unwrap();
        let env = [("MILLSTREAM_LISTEN", "127.0.0.1:2"), ("MILLSTREAM_WORKER__ACTION_SLOTS", "7")];
        let env = || env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        let config = merge_layers(Some(&file), env(), &ConfigFlags::default()).unwrap();
        assert_eq!(
            (
                config.listen.0.map(|address| address.port()),
                config.worker.lease.0.as_secs(),
                config.worker.action_slots
            ),
            (Some(2), 3, 7)
        );
        let flags = ConfigFlags { listen: "127.0.0.1:3".parse().ok(), ..ConfigFlags::default() };
        assert_eq!(String::from(merge_layers(Some(&file), env(), &flags).unwrap().listen), "127.0.0.1:3");
    }

    #[test]
    fn unknown_setting_is_named() {
        let error = config_with(&[("MILLSTREAM_WORKER__LEESE", "1s")]).unwrap_err().to_string();
        assert!(error.contains("MILLSTREAM_WORKER__LEESE") && error.contains("worker.leese"), "{error}");
    }

    #[test]
    fn kubernetes_service_links_are_ignored() {
        for name in [
            "MILLSTREAM_SERVICE_HOST",
            "MILLSTREAM_PORT",
            "MILLSTREAM_INGRESS_SERVICE_PORT_HTTP",
            "MILLSTREAM_PORT_7400_TCP_ADDR",
        ] {
            assert!(config_with(&[(name, "tcp://10.0.0.1:7400")]).is_ok(), "{name}");
        }
        assert!(config_with(&[("MILLSTREAM_PORTS", "1")]).is_err());
    }

    #[test]
    fn invalid_setting_names_its_key() {
        let error = config_with(&[("MILLSTREAM_WORKER__LEASE", "soon")]).unwrap_err().to_string();
        assert!(error.contains("lease") && error.contains("soon"), "{error}");
    }

    #[test]
    fn networks_are_separated_by_commas() {
        let config = config_with(&[("MILLSTREAM_HTTP_ALLOW", "127.0.0.0/8, ::1/128")]).unwrap();
        assert_eq!(config.http_allow.0.len(), 2);
    }

    #[test]
    fn numeric_looking_text_stays_text() {
        assert_eq!(config_with(&[("MILLSTREAM_REDIS__PREFIX", "42")]).unwrap().redis.prefix, "42");
    }
}
