//! The report as tables for a terminal.

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};

use crate::report::{Report, WorkloadReport};

/// Everything that fits a screen.
pub fn render(report: &Report) -> String {
    let mut parts = vec![head(report), throughput(&report.workloads), cpu(&report.workloads)];
    parts.retain(|part| !part.is_empty());
    parts.join("\n\n")
}

fn head(report: &Report) -> String {
    let mut lines = vec![format!(
        "millstream {} · {} · {} cores{}",
        report.version,
        report.target,
        report.machine.cores,
        report.machine.cpu.as_ref().map(|cpu| format!(" ({cpu})")).unwrap_or_default()
    )];
    if let Some(postgres) = &report.postgres {
        let setting = |name: &str| postgres.settings.get(name).map_or("?", String::as_str);
        lines.push(format!(
            "PostgreSQL {}: fsync {}, synchronous_commit {}",
            postgres.version,
            setting("fsync"),
            setting("synchronous_commit")
        ));
    }
    if let Some(redis) = &report.redis {
        lines.push(format!("Redis {}: appendonly {}", redis.version, redis.appendonly));
    }
    lines.join("\n")
}

fn throughput(workloads: &[WorkloadReport]) -> String {
    let mut table = table(&[
        "workload",
        "events",
        "submit/s",
        "p50 ms",
        "p90 ms",
        "p99 ms",
        "p99.9 ms",
        "end to end/s",
        "least…most",
        "runs",
    ]);
    for one in workloads {
        let (run, latency) = (&one.median, &one.median.submit_latency);
        table.add_row(cells(&[
            one.workload.to_string(),
            run.events.to_string(),
            whole(run.submit_per_second),
            millis(latency.p50_ms),
            millis(latency.p90_ms),
            millis(latency.p99_ms),
            millis(latency.p999_ms),
            whole(run.end_to_end_per_second),
            format!("{}…{}", whole(one.end_to_end_per_second.least), whole(one.end_to_end_per_second.most)),
            one.runs.len().to_string(),
        ]));
    }
    table.trim_fmt()
}

fn cpu(workloads: &[WorkloadReport]) -> String {
    let mut table = table(&["workload", "role", "CPU s", "CPU us/event", "peak MiB"]);
    for one in workloads {
        for role in &one.median.roles {
            table.add_row(cells(&[
                one.workload.to_string(),
                role.role.clone(),
                format!("{:.2}", role.cpu_seconds),
                format!("{:.1}", role.cpu_micros_per_event),
                if role.peak_rss == 0 { String::new() } else { mebibytes(role.peak_rss) },
            ]));
        }
    }
    table.trim_fmt()
}

pub(crate) fn table(headings: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(cells(&headings.iter().map(|heading| heading.to_uppercase()).collect::<Vec<_>>()));
    table
}

/// The first column is text, the others are numbers.
pub(crate) fn cells(texts: &[String]) -> Vec<Cell> {
    let aligned = |(at, text): (usize, &String)| {
        let alignment = if at == 0 { CellAlignment::Left } else { CellAlignment::Right };
        Cell::new(text).set_alignment(alignment)
    };
    texts.iter().enumerate().map(aligned).collect()
}

pub(crate) fn whole(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 && !grouped.ends_with('-') {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

pub(crate) fn millis(value: f64) -> String {
    if value < 10.0 { format!("{value:.2}") } else { format!("{value:.1}") }
}

#[expect(clippy::cast_precision_loss, reason = "memory sizes are far below 2^52")]
fn mebibytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / (1024.0 * 1024.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_are_grouped() {
        for (value, text) in
            [(0.4, "0"), (999.0, "999"), (1000.0, "1,000"), (1_234_567.0, "1,234,567"), (-1000.0, "-1,000")]
        {
            assert_eq!(whole(value), text);
        }
    }
}
