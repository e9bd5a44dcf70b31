//! Draws the transition table as a diagram and as a list for `docs/STATE-MACHINES.md`.

use std::fmt::Write as _;

use super::input_kind::RunInputKind;
use super::status::SeatStatus;
use super::table::{MOVES, SeatTransition, SeatTransitionKind};

/// A Mermaid state diagram. Inputs that keep the status (heartbeats, pauses, repetitions) are left out.
pub fn draw_run_diagram() -> String {
    let mut drawn = String::from("stateDiagram-v2\n    [*] --> created: create\n");
    for from in SeatStatus::ALL {
        for to in SeatStatus::ALL {
            let words: Vec<&str> = MOVES
                .iter()
                .filter(|way| way.from == *from && way.to == *to && way.from != way.to)
                .map(|way| way.on.as_str())
                .collect();
            if !words.is_empty() {
                let _ = writeln!(drawn, "    {from} --> {to}: {}", words.join(", "));
            }
        }
    }
    for end in SeatStatus::ALL.iter().filter(|status| status.is_ended()) {
        let _ = writeln!(drawn, "    {end} --> [*]");
    }
    drawn
}

/// A Markdown table of all legal inputs: one line per status and input, with the statuses that follow.
pub fn list_transitions() -> String {
    let mut listed = String::from("| in | on | leads to |\n|---|---|---|\n");
    for from in SeatStatus::ALL {
        for on in RunInputKind::ALL {
            let ways: Vec<&SeatTransition> =
                MOVES.iter().filter(|way| way.from == *from && way.on == *on).collect();
            let Some(first) = ways.first() else { continue };
            let to: Vec<String> = ways.iter().map(|way| format!("`{}`", way.to)).collect();
            let note = match first.kind {
                SeatTransitionKind::Asked => "",
                SeatTransitionKind::Follows => " (follows, in the same commit)",
                SeatTransitionKind::Repeat => " (repeated: answered, nothing changes)",
            };
            let _ = writeln!(listed, "| `{from}` | `{on}` | {}{note} |", to.join(" or "));
        }
    }
    listed
}
