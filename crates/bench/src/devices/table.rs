//! Results of the device benchmark, as tables for a terminal.

use super::report::DevicesReport;
use crate::calls::calls;
use crate::cost::costs;
use crate::table::{cells, millis, table, whole};
use crate::usage::as_f64;

pub(crate) fn tables(report: &DevicesReport) -> Vec<String> {
    let run = &report.median;
    vec![
        speed(report),
        calls(&run.calls),
        costs("run", &[("create", &run.create_cost), ("drive", &run.drive_cost)]),
        format!(
            "Creations count from when they were due; they were sent {} ms (p50) and {} ms (p99) after that. {} devices were heard of meanwhile.",
            millis(run.send_delay.p50_ms),
            millis(run.send_delay.p99_ms),
            whole(as_f64(run.heartbeats))
        ),
    ]
}

fn speed(report: &DevicesReport) -> String {
    let mut table = table(&[
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
    table.add_row(cells(&[
        whole(as_f64(report.devices)),
        whole(as_f64(run.created)),
        whole(report.per_second),
        millis(create.median),
        format!("{}…{}", millis(create.least), millis(create.most)),
        whole(driven.median),
        format!("{}…{}", whole(driven.least), whole(driven.most)),
        report.connections.to_string(),
        run.pushed_back.to_string(),
        report.runs.len().to_string(),
    ]));
    table.trim_fmt()
}
