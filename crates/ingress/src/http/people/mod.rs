//! People over HTTP: what is known of them.

pub(super) mod roster;
