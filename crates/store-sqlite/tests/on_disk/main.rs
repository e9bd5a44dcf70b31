//! What only a file can show: that it survives, who may hold it, and what is written in it. The
//! contract itself is the business of the conformance suite.

mod damage;
mod desk;
mod fidelity;
mod survival;
mod writers;
