//! Output of commands: tables and colours on a terminal, JSON on request.

use std::io::{IsTerminal, Write};

use anyhow::Result;
use comfy_table::{Cell, Color, ContentArrangement, Table, presets};
use serde::Serialize;
use serde_json::Value;

/// How to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CliOutput {
    Text,
    Json,
}

impl CliOutput {
    /// Prints the JSON itself, or the text that `text` makes of it.
    pub(crate) fn show<T: Serialize>(self, value: &T, text: impl FnOnce(&T) -> String) -> Result<()> {
        match self {
            Self::Json => print_line(&serde_json::to_string_pretty(value)?),
            Self::Text => print_line(&text(value)),
        }
    }

    /// The same for the items of a list.
    pub(crate) fn show_items<T: Serialize>(
        self,
        items: &[T],
        text: impl FnOnce(&[T]) -> String,
    ) -> Result<()> {
        self.show(&ShownItems { items }, |shown| text(shown.items))
    }
}

/// A list as JSON.
#[derive(Serialize)]
struct ShownItems<'a, T> {
    items: &'a [T],
}

/// Prints one line to stdout. A closed reader (`| head`) is not an error.
pub(crate) fn print_line(text: &str) -> Result<()> {
    match writeln!(std::io::stdout(), "{text}") {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        other => Ok(other?),
    }
}

/// The fields of an answer, for a table or a page of fields.
pub(crate) fn json_fields(answer: &impl Serialize) -> Value {
    serde_json::to_value(answer).unwrap_or(Value::Null)
}

/// All fields as indented JSON, by name.
pub(crate) fn pretty_fields(answer: &impl Serialize) -> String {
    let fields = json_fields(answer);
    serde_json::to_string_pretty(&fields).unwrap_or_else(|_| fields.to_string())
}

/// A table of JSON objects: one column per (heading, field).
pub(crate) fn format_table<T: Serialize>(rows: &[T], columns: &[(&str, &str)]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(columns.iter().map(|(heading, _)| Cell::new(heading.to_uppercase())));
    for row in rows.iter().map(json_fields) {
        table.add_row(columns.iter().map(|(_, field)| table_cell(field, &row[*field])));
    }
    table.trim_fmt()
}

/// `field  value` lines of one object.
pub(crate) fn format_fields(object: &impl Serialize, names: &[&str]) -> String {
    let object = json_fields(object);
    let width = names.iter().map(|name| name.len()).max().unwrap_or(0);
    names
        .iter()
        .filter(|name| !object[**name].is_null())
        .map(|name| format!("{name:width$}  {}", colour_status(name, &plain_text(&object[*name]))))
        .collect::<Vec<_>>()
        .join("\n")
}

/// A JSON value as plain text.
pub(crate) fn plain_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) if items.iter().all(Value::is_string) => {
            items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
        }
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

fn table_cell(field: &str, value: &Value) -> Cell {
    let text = plain_text(value);
    match status_colour(field, &text) {
        Some(colour) if std::io::stdout().is_terminal() => Cell::new(text).fg(colour),
        _ => Cell::new(text),
    }
}

fn colour_status(field: &str, text: &str) -> String {
    let code = match status_colour(field, text) {
        Some(Color::Green) => "32",
        Some(Color::Red) => "31",
        Some(Color::Yellow) => "33",
        _ => return text.to_owned(),
    };
    if std::io::stdout().is_terminal() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
}

fn status_colour(field: &str, text: &str) -> Option<Color> {
    if field != "status" {
        return None;
    }
    match text {
        "completed" | "active" | "succeeded" | "resolved" | "PASSED" | "PASS" => Some(Color::Green),
        "failed" | "dead" | "rejected" | "open" | "FAILED" | "FAIL" | "TASK_ERROR" | "INFRA_ERROR"
        | "TIMEOUT" | "CRASH" => Some(Color::Red),
        "paused" | "deferred" | "pending" | "processing" | "cancelled" | "PAUSED" | "PENDING"
        | "CANCELLED" | "SKIPPED" | "FILTERED" => Some(Color::Yellow),
        _ => None,
    }
}
