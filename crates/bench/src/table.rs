//! The report as tables for a terminal.

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};

use crate::report::{
    BenchReport, EventStage, FigureSpread, LatencyReport, PollersReport, TaskToCall, WorkloadReport,
};
use crate::usage::GENERATOR;
use crate::{devices, fairness, graph, line, people};

/// The full report.
pub fn render_report(report: &BenchReport) -> String {
    let mut parts = vec![header_table(report)];
    if !report.workloads.is_empty() {
        parts.extend([
            throughput_table(&report.workloads),
            cpu_table(&report.workloads),
            context_table(&report.workloads),
        ]);
    }
    parts.extend(report.task_to_call.as_ref().map(task_to_call));
    parts.extend(floors_table(report));
    parts.extend(report.workloads.iter().filter_map(history_text));
    parts.extend(report.latency.as_ref().map(latency_table));
    parts.extend(report.pollers.as_ref().map(pollers_table));
    parts.extend(report.graphs.iter().flat_map(graph::graph_tables));
    parts.extend(report.people.iter().flat_map(people::people_tables));
    parts.extend(report.line.iter().flat_map(line::line_tables));
    parts.extend(report.fairness.iter().flat_map(fairness::fairness_tables));
    parts.extend(report.devices.iter().flat_map(devices::device_tables));
    parts.extend(disturbance_warning(report));
    parts.join("\n\n")
}

fn header_table(report: &BenchReport) -> String {
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
    if let Some(sqlite) = &report.sqlite {
        lines.push(format!("SQLite {}: synchronous {}", sqlite.version, sqlite.synchronous));
    }
    if let Some(redis) = &report.redis {
        lines.push(format!("Redis {}: appendonly {}", redis.version, redis.appendonly));
    }
    lines.join("\n")
}

