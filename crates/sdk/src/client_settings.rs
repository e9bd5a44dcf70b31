//! A client for the server in the settings.

use millstream_runtime::config::{self, ConfigFlags};
use millstream_runtime::pem_files::ClientTls;

use crate::client::{Client, ClientError};

impl Client {
    /// A client for the server in the settings of this process: `MILLSTREAM_URL`, `MILLSTREAM_KEY`, or a
    /// file. `tls.ca_file` and `tls.client_certificate` are used as by the client commands. Without settings
    /// that is `http://127.0.0.1:7400`, without a key.
    pub fn from_settings() -> Result<Self, ClientError> {
        let config = config::load_for_process(None, &ConfigFlags::default())
            .map_err(|error| ClientError::Unsendable(format!("{error:#}")))?;
        let tls = ClientTls::read(&config).map_err(|error| ClientError::Unsendable(format!("{error:#}")))?;
        let mut builder = Self::builder(config.url).key(config.key);
        if let Some(ca) = tls.ca {
            builder = builder.ca_certificates(ca);
        }
        if let Some((certificate, key)) = tls.identity {
            builder = builder.client_certificate(&certificate, &key);
        }
        builder.build()
    }
}
