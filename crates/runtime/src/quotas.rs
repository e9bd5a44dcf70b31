//! Quota settings: `[quota]` for every tenant, `[tenants.NAME]` for one.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use millstream_model::fair::{MAX_WEIGHT, TenantWeights};
use millstream_model::id::TenantId;
use millstream_model::quota::{QuotaName, QuotaSet, QuotaSettings, QuotaValue};
use serde::{Deserialize, Serialize};

/// Quota values by name.
pub type QuotaTable = BTreeMap<String, QuotaEntry>;

/// A quota value as written in the settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum QuotaEntry {
    Number(u64),
    Text(String),
}

/// Settings of one tenant.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TenantSettings {
    /// Its share of the workers while other tenants wait too, relative to their weights; 1 unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    pub quota: QuotaTable,
}

/// Fails with all invalid values, each with its key.
pub fn quota_settings(
    every_tenant: &QuotaTable,
    tenants: &BTreeMap<String, TenantSettings>,
) -> Result<QuotaSettings> {
    let mut wrong = Vec::new();
    let every_tenant = quota_set("quota", every_tenant, &mut wrong);
    let mut of_tenants = BTreeMap::new();
    for (name, settings) in tenants {
        match TenantId::parse(name) {
            Ok(tenant) => {
                let path = format!("tenants.{name}.quota");
                of_tenants.insert(tenant, quota_set(&path, &settings.quota, &mut wrong));
            }
            Err(error) => wrong.push(format!("tenants.{name}: invalid tenant name: {error}")),
        }
    }
    if !wrong.is_empty() {
        bail!("settings: {}", wrong.join("; "));
    }
    Ok(QuotaSettings { every_tenant, tenants: of_tenants })
}

/// Weights of the tenants for fair scheduling at the workers. Names are checked by [`quota_settings`].
pub fn tenant_weights(tenants: &BTreeMap<String, TenantSettings>) -> Result<TenantWeights> {
    let mut weights = TenantWeights::default();
    for (name, settings) in tenants {
        let Some(weight) = settings.weight else { continue };
        if !(1..=MAX_WEIGHT).contains(&weight) {
            bail!("settings: tenants.{name}.weight: {weight} is not between 1 and {MAX_WEIGHT}");
        }
        weights.set_weight(TenantId::parse(name)?, weight);
    }
    Ok(weights)
}

fn quota_set(path: &str, table: &QuotaTable, wrong: &mut Vec<String>) -> QuotaSet {
    let mut set = QuotaSet::default();
    for (word, entry) in table {
        let read = QuotaName::parse_or_suggest(word).and_then(|name| {
            let value = match entry {
                QuotaEntry::Number(number) => QuotaValue::of_number(name, *number)?,
                QuotaEntry::Text(text) => QuotaValue::of_text(name, text)?,
            };
            Ok((name, value))
        });
        match read {
            Ok((name, value)) => set = set.with(name, value),
            Err(message) => wrong.push(format!("{path}.{word}: {message}")),
        }
    }
    set
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, ConfigFlags, merge_layers};

    fn config_from(text: &str) -> Result<Config> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("m.toml");
        std::fs::write(&file, text).unwrap();
        merge_layers(Some(&file), std::iter::empty(), &ConfigFlags::default())
    }

    fn quotas_with(text: &str) -> Result<QuotaSettings> {
        let config = config_from(text)?;
        quota_settings(&config.quota, &config.tenants)
    }

    #[test]
    fn tenant_weight_defaults_to_one() {
        let weights = tenant_weights(&config_from("[tenants.acme]\nweight = 3\n").unwrap().tenants).unwrap();
        let of = |name: &str| weights.weight_of(&TenantId::parse(name).unwrap());
        assert_eq!((of("acme"), of("other")), (3, 1));
        for weight in ["0", "1001"] {
            let error = tenant_weights(
                &config_from(&format!("[tenants.acme]\nweight = {weight}\n")).unwrap().tenants,
            )
            .unwrap_err();
            assert!(error.to_string().contains("tenants.acme.weight"), "{error}");
        }
    }

    #[test]
    fn quota_settings_are_read() {
        let settings = quotas_with(
            "[quota]\ndevices = 5\nwaits = \"1/2\"\n[tenants.acme.quota]\ndevices = \"unlimited\"\nimport_duration = \"5m\"\n",
        )
        .unwrap();
        assert_eq!(settings.every_tenant.get(QuotaName::Devices), Some(QuotaValue::AtMost(5)));
        assert_eq!(settings.every_tenant.get(QuotaName::Waits), Some(QuotaValue::Share { parts: 1, of: 2 }));
        let acme = &settings.tenants[&TenantId::parse("acme").unwrap()];
        assert_eq!(acme.get(QuotaName::Devices), Some(QuotaValue::Unlimited));
        assert_eq!(acme.get(QuotaName::ImportDuration), Some(QuotaValue::AtMost(300_000)));
        assert_eq!(quotas_with("").unwrap(), QuotaSettings::default());
    }

    #[test]
    fn misspelt_quota_names_its_section() {
        let error = quotas_with("[quota]\ndevice = 5\n[tenants.acme.quota]\nwaits = \"5/4\"\n").unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("quota.device: there is no quota \"device\" (did you mean \"devices\"?)"),
            "{error}"
        );
        assert!(error.contains("tenants.acme.quota.waits: \"5/4\" is not a share of a process"), "{error}");
        assert!(quotas_with("[tenants.Acme.quota]\n").is_err());
    }
}
