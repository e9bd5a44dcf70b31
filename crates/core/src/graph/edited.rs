//! `millstream.edit`: applies edits to a graph, with optimistic concurrency by revision.

use super::change::Patch;
use super::outcome::Followed;
use super::patch::{known, patch};
use super::payload::Edit;
use super::ripple::Ripple;
use super::state::Graph;
use crate::expr::Budget;
use crate::raw::RawJson;

const CONFLICT: &str = "revision conflict: ";

/// Whether an edit was rejected because of a revision conflict: the caller must re-read the graph and retry.
pub fn is_revision_conflict(reason: &str) -> bool {
    reason.starts_with(CONFLICT)
}

/// Decides an edit; `Err` is the reason of the rejection. It is applied as a whole or not at all.
pub(super) fn edit<'b>(
    graph: &Graph,
    payload: &RawJson,
    budget: &'b Budget<'b>,
) -> Result<Followed<'b>, String> {
    let edit: Edit = payload.decode().map_err(|error| format!("the edit cannot be read: {error}"))?;
    if edit.expected_revision != graph.revision {
        let (expected, is) = (edit.expected_revision, graph.revision);
        return Err(format!("{CONFLICT}the graph is at revision {is}, not {expected}"));
    }
    let patch = patch(graph, &edit.edits, budget).map_err(|problems| problems.to_string())?;
    let (patch, patched) = known(graph, patch, &edit.known);
    let mut ripple = Ripple::new(budget);
    ripple.look_at(&patched, patch.concerned());
    ripple.spread(&patched);
    ripple.fill_room(&patched);
    Ok(Followed { patched: Some((patch, patched)), ripple })
}

impl Patch {
    /// Nodes that the patch requires to be evaluated once more.
    pub(super) fn concerned(&self) -> impl Iterator<Item = &super::spec::NodeId> {
        self.inserted.iter().chain(self.updated.iter().map(|updated| &updated.is)).map(|spec| &spec.id)
    }
}
