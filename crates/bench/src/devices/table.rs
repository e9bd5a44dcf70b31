//! Results of the device benchmark, as tables for a terminal.

use super::report::DevicesReport;
use crate::calls::calls_table;
use crate::cost::costs_table;
use crate::table::{format_millis, format_whole, new_table, table_cells};
use crate::usage::as_f64;

pub(crate) fn device_tables(report: &DevicesReport) -> Vec<String> {
    let run = &report.median;
    vec![
        speed_table(report),
        calls_table(&run.calls),
        costs_table("run", &[("create", &run.create_cost), ("drive", &run.drive_cost)]),
        format!(
            "Creations count from when they were due; they were sent {} ms (p50) and {} ms (p99) after that. {} devices were heard of meanwhile.",
            format_millis(run.send_delay.p50_ms),
            format_millis(run.send_delay.p99_ms),
            format_whole(as_f64(run.heartbeats))
        ),
    ]
}

fn speed_table(report: &DevicesReport) -> String {
    let mut table = new_table(&[
        "devices",
        "runs",
        "created/s",
        "p99 ms",
        "least…most",
        "driven/s",
        "least…most",
        "connections",
        "pushed back",
        "rounds",
    ]);
    let (run, create, driven) = (&report.median, &report.create_p99_ms, &report.runs_per_second);
    table.add_row(table_cells(&[
        format_whole(as_f64(report.devices)),
        format_whole(as_f64(run.created)),
        format_whole(report.per_second),
        format_millis(create.median),
        format!("{}…{}", format_millis(create.least), format_millis(create.most)),
        format_whole(driven.median),
        format!("{}…{}", format_whole(driven.least), format_whole(driven.most)),
        report.connections.to_string(),
        run.pushed_back.to_string(),
        report.runs.len().to_string(),
    ]));
    table.trim_fmt()
}
