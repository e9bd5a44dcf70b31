//! A deterministic simulation of the protocol between ingress, store, stream and workers.
//!
//! One seed is one run: real ingresses and real workers on the in-memory store and an in-process stream,
//! in one thread, on virtual time. Every call of a role to the outside is shown to a seeded schedule
//! first, which delays it, refuses it, carries it out and loses the answer, holds it, or kills the role on
//! the spot. After a while the faults stop; when everything is quiet the whole history is checked.
//!
//! Reading order: [`dice`], [`plan`] and [`tenants`] (what a seed means), [`world`] and [`role`] (how a call meets its
//! fate), [`bus`], [`stores`], [`streams`], [`sink`] and [`executor`] (the outside), [`process`], [`workload`], [`graph_load`],
//! [`wire`], [`client`], [`external_worker`] and [`person`] (who acts), [`run`] (one seed), [`history`] and [`check`] (pure: what must hold), [`fleet`]
//! (many seeds).
//!
//! Refuses: sockets, files, threads within a run, wall clocks, and any randomness that is not the seed's.

mod bus;
pub mod check;
mod client;
mod collect;
mod devices;
mod dice;
mod executor;
mod external_worker;
pub mod fleet;
mod graph_load;
mod graphs;
mod guard;
pub mod history;
mod notices;
mod person;
mod plan;
mod process;
mod queues;
mod role;
pub mod run;
mod sink;
mod stores;
mod streams;
pub mod tally;
mod tenants;
pub mod trace;
mod views;
mod wire;
mod work;
mod workload;
mod world;
