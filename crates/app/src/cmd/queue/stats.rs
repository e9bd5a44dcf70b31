//! `millstream queue stats`: state and throughput of the work, as a table and as bars.

use std::io::IsTerminal;

use anyhow::Result;
use reqwest::Method;
use serde_json::{Value, json};

use crate::cli::{By, StatsArgs};
use crate::client::Client;
use crate::output::{Output, plain, table};

pub(super) async fn run(args: &StatsArgs, client: &Client, output: Output) -> Result<()> {
    let wished = [
        ("queue", args.queue.clone()),
        ("person", args.person.clone()),
        ("from", args.from.clone()),
        ("to", args.to.clone()),
    ];
    let mut query: Vec<(&str, String)> = vec![("by", args.by.word().to_owned())];
    query.extend(wished.into_iter().filter_map(|(name, value)| Some((name, value?))));
    let answer = client.json(client.request(Method::GET, "/v1/queue_stats").query(&query)).await?;
    let colour = std::io::stdout().is_terminal();
    output.show(&answer, |answer| page(rows_of(answer), args.by, colour))
}

/// The rows of a list, or of one page of it.
fn rows_of(answer: &Value) -> &[Value] {
    let list = answer.as_array().or_else(|| answer["items"].as_array());
    list.map_or(&[], Vec::as_slice)
}

fn page(rows: &[Value], by: By, colour: bool) -> String {
    if rows.is_empty() {
        return "nothing to count yet".to_owned();
    }
    let mut columns: Vec<(&str, &str)> = match by {
        By::Queue => vec![("queue", "queue"), ("open items", "open")],
        By::Person => vec![("person", "person")],
        By::Both => vec![("queue", "queue"), ("person", "person")],
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
    let shown: Vec<Value> = rows.iter().map(row).collect();
    format!("{}\n\n{}", table(&shown, &columns), bars(rows, by, colour))
}

fn row(stats: &Value) -> Value {
    let mut row = stats.clone();
    row["open"] = stats["items"]["open"].clone();
    row["completion_rate"] =
        json!(stats["completion_rate"].as_f64().map(|rate| format!("{:.0} %", rate * 100.0)));
    row["average_seconds_to_complete"] = json!(stats["average_seconds_to_complete"].as_f64().map(length));
    row["average_attempts"] = json!(stats["average_attempts"].as_f64().map(|number| format!("{number:.1}")));
    row
}

/// `42 s`, `3 min`, `1.5 h`.
fn length(seconds: f64) -> String {
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
fn bars(rows: &[Value], by: By, colour: bool) -> String {
    let name = |row: &Value| match by {
        By::Queue => plain(&row["queue"]),
        By::Person => plain(&row["person"]),
        By::Both => format!("{}/{}", plain(&row["queue"]), plain(&row["person"])),
    };
    let count = |row: &Value, field: &str| row[field].as_u64().unwrap_or(0);
    let total = |row: &Value| PARTS.iter().map(|(field, _, _)| count(row, field)).sum::<u64>();
    let most = rows.iter().map(total).max().unwrap_or(0);
    let width = rows.iter().map(|row| name(row).chars().count()).max().unwrap_or(0);
    let mut lines = Vec::new();
    for row in rows {
        let counts: Vec<u64> = PARTS.iter().map(|(field, _, _)| count(row, field)).collect();
        let cells = shares(&counts, most, WIDTH);
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
fn shares(counts: &[u64], most: u64, width: usize) -> Vec<usize> {
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
    fn work_is_shown_as_a_table_and_as_bars() {
        let rows = [
            json!({ "queue": "review", "pending": 40, "in_progress": 10, "completed": 50, "expired": 0, "skipped": 0,
                "items": { "open": 320 }, "total": 100, "completion_rate": 0.5, "average_seconds_to_complete": 95.4, "average_attempts": 1.25 }),
            json!({ "queue": "triage", "pending": 0, "in_progress": 1, "completed": 8, "expired": 1, "skipped": 10,
                "total": 20, "completion_rate": 0.4, "average_seconds_to_complete": 9000.0, "average_attempts": null }),
        ];
        insta::assert_snapshot!(page(&rows, By::Queue, false), @"
         QUEUE   OPEN ITEMS  PENDING  IN PROGRESS  COMPLETED  EXPIRED  SKIPPED  DONE  TIME   ATTEMPTS
         review  320         40       10           50         0        0        50 %  95 s   1.2
         triage              0        1            8          1        10       40 %  2.5 h

        review  █████████████████████████▓▓▓▓▓░░░░░░░░░░░░░░░░░░░░ 100
        triage  ████▓×···· 20
                █ completed   ▓ in progress   ░ pending   × expired   · skipped
        ");
        assert_eq!(page(&[], By::Queue, false), "nothing to count yet");
        assert!(page(&rows, By::Queue, true).contains("\x1b[32m"));
    }

    #[test]
    fn bars_add_up_and_show_everything_that_is_there() {
        assert_eq!(shares(&[50, 10, 40], 100, 50), [25, 5, 20]);
        assert_eq!(shares(&[1, 0, 999], 1000, 50), [1, 0, 49]);
        assert_eq!(shares(&[0, 0], 0, 50), [0, 0]);
        assert_eq!(shares(&[u64::MAX], u64::MAX, 50), [50]);
    }
}
