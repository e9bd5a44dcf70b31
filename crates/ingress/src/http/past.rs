//! The state of an execution at an earlier point, folded from the first transition on.
//!
//! Reads in pages and keeps one state: memory use does not grow with the history, run time does, so the hot
//! path does not use it.

use millstream_core::id::{ExecutionKey, Seq};
use millstream_core::log::State;
use millstream_core::machine::evolve;
use millstream_core::time::Timestamp;
use millstream_store::Result;
use millstream_store::execution_store::More;
use millstream_store::views::ExecutionViews;

const PAGE: usize = 500;

/// A point of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Point {
    /// After this transition.
    Seq(Seq),
    /// At this time.
    Time(Timestamp),
}

/// The state at `point`; `None` before the first transition and beyond the last one.
pub(super) async fn state_at(
    views: &dyn ExecutionViews,
    execution: &ExecutionKey,
    point: Point,
) -> Result<Option<State>> {
    let mut state: Option<State> = None;
    loop {
        let after = state.as_ref().map_or(Seq(0), |state| state.seq);
        let page = views.history(execution, after, PAGE).await?;
        let last_page = page.more == More::Nothing;
        for entry in page.entries {
            let transition = entry.transition;
            match point {
                Point::Time(time) if transition.at > time => return Ok(state),
                Point::Time(_) | Point::Seq(_) => {}
            }
            let seq = transition.seq;
            state = Some(evolve(state, &transition));
            if point == Point::Seq(seq) {
                return Ok(state);
            }
        }
        if last_page {
            return Ok(match point {
                Point::Seq(_) => None,
                Point::Time(_) => state,
            });
        }
    }
}
