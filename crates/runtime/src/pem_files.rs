//! PEM files that the settings name, read at the start: CAs to trust, and certificates to present.

use std::path::Path;

use anyhow::{Context, Result, bail};
use millstream_stream::redis::RedisTls;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::config::Config;

/// TLS material of a client of an ingress, as PEM: trusted CAs and its own certificate.
#[derive(Clone, Default)]
pub struct ClientTls {
    /// CAs trusted in addition to the public ones.
    pub ca: Option<Vec<u8>>,
    /// A certificate and its key.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
}

/// Omits the key.
impl std::fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientTls").finish_non_exhaustive()
    }
}

impl ClientTls {
    /// Fails when a file cannot be read.
    pub fn read(config: &Config) -> Result<Self> {
        let tls = &config.tls;
        Ok(Self {
            ca: read_named("tls.ca_file", &tls.ca_file)?,
            identity: read_pair(
                ("tls.client_certificate", &tls.client_certificate),
                ("tls.client_key", &tls.client_key),
            )?,
        })
    }
}

/// The CAs of `tls.ca_file`.
pub(crate) fn private_roots(config: &Config) -> Result<Vec<CertificateDer<'static>>> {
    let Some(pem) = read_named("tls.ca_file", &config.tls.ca_file)? else { return Ok(Vec::new()) };
    let roots: Vec<_> = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .with_context(|| format!("tls.ca_file: {}", config.tls.ca_file.display()))?;
    if roots.is_empty() {
        bail!("tls.ca_file: {} holds no certificate in PEM form", config.tls.ca_file.display());
    }
    Ok(roots)
}

/// What `[redis]` says about connections to `url`.
pub(crate) fn redis_tls(config: &Config, url: &str) -> Result<Option<RedisTls>> {
    let redis = &config.redis;
    let ca = read_named("redis.ca_file", &redis.ca_file)?;
    let identity = read_pair(
        ("redis.client_certificate", &redis.client_certificate),
        ("redis.client_key", &redis.client_key),
    )?;
    if ca.is_none() && identity.is_none() {
        return Ok(None);
    }
    if !url.starts_with("rediss://") {
        bail!(
            "redis.ca_file and redis.client_certificate are for rediss:// addresses, and this one has no TLS"
        );
    }
    Ok(Some(RedisTls { ca, identity }))
}

/// A setting and the file that it names.
type NamedFile<'a> = (&'static str, &'a Path);

fn read_pair(certificate: NamedFile<'_>, key: NamedFile<'_>) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
    match (read_named(certificate.0, certificate.1)?, read_named(key.0, key.1)?) {
        (Some(certificate), Some(key)) => Ok(Some((certificate, key))),
        (None, None) => Ok(None),
        (Some(_), None) | (None, Some(_)) => bail!("{} and {} must be set together", certificate.0, key.0),
    }
}

/// The contents of a file, unless the setting is empty.
fn read_named(setting: &str, path: &Path) -> Result<Option<Vec<u8>>> {
    if path.as_os_str().is_empty() {
        return Ok(None);
    }
    let contents =
        std::fs::read(path).with_context(|| format!("{setting}: cannot read {}", path.display()))?;
    Ok(Some(contents))
}

#[cfg(test)]
mod tests {
    use crate::config::{ConfigFlags, merge_layers};

    use super::*;

    fn config_with(env: &[(&str, &str)]) -> Config {
        let env = env.iter().map(|(key, value)| (format!("MILLSTREAM_{key}"), (*value).to_owned()));
        merge_layers(None, env, &ConfigFlags::default()).unwrap()
    }

    #[test]
    fn unreadable_pem_file_is_named() {
        assert!(private_roots(&config_with(&[])).unwrap().is_empty());
        assert!(redis_tls(&config_with(&[]), "redis://h").unwrap().is_none());
        let error = private_roots(&config_with(&[("TLS__CA_FILE", "/no/ca.crt")])).unwrap_err();
        assert!(format!("{error:#}").contains("tls.ca_file: cannot read /no/ca.crt"), "{error:#}");
        let error = redis_tls(&config_with(&[("REDIS__CA_FILE", "/no/ca.crt")]), "rediss://h").unwrap_err();
        assert!(format!("{error:#}").contains("redis.ca_file: cannot read /no/ca.crt"), "{error:#}");
    }

    #[test]
    fn ineffective_pem_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("x.pem");
        std::fs::write(&file, "nothing").unwrap();
        let file = file.to_str().unwrap();
        let error = private_roots(&config_with(&[("TLS__CA_FILE", file)])).unwrap_err().to_string();
        assert!(error.contains("holds no certificate"), "{error}");
        let error =
            redis_tls(&config_with(&[("REDIS__CA_FILE", file)]), "redis://h").unwrap_err().to_string();
        assert!(error.contains("rediss://"), "{error}");
        let error =
            ClientTls::read(&config_with(&[("TLS__CLIENT_CERTIFICATE", file)])).unwrap_err().to_string();
        assert!(error.contains("tls.client_key"), "{error}");
    }
}
