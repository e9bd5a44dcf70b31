//! `millstream queue stats`: state and throughput of the work, as a table and as bars.

use std::io::IsTerminal;

use anyhow::Result;
use millstream_sdk::Client;
use serde_json::{Value, json};

use crate::cli::{QueueStatsBy, StatsArgs};
use crate::output::{CliOutput, format_table, json_fields, plain_text};

pub(super) async fn run(args: &StatsArgs, client: &Client, output: CliOutput) -> Result<()> {
    let mut query = match args.by {
        QueueStatsBy::Queue => client.queue_stats(),
        QueueStatsBy::Person => client.queue_stats().per_person(),
        QueueStatsBy::Both => client.queue_stats().per_person_and_queue(),
    };
    if let Some(queue) = &args.queue {
        query = query.queue(queue);
    }
    if let Some(person) = &args.person {
        query = query.person(person);
    }
    if let Some(day) = &args.from {
        query = query.from_day(day);
    }
    if let Some(day) = &args.to {
        query = query.to_day(day);
    }
    let lines = query.await?;
    let colour = std::io::stdout().is_terminal();
    output.show_items(&lines, |lines| {
        stats_page(&lines.iter().map(json_fields).collect::<Vec<_>>(), args.by, colour)
    })
}

fn stats_page(rows: &[Value], by: QueueStatsBy, colour: bool) -> String {
    if rows.is_empty() {
        return "nothing to count yet".to_owned();
    }
    let mut columns: Vec<(&str, &str)> = match by {
        QueueStatsBy::Queue => vec![("queue", "queue"), ("open items", "open")],
        QueueStatsBy::Person => vec![("person", "person")],
        QueueStatsBy::Both => vec![("queue", "queue"), ("person", "person")],
    };
    columns.extend([
        ("pending", "pending"),
        ("in progress", "in_progress"),
        ("completed", "completed"),
        ("expired", "expired"),
        ("skipped", "skipped"),
        ("done", "completion_rate"),
        ("time", "average_seconds_to_complete"),
        ("attempts", "average_attempts"),
    ]);
    let shown: Vec<Value> = rows.iter().map(stats_row).collect();
    format!("{}\n\n{}", format_table(&shown, &columns), draw_bars(rows, by, colour))
}

fn stats_row(stats: &Value) -> Value {
    let mut row = stats.clone();
    row["open"] = stats["items"]["open"].clone();
    row["completion_rate"] =
        json!(stats["completion_rate"].as_f64().map(|rate| format!("{:.0} %", rate * 100.0)));
    row["average_seconds_to_complete"] =
        json!(stats["average_seconds_to_complete"].as_f64().map(format_seconds));
    row["average_attempts"] = json!(stats["average_attempts"].as_f64().map(|number| format!("{number:.1}")));
    row
}

/// `42 s`, `3 min`, `1.5 h`.
fn format_seconds(seconds: f64) -> String {
    match seconds {
        short if short < 120.0 => format!("{short:.0} s"),
        middle if middle < 7_200.0 => format!("{:.0} min", middle / 60.0),
        long => format!("{:.1} h", long / 3_600.0),
    }
}

const WIDTH: usize = 50;
/// Field, symbol and colour.
const PARTS: &[(&str, char, &str)] = &[
    ("completed", '█', "32"),
    ("in_progress", '▓', "33"),
    ("pending", '░', "37"),
    ("expired", '×', "31"),
    ("skipped", '·', "35"),
];

