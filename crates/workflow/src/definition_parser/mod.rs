//! From the source text of a definition to a checked [`Definition`](crate::definition::Definition).
//!
//! A text is read in four passes, each of which reports all problems that it finds: [`millstream_model::document`]
//! turns YAML or JSON into one small tree (and stops hostile input), [`definition`](crate::definition) reads the
//! typed definition and resolves every name to its declaration, and the last pass compiles every expression, as
//! the [machine](crate::machine) does. Only a definition without problems leaves this module, so the machine
//! never sees an unresolved name.

mod expression_check;
mod parse;
#[cfg(test)]
mod tests;

pub use parse::parse;
