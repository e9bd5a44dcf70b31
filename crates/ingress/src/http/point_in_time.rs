//! The state of an execution at an earlier point, folded from the first transition on.
//!
//! Reads in pages and keeps one state: memory use does not grow with the history, run time does, so the hot
//! path does not use it.

use millstream_model::id::{ExecutionKey, Seq};
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::execution_store::PageRemainder;
use millstream_store::views::ExecutionViews;
use millstream_workflow::log::ExecutionState;
use millstream_workflow::machine::evolve;

const PAGE: usize = 500;

/// A point of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HistoryPoint {
    /// After this transition.
    Seq(Seq),
    /// At this time.
    Time(Timestamp),
}

/// The state at `point`; `None` before the first transition and beyond the last one.
pub(super) async fn state_at(
    views: &dyn ExecutionViews,
    execution: &ExecutionKey,
    point: HistoryPoint,
) -> StoreResult<Option<ExecutionState>> {
    let mut state: Option<ExecutionState> = None;
    loop {
        let after = state.as_ref().map_or(Seq(0), |state| state.seq);
        let page = views.read_history(execution, after, PAGE).await?;
        let last_page = page.more == PageRemainder::Nothing;
        for entry in page.entries {
            let transition = entry.transition;
            match point {
                HistoryPoint::Time(time) if transition.at > time => return Ok(state),
                HistoryPoint::Time(_) | HistoryPoint::Seq(_) => {}
            }
            let seq = transition.seq;
            state = Some(evolve(state, &transition));
            if point == HistoryPoint::Seq(seq) {
                return Ok(state);
            }
        }
        if last_page {
            return Ok(match point {
                HistoryPoint::Seq(_) => None,
                HistoryPoint::Time(_) => state,
            });
        }
    }
}
