//! Results of the people benchmark, as tables for a terminal.

use super::report::PeopleReport;
use crate::calls::calls;
use crate::cost::costs;
use crate::table::{cells, table, whole};
use crate::usage::as_f64;

pub(crate) fn tables(report: &PeopleReport) -> Vec<String> {
    vec![
        speed(report),
        calls(&report.median.calls),
        costs("answer", &[("people", &report.median.cost)]),
        "An answer is one next, one start and one submit; every person does one thing after the other."
            .to_owned(),
    ]
}

fn speed(report: &PeopleReport) -> String {
    let mut table = table(&[
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
    let known = |value: Option<f64>| value.map_or("-".to_owned(), whole);
    table.add_row(cells(&[
        report.people.to_string(),
        whole(as_f64(report.items)),
        report.overlap.to_string(),
        whole(speed.median),
        format!("{}…{}", whole(speed.least), whole(speed.most)),
        known(run.cost.engine_cpu_micros),
        known(run.cost.cpu_micros),
        known(run.cost.database_bytes),
        whole(run.imported_per_second),
        run.pushed_back.to_string(),
        report.runs.len().to_string(),
    ]));
    table.trim_fmt()
}
