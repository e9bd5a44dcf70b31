//! The effective quota of a tenant and its source, by precedence: the tenant's row, the tenant's settings,
//! the settings for all tenants, the built-in values.

use std::collections::BTreeMap;

use super::name::QuotaName;
use super::set::QuotaSet;
use super::value::QuotaValue;
use crate::id::TenantId;

/// The settings `[quota]` and `[tenants.NAME.quota]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QuotaSettings {
    pub every_tenant: QuotaSet,
    pub tenants: BTreeMap<TenantId, QuotaSet>,
}

/// The source of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QuotaSource {
    /// `PUT /v1/tenants/{tenant}/quota`.
    Row,
    /// `[tenants.NAME.quota]`.
    TenantSettings,
    /// `[quota]`.
    Settings,
    BuiltIn,
}

impl QuotaSource {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Row => "row",
            Self::TenantSettings => "tenant_settings",
            Self::Settings => "settings",
            Self::BuiltIn => "built_in",
        }
    }
}

/// A value with its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaSourced {
    pub value: QuotaValue,
    pub source: QuotaSource,
}

/// Every quota of one tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectiveQuota(Vec<QuotaSourced>);

impl EffectiveQuota {
    pub fn from_layers(tenant: &TenantId, row: Option<&QuotaSet>, settings: &QuotaSettings) -> Self {
        let own = settings.tenants.get(tenant);
        let layers = [
            (row, QuotaSource::Row),
            (own, QuotaSource::TenantSettings),
            (Some(&settings.every_tenant), QuotaSource::Settings),
        ];
        let sourced = |name: &QuotaName| {
            let given = layers.iter().find_map(|(set, source)| {
                set.and_then(|set| set.get(*name)).map(|value| QuotaSourced { value, source: *source })
            });
            given.unwrap_or(QuotaSourced { value: name.built_in(), source: QuotaSource::BuiltIn })
        };
        Self(QuotaName::ALL.iter().map(sourced).collect())
    }

    pub fn get(&self, name: QuotaName) -> QuotaSourced {
        let built_in = QuotaSourced { value: name.built_in(), source: QuotaSource::BuiltIn };
        self.0.get(name as usize).copied().unwrap_or(built_in)
    }

    pub fn value(&self, name: QuotaName) -> QuotaValue {
        self.get(name).value
    }

    /// In the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (QuotaName, QuotaSourced)> {
        QuotaName::ALL.iter().map(|name| (*name, self.get(*name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str) -> TenantId {
        TenantId::parse(name).unwrap()
    }

    #[test]
    fn quota_row_precedes_tenant_and_global_settings() {
        let at_most = |most| QuotaValue::AtMost(most);
        let every_tenant = QuotaSet::default()
            .with(QuotaName::Devices, at_most(1))
            .with(QuotaName::Executors, at_most(1))
            .with(QuotaName::Definitions, at_most(1));
        let own =
            QuotaSet::default().with(QuotaName::Devices, at_most(2)).with(QuotaName::Executors, at_most(2));
        let settings = QuotaSettings { every_tenant, tenants: BTreeMap::from([(tenant("acme"), own)]) };
        let row = QuotaSet::default().with(QuotaName::Devices, at_most(3));

        let quota = EffectiveQuota::from_layers(&tenant("acme"), Some(&row), &settings);
        let shown = |name| (quota.get(name).value, quota.get(name).source.as_str());
        assert_eq!(shown(QuotaName::Devices), (at_most(3), "row"));
        assert_eq!(shown(QuotaName::Executors), (at_most(2), "tenant_settings"));
        assert_eq!(shown(QuotaName::Definitions), (at_most(1), "settings"));
        assert_eq!(shown(QuotaName::Waits), (QuotaName::Waits.built_in(), "built_in"));

        let other = EffectiveQuota::from_layers(&tenant("other"), None, &settings);
        assert_eq!(other.get(QuotaName::Devices).source, QuotaSource::Settings);
        assert_eq!(other.iter().count(), QuotaName::ALL.len());
    }
}
