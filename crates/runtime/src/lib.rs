//! From settings to running roles: shared by the `millstream` binary and a user's own worker.
//!
//! [`config`] merges the settings; [`backend`] opens the store and the doorbell that they name; [`devices`]
//! reads the settings of device runs; [`roles`] builds the options that a role receives. The roles as
//! processes: [`ingress`] and [`worker`] of a fleet, and [`engine`], which is both in one process. Around
//! them: [`threads`], [`telemetry`], [`signals`], [`probe`], [`directory`], [`secrets`], [`redis_check`], [`entropy`],
//! [`executors`], [`outbound`] and, for tests, [`fault_injection`].
//!
//! The only crate that names backends and reads the environment. Refuses: parsing the command line, printing,
//! and deciding when the process ends.

pub mod backend;
mod clear_text;
pub mod config;
pub mod devices;
pub mod directory;
pub mod engine;
pub mod entropy;
mod executors;
pub mod fault_injection;
pub mod ingress;
mod listeners;
mod outbound;
pub mod pem_files;
pub mod probe;
pub mod quotas;
pub mod redis_check;
pub mod roles;
pub mod secrets;
mod setting_values;
pub mod signals;
pub mod telemetry;
pub mod threads;
pub mod worker;
