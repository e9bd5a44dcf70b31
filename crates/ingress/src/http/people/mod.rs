//! People over HTTP: their skills and whether they get assignments.

pub(super) mod roster;