fn throughput_table(workloads: &[WorkloadReport]) -> String {
    let mut table = new_table(&[
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
        let timed = |text: String| if latency.count == 0 { "-".to_owned() } else { text };
        table.add_row(table_cells(&[
            one.workload.to_string(),
            format_whole(crate::usage::as_f64(run.events)),
            timed(format_whole(run.submit_per_second)),
            timed(format_millis(latency.p50_ms)),
            timed(format_millis(latency.p90_ms)),
            timed(format_millis(latency.p99_ms)),
            timed(format_millis(latency.p999_ms)),
            format_whole(run.end_to_end_per_second),
            format!(
                "{}…{}",
                format_whole(one.end_to_end_per_second.least),
                format_whole(one.end_to_end_per_second.most)
            ),
            one.runs.len().to_string(),
        ]));
    }
    table.trim_fmt()
}

fn cpu_table(workloads: &[WorkloadReport]) -> String {
    let mut table = new_table(&["workload", "role", "CPU s", "CPU us/event", "peak MiB"]);
    for one in workloads {
        for role in &one.median.roles {
            table.add_row(table_cells(&[
                one.workload.to_string(),
                role.role.clone(),
                format!("{:.2}", role.cpu_seconds),
                format!("{:.1}", role.cpu_micros_per_event),
                if role.peak_rss == 0 { String::new() } else { format_mebibytes(role.peak_rss) },
            ]));
        }
        let run = &one.median;
        table.add_row(table_cells(&[
            one.workload.to_string(),
            "all but the generator".to_owned(),
            format!("{:.2}", run.cpu_micros_per_event * crate::usage::as_f64(run.events) / 1e6),
            format!("{:.1}", run.cpu_micros_per_event),
            String::new(),
        ]));
    }
    table.trim_fmt()
}

/// Batch sizes, transaction times, and remaining work.
fn context_table(workloads: &[WorkloadReport]) -> String {
    let mut table = new_table(&[
        "workload",
        "append",
        "ms",
        "visit",
        "load ms",
        "commit",
        "ms",
        "settle",
        "ms",
        "db B/event",
        "redis B/event",
        "pushed back",
    ]);
    for one in workloads {
        let mean = |name: &str| one.median.batches.get(name).map(|batches| batches.mean);
        let size = |name: &str| mean(name).map_or("-".to_owned(), |mean| format!("{mean:.1}"));
        let time = |name: &str| mean(name).map_or("-".to_owned(), |mean| format_millis(mean * 1000.0));
        let bytes = |value: Option<f64>| value.map_or("-".to_owned(), format_whole);
        table.add_row(table_cells(&[
            one.workload.to_string(),
            size("append_items"),
            time("append_seconds"),
            size("visit_executions"),
            time("load_seconds"),
            size("commit_events"),
            time("commit_seconds"),
            size("settle_actions"),
            time("settle_seconds"),
            bytes(one.median.database_bytes_per_event),
            bytes(one.median.redis_bytes_per_event),
            one.median.pushed_back.to_string(),
        ]));
    }
    table.trim_fmt()
}

fn floors_table(report: &BenchReport) -> Option<String> {
    let mut table = new_table(&[
        "floor",
        "events/s",
        "least…most",
        "append",
        "commit",
        "settle",
        "hands",
        "end to end / floor",
    ]);
    let mut rows = 0;
    for one in &report.workloads {
        let Some(floor) = &one.floor else { continue };
        rows += 1;
        table.add_row(table_cells(&[
            one.workload.to_string(),
            format_whole(floor.per_second.median),
            format!("{}…{}", format_whole(floor.per_second.least), format_whole(floor.per_second.most)),
            floor.append_batch.to_string(),
            floor.commit_batch.to_string(),
            floor.settle_batch.to_string(),
            format!("{}+{}+{}", floor.append_hands, floor.commit_hands, floor.settle_hands),
            format!("{:.0} %", floor.end_to_end_ratio * 100.0),
        ]));
    }
    if let Some(raw) = &report.floor_raw {
        rows += 1;
        let mut row = vec![
            "raw".to_owned(),
            format_whole(raw.median),
            format!("{}…{}", format_whole(raw.least), format_whole(raw.most)),
        ];
        row.extend(["100", "100", "100", "4", ""].map(str::to_owned));
        table.add_row(table_cells(&row));
    }
    (rows > 0).then(|| table.trim_fmt())
}

fn history_text(one: &WorkloadReport) -> Option<String> {
    let history = one.median.history.as_ref()?;
    Some(format!(
        "After {} events the next one takes {} ms at the median, the first one of an execution {} ms: {:.2} times.",
        format_whole(crate::usage::as_f64(history.events)),
        format_millis(history.next.p50_ms),
        format_millis(history.first.p50_ms),
        history.ratio
    ))
}

fn task_to_call(ratio: &TaskToCall) -> String {
    let spread = |spread: &FigureSpread| {
        format!("{:.2} times ({:.2}…{:.2})", spread.median, spread.least, spread.most)
    };
    let action = ratio.cost_of_action.as_ref().map(|action| {
        format!(" Without what an event alone costs, the task takes {} the CPU of the call.", spread(action))
    });
    format!(
        "An event with a task of a worker outside takes {} the CPU of one with a function in Rust, at {} its throughput.{}",
        spread(&ratio.cost),
        spread(&ratio.throughput),
        action.unwrap_or_default()
    )
}

fn pollers_table(pollers: &PollersReport) -> String {
    let mut table = new_table(&[
        "from the answer to a worker that has the task",
        "events",
        "p50 ms",
        "p90 ms",
        "p99 ms",
        "p99.9 ms",
        "max ms",
    ]);
    let together = format!("{} at once", pollers.burst.size);
    for (what, seen) in [("one at a time", &pollers.single), (&together, &pollers.burst.wake)] {
        table.add_row(table_cells(&[
            what.to_owned(),
            seen.count.to_string(),
            format_millis(seen.p50_ms),
            format_millis(seen.p90_ms),
            format_millis(seen.p99_ms),
            format_millis(seen.p999_ms),
            format_millis(seen.max_ms),
        ]));
    }
    let bytes = |value: Option<u64>| value.map_or("?".to_owned(), format_mebibytes);
    let cores: f64 =
        pollers.idle_cores.iter().filter(|(role, _)| *role != GENERATOR).map(|(_, cores)| cores).sum();
    format!(
        "{}\n{} workers wait: the ingress has {} MiB ({} without them, {} at the most); everything together takes {:.1} % of a core.",
        table.trim_fmt(),
        pollers.workers,
        bytes(pollers.ingress_rss_idle),
        bytes(pollers.ingress_rss_before),
        bytes(pollers.ingress_rss_peak),
        cores * 100.0
    )
}

fn latency_table(latency: &LatencyReport) -> String {
    let mut table = new_table(&[
        "from POST to",
        "rate",
        "events",
        "p50 ms",
        "p90 ms",
        "p99 ms",
        "p99.9 ms",
        "max ms",
        "of it sent late",
    ]);
    for figure in &latency.figures {
        let seen = &figure.latency;
        table.add_row(table_cells(&[
            stage_words(figure.stage).to_owned(),
            format!("{:.0}/s", figure.per_second),
            seen.count.to_string(),
            format_millis(seen.p50_ms),
            format_millis(seen.p90_ms),
            format_millis(seen.p99_ms),
            format_millis(seen.p999_ms),
            format_millis(seen.max_ms),
            format_millis(figure.send_delay.p50_ms),
        ]));
    }
    let capacity = latency.capacity_per_second.map(|capacity| {
        format!(
            "\nSingle POSTs reach {} events/s end to end: the capacity that rates are a part of.",
            format_whole(capacity)
        )
    });
    format!("{}{}", table.trim_fmt(), capacity.unwrap_or_default())
}

/// Warns about other programs' load: figures taken meanwhile understate the machine.
fn disturbance_warning(report: &BenchReport) -> Option<String> {
    let runs = report.workloads.iter().filter_map(|one| one.median.cores_taken_by_others);
    let latency = report.latency.iter().filter_map(|latency| latency.cores_taken_by_others);
    let pollers = report.pollers.iter().filter_map(|pollers| pollers.cores_taken_by_others);
    let graphs = report.graphs.iter().flat_map(|graphs| &graphs.graphs);
    let graphs = graphs.filter_map(|graph| graph.median.cores_taken_by_others);
    let people = report.people.iter().filter_map(|people| people.median.cost.cores_taken_by_others);
    let line = report.line.iter().filter_map(|line| line.cores_taken_by_others);
    let devices = report.devices.iter().flat_map(|devices| {
        [&devices.median.create_cost, &devices.median.drive_cost].map(|cost| cost.cores_taken_by_others)
    });
    let work = graphs.chain(people).chain(line).chain(devices.flatten());
    let most = runs.chain(latency).chain(pollers).chain(work).fold(0.0, f64::max);
    (most > 0.15).then(|| {
        format!("Other processes took up to {most:.1} cores meanwhile: the machine was not quiet, and it is faster than this.")
    })
}

const fn stage_words(stage: EventStage) -> &'static str {
    match stage {
        EventStage::Accepted => "202",
        EventStage::Applied => "applied",
        EventStage::ActionStarted => "action started",
        EventStage::Completed => "completed",
    }
}

pub(crate) fn new_table(headings: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(table_cells(&headings.iter().map(|heading| heading.to_uppercase()).collect::<Vec<_>>()));
    table
}

/// The first column is text, the others are numbers.
pub(crate) fn table_cells(texts: &[String]) -> Vec<Cell> {
    let aligned = |(at, text): (usize, &String)| {
        let alignment = if at == 0 { CellAlignment::Left } else { CellAlignment::Right };
        Cell::new(text).set_alignment(alignment)
    };
    texts.iter().enumerate().map(aligned).collect()
}

pub(crate) fn format_whole(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) && !grouped.ends_with('-') {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

pub(crate) fn format_millis(value: f64) -> String {
    if value < 10.0 { format!("{value:.2}") } else { format!("{value:.1}") }
}

#[expect(clippy::cast_precision_loss, reason = "memory sizes are far below 2^52")]
pub(crate) fn format_mebibytes(bytes: u64) -> String {
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
            assert_eq!(format_whole(value), text);
        }
    }
}
