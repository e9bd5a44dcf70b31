//! The sockets of an ingress, from the settings: one without TLS, one with TLS, or both.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result, bail};
use millstream_ingress::{IngressListeners, ServerTls, TlsFiles, TlsListener};
use tokio::net::TcpListener;

use crate::config::Config;

/// The address that decides whether calls need keys: a non-loopback address if there is one.
pub(crate) fn most_exposed_address(config: &Config) -> Result<SocketAddr> {
    let addresses = [config.listen.0, config.listen_tls.0];
    let mut addresses = addresses.into_iter().flatten();
    let Some(first) = addresses.next() else {
        bail!("the settings `listen` and `listen_tls` are both empty: set one of them");
    };
    Ok([first].into_iter().chain(addresses).find(|address| !address.ip().is_loopback()).unwrap_or(first))
}

/// Reads the TLS files and binds the sockets.
pub(crate) async fn bind_listeners(config: &Config) -> Result<IngressListeners> {
    let tls = match config.listen_tls.0 {
        None => None,
        Some(address) => {
            let tls = ServerTls::load_files(tls_files(config)?).context("TLS")?;
            Some(TlsListener { listener: bind_address(address).await?, tls })
        }
    };
    let plain = match config.listen.0 {
        None => None,
        Some(address) => Some(bind_address(address).await?),
    };
    if let Some(address) = config.listen.0.filter(|address| !address.ip().is_loopback()) {
        tracing::warn!(
            %address,
            "this listener has no TLS: API keys and payloads cross the network in clear text; set `listen_tls`, or let only a proxy with TLS reach it"
        );
    }
    Ok(IngressListeners { plain, tls })
}

async fn bind_address(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| {
        format!("cannot listen on {address}; another process may use it: choose another address with --listen or MILLSTREAM_LISTEN")
    })
}

fn tls_files(config: &Config) -> Result<TlsFiles> {
    let named = |path: &Path| (!path.as_os_str().is_empty()).then(|| path.to_owned());
    let required = |path: &Path, setting: &str| {
        named(path)
            .with_context(|| format!("`listen_tls` needs the setting `{setting}`, the path of a PEM file"))
    };
    Ok(TlsFiles {
        certificate: required(&config.tls.certificate, "tls.certificate")?,
        key: required(&config.tls.key, "tls.key")?,
        client_ca: named(&config.tls.client_ca),
    })
}

#[cfg(test)]
mod tests {
    use millstream_testkit::captured_log::CapturedLog;

    use crate::config::{ConfigFlags, merge_layers};

    use super::*;

    fn config_with(env: &[(&str, &str)]) -> Config {
        let env = env.iter().map(|(key, value)| (format!("MILLSTREAM_{key}"), (*value).to_owned()));
        merge_layers(None, env, &ConfigFlags::default()).unwrap()
    }

    #[test]
    fn most_exposed_listener_decides_about_keys() {
        let exposed = |env| most_exposed_address(&config_with(env)).map(|address| address.to_string()).ok();
        assert_eq!(exposed(&[]).as_deref(), Some("127.0.0.1:7400"));
        assert_eq!(exposed(&[("LISTEN_TLS", "0.0.0.0:7443")]).as_deref(), Some("0.0.0.0:7443"));
        let both = [("LISTEN", "10.0.0.1:80"), ("LISTEN_TLS", "127.0.0.1:443")];
        assert_eq!(exposed(&both).as_deref(), Some("10.0.0.1:80"));
        assert_eq!(exposed(&[("LISTEN", ""), ("LISTEN_TLS", "[::1]:443")]).as_deref(), Some("[::1]:443"));
        assert_eq!(exposed(&[("LISTEN", "")]), None);
    }

    #[tokio::test]
    async fn tls_listener_needs_its_files() {
        let lacking = [("LISTEN_TLS", "127.0.0.1:0")];
        let error = bind_listeners(&config_with(&lacking)).await.unwrap_err();
        assert!(format!("{error:#}").contains("tls.certificate"), "{error:#}");
        let lacking = [("LISTEN_TLS", "127.0.0.1:0"), ("TLS__CERTIFICATE", "x.crt")];
        let error = bind_listeners(&config_with(&lacking)).await.unwrap_err();
        assert!(format!("{error:#}").contains("tls.key"), "{error:#}");
        let unreadable =
            [("LISTEN_TLS", "127.0.0.1:0"), ("TLS__CERTIFICATE", "/no/x.crt"), ("TLS__KEY", "/no/x.key")];
        let error = bind_listeners(&config_with(&unreadable)).await.unwrap_err();
        assert!(format!("{error:#}").contains("/no/x.crt cannot be read"), "{error:#}");
    }

    #[tokio::test]
    async fn public_listener_without_tls_warns() {
        for (address, warned) in [("0.0.0.0:0", true), ("127.0.0.1:0", false)] {
            let log = CapturedLog::start_capture();
            bind_listeners(&config_with(&[("LISTEN", address)])).await.unwrap();
            assert_eq!(log.text().contains("this listener has no TLS"), warned, "{address}: {}", log.text());
        }
    }
}
