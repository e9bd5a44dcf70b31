//! Work for people: the state machine of items and assignments, and the configuration of their queues.
//!
//! Pure, like `millstream_model`: times and ids are arguments. It knows neither definitions nor devices; an
//! execution that waits for an item is an [id](millstream_model::id::ActionKey).

pub mod assignment;
