//! Results of the line benchmark, as tables for a terminal.

use super::report::LineReport;
use crate::table::{cells, millis, table, whole};
use crate::usage::as_f64;

pub(crate) fn tables(report: &LineReport) -> Vec<String> {
    let mut table = table(&[
        "call",
        "rate",
        "given",
        "nothing",
        "p50 ms",
        "p90 ms",
        "p99 ms",
        "p99.9 ms",
        "max ms",
        "of it sent late",
    ]);
    for figure in &report.figures {
        let seen = &figure.asked.latency;
        table.add_row(cells(&[
            figure.asked.call.to_owned(),
            format!("{:.0}/s", figure.per_second),
            figure.given.to_string(),
            figure.nothing.to_string(),
            millis(seen.p50_ms),
            millis(seen.p90_ms),
            millis(seen.p99_ms),
            millis(seen.p999_ms),
            millis(seen.max_ms),
            millis(figure.send_delay_p50_ms),
        ]));
    }
    let line = format!(
        "{} items are in line: ten queues, twenty skills of which each item asks for three, two people for each, and one item in a hundred that a person may not have.",
        whole(as_f64(report.items))
    );
    vec![table.trim_fmt(), line]
}