/// One bar per row, scaled to the row with the most assignments and divided by status.
fn draw_bars(rows: &[Value], by: QueueStatsBy, colour: bool) -> String {
    let name = |row: &Value| match by {
        QueueStatsBy::Queue => plain_text(&row["queue"]),
        QueueStatsBy::Person => plain_text(&row["person"]),
        QueueStatsBy::Both => format!("{}/{}", plain_text(&row["queue"]), plain_text(&row["person"])),
    };
    let count = |row: &Value, field: &str| row[field].as_u64().unwrap_or(0);
    let total = |row: &Value| PARTS.iter().map(|(field, _, _)| count(row, field)).sum::<u64>();
    let most = rows.iter().map(total).max().unwrap_or(0);
    let width = rows.iter().map(|row| name(row).chars().count()).max().unwrap_or(0);
    let mut lines = Vec::new();
    for row in rows {
        let counts: Vec<u64> = PARTS.iter().map(|(field, _, _)| count(row, field)).collect();
        let cells = bar_cells(&counts, most, WIDTH);
        let bar: String = PARTS
            .iter()
            .zip(cells)
            .filter(|(_, cells)| *cells > 0)
            .map(|((_, sign, code), cells)| {
                let piece = sign.to_string().repeat(cells);
                if colour { format!("\x1b[{code}m{piece}\x1b[0m") } else { piece }
            })
            .collect();
        lines.push(format!("{:width$}  {bar} {}", name(row), total(row)));
    }
    let words = PARTS.iter().map(|(field, sign, _)| format!("{sign} {}", field.replace('_', " ")));
    lines.push(format!("{:width$}  {}", "", words.collect::<Vec<_>>().join("   ")));
    lines.join("\n")
}

/// Cells per count; their sum is the sum's share of `most`. Borders are rounded rather than parts, so that
/// the parts add up. A count above zero gets at least one cell.
fn bar_cells(counts: &[u64], most: u64, width: usize) -> Vec<usize> {
    let width = width as u64;
    let (mut sum, mut border) = (0_u64, 0_u64);
    let mut cells = Vec::with_capacity(counts.len());
    for count in counts {
        sum += count;
        let next = (u128::from(sum) * u128::from(width)).div_ceil(u128::from(most.max(1)));
        let next = u64::try_from(next).unwrap_or(width);
        let mine = next.saturating_sub(border).max(u64::from(*count > 0));
        border += mine;
        cells.push(usize::try_from(mine).unwrap_or(0));
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_stats_show_table_and_bars() {
        let rows = [
            json!({ "queue": "review", "pending": 40, "in_progress": 10, "completed": 50, "expired": 0, "skipped": 0,
                "items": { "open": 320 }, "total": 100, "completion_rate": 0.5, "average_seconds_to_complete": 95.4, "average_attempts": 1.25 }),
            json!({ "queue": "triage", "pending": 0, "in_progress": 1, "completed": 8, "expired": 1, "skipped": 10,
                "total": 20, "completion_rate": 0.4, "average_seconds_to_complete": 9000.0, "average_attempts": null }),
        ];
        insta::assert_snapshot!(stats_page(&rows, QueueStatsBy::Queue, false), @"
         QUEUE   OPEN ITEMS  PENDING  IN PROGRESS  COMPLETED  EXPIRED  SKIPPED  DONE  TIME   ATTEMPTS
         review  320         40       10           50         0        0        50 %  95 s   1.2
         triage              0        1            8          1        10       40 %  2.5 h

        review  █████████████████████████▓▓▓▓▓░░░░░░░░░░░░░░░░░░░░ 100
        triage  ████▓×···· 20
                █ completed   ▓ in progress   ░ pending   × expired   · skipped
        ");
        assert_eq!(stats_page(&[], QueueStatsBy::Queue, false), "nothing to count yet");
        assert!(stats_page(&rows, QueueStatsBy::Queue, true).contains("\x1b[32m"));
    }

    #[test]
    fn stats_bars_add_up() {
        assert_eq!(bar_cells(&[50, 10, 40], 100, 50), [25, 5, 20]);
        assert_eq!(bar_cells(&[1, 0, 999], 1000, 50), [1, 0, 49]);
        assert_eq!(bar_cells(&[0, 0], 0, 50), [0, 0]);
        assert_eq!(bar_cells(&[u64::MAX], u64::MAX, 50), [50]);
    }
}
