//! Work for devices: the state machine of runs, and the election that ranks devices.
//!
//! Pure, like `millstream_model`: rosters, times and random numbers are arguments. It knows neither definitions nor
//! people; an execution that waits for a run is an [id](millstream_model::id::ActionKey).

pub mod claim;
pub mod election;
