//! Secrets for actions: from a directory of files, or from the environment of the worker.
//!
//! A file is `DIR/TENANT/NAME`, or `DIR/NAME` for the tenant `default`; one newline at its end is not part
//! of the secret. In the environment it is `MILLSTREAM_SECRET_NAME` for the tenant `default` and
//! `MILLSTREAM_SECRET_TENANT__NAME` for others, in capitals, with `_` for what is neither letter nor digit in the name. A
//! name that would have `__` in it there, or `_` at its end, can only be a file.
//!
//! A tenant has variables only if its name is spelled the same there, capitals aside: `a-b` and `a.b` would read those
//! of `a_b`, and `Acme` those of `acme`. Their secrets are files, whose names are exact.
//! The file takes precedence. Both are read for each attempt: a change applies to the next attempt.

use std::collections::BTreeMap;
use std::path::PathBuf;

use millstream_model::id::{Name, TenantId};
use millstream_worker::SecretSource;

/// Prefix of the variables with secrets.
pub(crate) const PREFIX: &str = "MILLSTREAM_SECRET_";

#[derive(Clone)]
pub struct SecretSources {
    directory: Option<PathBuf>,
    environment: BTreeMap<String, String>,
}

impl SecretSources {
    /// Reads files of a directory, and variables of this process.
    pub fn of_process(directory: Option<PathBuf>) -> Self {
        Self::of(directory, std::env::vars())
    }

    pub fn of(directory: Option<PathBuf>, variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let environment = variables.into_iter().filter(|(name, _)| name.starts_with(PREFIX)).collect();
        Self { directory, environment }
    }
}

/// Shows names only.
impl std::fmt::Debug for SecretSources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SecretSources")
            .field("directory", &self.directory)
            .field("environment", &self.environment.keys())
            .finish()
    }
}

#[async_trait::async_trait]
impl SecretSource for SecretSources {
    async fn get(&self, tenant: &TenantId, name: &Name) -> Option<String> {
        let is_default = *tenant == TenantId::default_tenant();
        if let Some(directory) = &self.directory {
            let own = directory.join(tenant.as_str()).join(name.as_str());
            let shared = is_default.then(|| directory.join(name.as_str()));
            for path in [Some(own), shared].into_iter().flatten() {
                if let Ok(text) = tokio::fs::read_to_string(&path).await {
                    let text = text.strip_suffix('\n').unwrap_or(&text);
                    return Some(text.strip_suffix('\r').unwrap_or(text).to_owned());
                }
            }
        }
        let name = variable_name(name.as_str())?;
        if is_default {
            return self.environment.get(&format!("{PREFIX}{name}")).cloned();
        }
        let variable = format!("{PREFIX}{}__{name}", variable_name(tenant.as_str())?);
        let found = self.environment.get(&variable)?;
        if !has_own_variables(tenant.as_str()) {
            tracing::warn!(
                %tenant,
                variable,
                "secret in the environment ignored: the names of several tenants map to the same variable; put it \
                 into a file of worker.secrets_dir"
            );
            return None;
        }
        Some(found.clone())
    }
}

/// Whether the tenant is the only one that maps to its variables.
fn has_own_variables(tenant: &str) -> bool {
    tenant.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// The variable of a name; none where it would read as a tenant and a name: no tenant may address another's
/// variable.
fn variable_name(name: &str) -> Option<String> {
    let shout = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    let shouted: String = name.chars().map(shout).collect();
    (!shouted.contains("__") && !shouted.ends_with('_')).then_some(shouted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret_name(text: &str) -> Name {
        Name::parse(text).unwrap()
    }

    fn sample_variables() -> Vec<(String, String)> {
        [("MILLSTREAM_SECRET_API_KEY", "env"), ("MILLSTREAM_SECRET_ACME__API_KEY", "acme's"), ("PATH", "/")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into()
    }

    #[tokio::test]
    async fn secret_file_precedes_variable() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("api-key");
        let sources = SecretSources::of(Some(directory.path().to_owned()), sample_variables());
        let tenant = TenantId::default_tenant();
        assert_eq!(sources.get(&tenant, &secret_name("api-key")).await.as_deref(), Some("env"));
        std::fs::write(&path, "file\n").unwrap();
        assert_eq!(sources.get(&tenant, &secret_name("api-key")).await.as_deref(), Some("file"));
        std::fs::write(&path, "changed\n\n").unwrap();
        assert_eq!(sources.get(&tenant, &secret_name("api-key")).await.as_deref(), Some("changed\n"));
    }

    #[tokio::test]
    async fn tenant_reads_only_its_secrets() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("shared"), "default's").unwrap();
        let sources = SecretSources::of(Some(directory.path().to_owned()), sample_variables());
        let acme = TenantId::parse("acme").unwrap();
        assert_eq!(sources.get(&acme, &secret_name("api-key")).await.as_deref(), Some("acme's"));
        assert_eq!(sources.get(&acme, &secret_name("shared")).await, None);
        assert_eq!(sources.get(&TenantId::parse("other").unwrap(), &secret_name("api-key")).await, None);
        for spelled in ["acme__api-key", "acme-_api-key", "acme..api-key"] {
            assert_eq!(
                sources.get(&TenantId::default_tenant(), &secret_name(spelled)).await,
                None,
                "{spelled}"
            );
        }
    }

    #[tokio::test]
    async fn similar_tenant_names_share_no_variables() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("a-b")).unwrap();
        std::fs::write(directory.path().join("a-b/file"), "a-b's").unwrap();
        let variables = [("MILLSTREAM_SECRET_A_B__KEY", "a_b's"), ("MILLSTREAM_SECRET_ACME__KEY", "acme's")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()));
        let sources = SecretSources::of(Some(directory.path().to_owned()), variables);
        let get = async |tenant: &str, secret: &str| {
            sources.get(&TenantId::parse(tenant).unwrap(), &secret_name(secret)).await
        };
        assert_eq!(get("a_b", "key").await.as_deref(), Some("a_b's"));
        assert_eq!(get("acme", "key").await.as_deref(), Some("acme's"));
        for other in ["a-b", "a.b"] {
            assert_eq!(get(other, "key").await, None, "{other}");
        }
        assert_eq!(get("a-b", "file").await.as_deref(), Some("a-b's"));
    }

    #[test]
    fn values_are_not_shown() {
        let shown = format!("{:?}", SecretSources::of(None, sample_variables()));
        assert!(shown.contains("API_KEY") && !shown.contains("acme's"), "{shown}");
    }
}
