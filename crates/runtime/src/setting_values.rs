//! Values of settings with a notation of their own: durations, optional addresses, networks.

use std::net::SocketAddr;
use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

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
