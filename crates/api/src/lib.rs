//! The HTTP API as types: the body of every request and response, described once.
//!
//! The ingress serialises the responses, `millstream-sdk` deserialises them and re-exports the types, and the
//! schemas of `/openapi.json` are generated from them. A field exists in all three or in none.
//!
//! Refuses: reading requests field by field (that is the ingress, which reports all problems of a request at
//! once), and knowing the store.
//!
//! Compatibility: a client ignores unknown fields and reads an unknown word of a closed set as `Unknown`, so a
//! server may be newer than its clients. Structs gain fields in minor versions: match on them with `..`.
//!
//! - [`schema`]: how a document of schemas is generated
//! - [`scalar`]: schemas of ids, names, times, durations and of the parameters
//! - [`words`]: closed sets of words
//! - then one module per part of the API

pub mod actions;
pub mod definition_actions;
pub mod definition_language;
pub mod definitions;
pub mod devices;
pub mod events;
pub mod executions;
pub mod executors;
pub mod graph_nodes;
pub mod graph_spec;
pub mod graph_watch;
pub mod graph_words;
pub mod graphs;
pub mod history;
pub mod incidents;
pub mod item_import;
pub mod items;
pub mod keys;
pub mod new_run;
pub mod next_work;
pub mod page;
pub mod people;
pub mod problem;
pub mod queue_stats;
pub mod queues;
pub mod quotas;
pub mod reason;
pub mod run_acts;
pub mod run_assignments;
pub mod run_log;
pub mod run_settings;
pub mod runs;
pub mod scalar;
pub mod schema;
pub mod signals;
pub mod sse;
pub mod status;
pub mod tasks;
pub mod verdicts;
pub mod words;
pub mod work_assignments;
