//! What the client and the service of this peer share.

pub mod clock;
