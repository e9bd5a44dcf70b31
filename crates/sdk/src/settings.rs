//! A client of the server that the settings name.

use millstream_runtime::config::{self, Flags};

use crate::client::{Client, ClientError};

impl Client {
    /// A client of the server that the settings of this process name: `MILLSTREAM_URL`, `MILLSTREAM_KEY`, or a file.
    /// With nothing set that is `http://127.0.0.1:7400`, without a key.
    pub fn from_settings() -> Result<Self, ClientError> {
        let config = config::of_process(None, &Flags::default())
            .map_err(|error| ClientError::Unsendable(format!("{error:#}")))?;
        Self::builder(config.url).key(config.key).build()
    }
}
