//! Queues of people's work over HTTP: configuration, import and statistics.

mod body_lines;
mod config_view;
pub(super) mod configure;
pub(super) mod import;
pub(super) mod item_fields;
pub(super) mod stats;
