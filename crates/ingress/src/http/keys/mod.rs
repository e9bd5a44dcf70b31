//! API keys over HTTP. Reading order: `read` (the list, and how a key is shown), `issue` (create and rotate, which
//! show a secret once), `revoke`.

pub(super) mod issue;
pub(super) mod read;
pub(super) mod revoke;
