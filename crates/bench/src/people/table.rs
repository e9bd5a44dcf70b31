//! Results of the people benchmark, as tables for a terminal.

use super::report::PeopleReport;
use crate::calls::calls_table;
use crate::cost::costs_table;
use crate::table::{format_whole, new_table, table_cells};
use crate::usage::as_f64;

pub(crate) fn people_tables(report: &PeopleReport) -> Vec<String> {
    vec![
        speed_table(report),
        calls_table(&report.median.calls),
        costs_table("answer", &[("people", &report.median.cost)]),
        "An answer is one next, one start and one submit; every person does one thing after the other."
            .to_owned(),
    ]
}

fn speed_table(report: &PeopleReport) -> String {
    let mut table = new_table(&[
        "people",
        "items",
        "overlap",
        "answers/s",
        "least…most",
        "engine CPU us/answer",
        "with services",
        "db B/answer",
        "imported/s",
        "pushed back",
        "runs",
    ]);
    let (run, speed) = (&report.median, &report.answers_per_second);
    let known = |value: Option<f64>| value.map_or("-".to_owned(), format_whole);
    table.add_row(table_cells(&[
        report.people.to_string(),
        format_whole(as_f64(report.items)),
        report.overlap.to_string(),
        format_whole(speed.median),
        format!("{}…{}", format_whole(speed.least), format_whole(speed.most)),
        known(run.cost.engine_cpu_micros),
        known(run.cost.cpu_micros),
        known(run.cost.database_bytes),
        format_whole(run.imported_per_second),
        run.pushed_back.to_string(),
        report.runs.len().to_string(),
    ]));
    table.trim_fmt()
}
