//! Results of the fairness benchmark, as tables for a terminal.

use super::report::FairnessReport;
use crate::table::{cells, millis, table, whole};
use crate::usage::as_f64;

pub(crate) fn tables(report: &FairnessReport) -> Vec<String> {
    let mut table = table(&[
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
        table.add_row(cells(&[
            case.kind.name().to_owned(),
            case.lane.name().to_owned(),
            case.beside.count.to_string(),
            millis(case.idle.p50_ms),
            millis(case.idle.p99_ms),
            millis(case.beside.p50_ms),
            millis(case.beside.p99_ms),
            millis(case.beside.max_ms),
            millis(case.added_ms()),
            whole(case.alone_per_second),
            whole(case.together_per_second),
            format!("{:+.1} %", case.change() * 100.0),
        ]));
    }
    let text = format!(
        "A tenant has {} events waiting, or as many HTTP actions; four clients of another send one event after the other and wait for each to be completed.",
        whole(as_f64(report.backlog))
    );
    vec![table.trim_fmt(), text]
}
