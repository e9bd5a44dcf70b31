//! `millstream queue import QUEUE FILE`: streams a file to the server and shows the progress that the server
//! reports.

use std::io::IsTerminal;
use std::path::Path;

use anyhow::{Context, Result, bail};
use axum::body::Bytes;
use futures::Stream;
use indicatif::{ProgressBar, ProgressStyle};
use millstream_sdk::Client;
use millstream_sdk::client::{ImportNotice, RefusedItem};
use tokio::fs::File;
use tokio::io::AsyncReadExt;

use crate::client::call_failure;
use crate::failure::{CommandFailure, ExitCode};
use crate::output::CliOutput;

const PIECE: usize = 64 * 1024;

pub(super) async fn run(queue: &str, file: &Path, client: &Client, output: CliOutput) -> Result<()> {
    let source = if file == Path::new("-") { Path::new("/dev/stdin") } else { file };
    let opened = File::open(source).await.with_context(|| format!("cannot read {}", file.display()))?;
    let mut notices = client.import_item_stream(queue, file_pieces(opened)).await?;
    let bar = import_progress();
    let mut last = None;
    loop {
        let notice = match notices.next().await {
            Ok(Some(notice)) => notice,
            Ok(None) => break,
            Err(error) => {
                bail!(CommandFailure::new(ExitCode::Invalid, format!("{CUT_OFF}: {}", call_failure(&error))))
            }
        };
        bar.set_message(count_summary(&notice));
        bar.set_position(notice.read);
        last = Some(notice);
    }
    bar.finish_and_clear();
    match last.filter(|notice| notice.done == Some(true)) {
        Some(done) => show_result(queue, &done, output),
        None => bail!(CommandFailure::new(ExitCode::Unreachable, CUT_OFF)),
    }
}

const CUT_OFF: &str = "the connection was lost before the import had ended; run it again: what was imported is not imported twice";

/// Streams the file: it may be larger than memory.
fn file_pieces(file: File) -> impl Stream<Item = std::io::Result<Bytes>> {
    futures::stream::try_unfold(file, |mut file| async move {
        let mut piece = Vec::with_capacity(PIECE);
        let read = (&mut file).take(PIECE as u64).read_to_end(&mut piece).await?;
        Ok((read > 0).then_some((piece.into(), file)))
    })
}

fn import_progress() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {human_pos} read, {msg} ({per_sec})") {
        bar.set_style(style);
    }
    bar
}

fn count_summary(notice: &ImportNotice) -> String {
    let ImportNotice { created, repeated, refused, .. } = notice;
    format!("{created} new, {repeated} known already, {refused} refused")
}

fn show_result(queue: &str, done: &ImportNotice, output: CliOutput) -> Result<()> {
    output.show(done, |done| format!("{queue}: {}", count_summary(done)))?;
    let count = done.refused;
    if count == 0 {
        return Ok(());
    }
    // The first refused lines; the answer may have fewer than were refused.
    let refusals = done.refusals.as_deref().unwrap_or_default();
    let told: Vec<String> = refusals.iter().take(20).map(refusal_line).collect();
    let more = count.saturating_sub(told.len() as u64);
    let more = if more > 0 { format!("\n  … and {more} more") } else { String::new() };
    let noun = if count == 1 { "line was" } else { "lines were" };
    bail!(CommandFailure::new(
        ExitCode::Invalid,
        format!("{count} {noun} refused; mend them and import the file again\n{}{more}", told.join("\n"))
    ))
}

fn refusal_line(refusal: &RefusedItem) -> String {
    let place = match refusal.line {
        Some(line) => format!("line {line}"),
        None => format!("index {}", refusal.index),
    };
    let item = refusal.item_id.as_ref().map(|id| format!(" ({id})")).unwrap_or_default();
    let problems = refusal.problems.iter().map(|problem| match problem.path.as_str() {
        "" => problem.message.clone(),
        path => format!("{path}: {}", problem.message),
    });
    format!("  {place}{item}: {}", problems.collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn notice(value: Value) -> ImportNotice {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn import_result_names_refused_lines() {
        let done = notice(
            json!({ "read": 3, "created": 1, "repeated": 1, "done": true, "refused": 1, "refusals": [
            { "index": 1, "line": 2, "item_id": "s-2", "problems": [{ "path": "payload", "message": "is required" }] },
        ] }),
        );
        assert_eq!(count_summary(&done), "1 new, 1 known already, 1 refused");
        let error = show_result("review", &done, CliOutput::Text).unwrap_err().to_string();
        assert!(error.contains("1 line was refused"), "{error}");
        assert!(error.contains("line 2 (s-2): payload: is required"), "{error}");
    }

    #[test]
    fn what_goes_well_is_counted() {
        let done = notice(json!({ "read": 2, "created": 2, "repeated": 0, "done": true, "refused": 0 }));
        assert!(show_result("review", &done, CliOutput::Text).is_ok());
    }
}
