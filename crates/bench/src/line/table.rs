//! Results of the line benchmark, as tables for a terminal.

use super::report::LineReport;
use crate::table::{format_millis, format_whole, new_table, table_cells};
use crate::usage::as_f64;

pub(crate) fn line_tables(report: &LineReport) -> Vec<String> {
    let mut table = new_table(&[
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
        table.add_row(table_cells(&[
            figure.asked.call.to_owned(),
            format!("{:.0}/s", figure.per_second),
            figure.given.to_string(),
            figure.nothing.to_string(),
            format_millis(seen.p50_ms),
            format_millis(seen.p90_ms),
            format_millis(seen.p99_ms),
            format_millis(seen.p999_ms),
            format_millis(seen.max_ms),
            format_millis(figure.send_delay_p50_ms),
        ]));
    }
    let line = format!(
        "{} items are in line: ten queues, twenty skills of which each item asks for three, two people for each, and one item in a hundred that a person may not have.",
        format_whole(as_f64(report.items))
    );
    vec![table.trim_fmt(), line]
}
