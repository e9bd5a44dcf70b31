//! What decides.
