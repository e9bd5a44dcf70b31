//! Results of the fairness benchmark, as tables for a terminal.

use super::report::FairnessReport;
use crate::table::{format_millis, format_whole, new_table, table_cells};
use crate::usage::as_f64;

pub(crate) fn fairness_tables(report: &FairnessReport) -> Vec<String> {
    let mut table = new_table(&[
        "backlog",
        "lane",
        "events sent",
        "idle p50 ms",
        "idle p99 ms",
        "beside p50 ms",
        "beside p99 ms",
        "max ms",
        "added at p99",
        "alone/s",
        "together/s",
        "change",
    ]);
    for case in &report.cases {
        table.add_row(table_cells(&[
            case.kind.name().to_owned(),
            case.lane.name().to_owned(),
            case.beside.count.to_string(),
            format_millis(case.idle.p50_ms),
            format_millis(case.idle.p99_ms),
            format_millis(case.beside.p50_ms),
            format_millis(case.beside.p99_ms),
            format_millis(case.beside.max_ms),
            format_millis(case.added_ms()),
            format_whole(case.alone_per_second),
            format_whole(case.together_per_second),
            format!("{:+.1} %", case.throughput_change() * 100.0),
        ]));
    }
    let text = format!(
        "A tenant has {} events waiting, or as many HTTP actions; four clients of another send one event after the other and wait for each to be completed.",
        format_whole(as_f64(report.backlog))
    );
    vec![table.trim_fmt(), text]
}
