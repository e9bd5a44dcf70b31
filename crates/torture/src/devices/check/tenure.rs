//! Holders of a seat over time, according to a log.

use millstream_devices::claim::{RunInputKind, RunLogEntry, SeatLossReason, SeatStatus};

/// One assignment of one seat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SeatTenure {
    pub(super) seat: u16,
    pub(super) device: String,
    pub(super) token: i64,
    pub(super) from: i64,
    /// Time, cause and manner of its end; `None` while it lasts.
    pub(super) end: Option<TenureEnd>,
    /// Inputs under it, in order.
    pub(super) words: Vec<RunInputKind>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TenureEnd {
    pub(super) at: i64,
    pub(super) word: RunInputKind,
    /// `None` where the work ended with it.
    pub(super) how: Option<SeatLossReason>,
}

/// All tenures of a run in log order, and contradictions in the log.
pub(super) fn seat_tenures(log: &[RunLogEntry]) -> (Vec<SeatTenure>, Vec<String>) {
    let (mut all, mut wrong): (Vec<SeatTenure>, Vec<String>) = (Vec::new(), Vec::new());
    for entry in log {
        let Some(seat) = entry.seat else { continue };
        let at = entry.at.as_millis();
        let open = all.iter().position(|one| one.seat == seat && one.end.is_none());
        let holds = is_with_somebody(entry.to);
        let named = entry.device.as_ref().zip(entry.token);
        match (open, holds, named) {
            (Some(open), true, Some((device, token))) => {
                let one = &mut all[open];
                if (one.device.as_str(), one.token) == (device.as_str(), token.0) {
                    one.words.push(entry.word);
                } else {
                    wrong.push(format!(
                        "seat {seat}: {device} gets token {token} while {} has token {}",
                        one.device, one.token
                    ));
                }
            }
            (None, true, Some((device, token))) => {
                if let Some(most) = all.iter().map(|one| one.token).max().filter(|most| *most >= token.0) {
                    wrong.push(format!("seat {seat}: token {token} is given out after token {most}"));
                }
                if let Some(other) = all.iter().find(|one| one.end.is_none() && one.device == device.as_str())
                {
                    wrong.push(format!("{device} gets seat {seat} and has seat {}", other.seat));
                }
                let device = device.as_str().to_owned();
                let words = vec![entry.word];
                all.push(SeatTenure { seat, device, token: token.0, from: at, end: None, words });
            }
            (Some(open), false, _) => {
                let one = &mut all[open];
                one.words.push(entry.word);
                one.end = Some(TenureEnd { at, word: entry.word, how: entry.ended });
            }
            (None, true, None) => wrong.push(format!("seat {seat}: {} without a holder", entry.to)),
            (Some(_), true, None) | (None, false, _) => {}
        }
    }
    (all, wrong)
}

/// Whether the seat has a holder, or gets one within the same write.
fn is_with_somebody(status: SeatStatus) -> bool {
    status.is_held() || matches!(status, SeatStatus::AssigningToSelf | SeatStatus::AssigningToOther)
}
