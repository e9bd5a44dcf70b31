//! `millstream replay`: rebuilds executions from their log and compares. Read-only.

use std::io::IsTerminal;

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use millstream_model::id::{AcceptNo, ExecutionId, ExecutionKey, Seq, TenantId};
use millstream_store::Stores;
use millstream_store::views::ExecutionFilter;
use millstream_worker::replay::{ReplayError, ReplayUntil, redecide_execution, replay_execution};
use serde_json::{Value, json};

use crate::cli::ReplayArgs;
use crate::failure::{CommandFailure, ExitCode};
use crate::output::{CliOutput, plain_text, print_line};

/// Executions listed at a time.
const PAGE: usize = 200;

pub(crate) async fn run(args: &ReplayArgs, stores: &Stores, output: CliOutput) -> Result<()> {
    let tenant = TenantId::parse(&args.tenant).map_err(|error| anyhow::anyhow!("--tenant {error}"))?;
    match &args.execution {
        Some(id) => {
            let execution =
                ExecutionId::parse(id).map_err(|error| anyhow::anyhow!("execution id {error}"))?;
            print_one_replay(args, stores, &ExecutionKey { tenant, execution }, output).await
        }
        None => replay_tenant(args, stores, &tenant, output).await,
    }
}

async fn print_one_replay(
    args: &ReplayArgs,
    stores: &Stores,
    key: &ExecutionKey,
    output: CliOutput,
) -> Result<()> {
    let until = args.at.map_or(ReplayUntil::End, |seq| ReplayUntil::Seq(Seq(seq)));
    let replayed = replay_execution(stores, key, until).await.map_err(explain_error)?;
    let differences = find_differences(args, stores, key, replayed.mismatches).await?;
    let state = &replayed.state;
    let value = json!({
        "execution_id": key.execution,
        "seq": state.seq,
        "state": state.state,
        "phase": state.phase,
        "context": state.context,
        "at": state.at,
        "transitions": replayed.transitions,
        "differences": differences,
    });
    output.show(&value, |value| {
        let mut text = format!(
            "{} at seq {}: state {}, {}\n{}",
            key.execution, state.seq, state.state, state.phase, value["context"]
        );
        if args.at.is_none() {
            text.push_str(if differences.is_empty() { "\nthe log and what is stored agree" } else { "" });
        }
        for difference in &differences {
            text.push_str(&format!("\n{}", describe_difference(difference)));
        }
        text
    })?;
    check_verdict(args, differences.len(), 1)
}

async fn replay_tenant(
    args: &ReplayArgs,
    stores: &Stores,
    tenant: &TenantId,
    output: CliOutput,
) -> Result<()> {
    let bar = replay_progress(output);
    let (mut after, mut executions, mut transitions): (Option<AcceptNo>, u64, u64) = (None, 0, 0);
    let mut differences = Vec::new();
    loop {
        let page =
            stores.execution_views.list_executions(tenant, &ExecutionFilter::default(), after, PAGE).await?;
        for view in &page {
            let replayed =
                replay_execution(stores, &view.execution, ReplayUntil::End).await.map_err(explain_error)?;
            executions += 1;
            transitions += replayed.transitions;
            differences.extend(find_differences(args, stores, &view.execution, replayed.mismatches).await?);
            bar.inc(1);
        }
        match page.last() {
            Some(last) if page.len() == PAGE => after = Some(last.position),
            _ => break,
        }
    }
    bar.finish_and_clear();
    let value = json!({ "executions": executions, "transitions": transitions, "differences": differences });
    output.show(&value, |_| format!("{executions} executions, {transitions} transitions replayed"))?;
    if output == CliOutput::Text {
        differences.iter().try_for_each(|difference| print_line(&describe_difference(difference)))?;
    }
    check_verdict(args, differences.len(), executions)
}

/// Differences between the store and the log and, with `--redecide`, between the log and this build.
async fn find_differences(
    args: &ReplayArgs,
    stores: &Stores,
    key: &ExecutionKey,
    mismatches: Vec<millstream_worker::replay::ReplayMismatch>,
) -> Result<Vec<Value>> {
    let mut found: Vec<Value> = mismatches
        .into_iter()
        .map(|m| json!({ "execution_id": key.execution, "kind": "stored", "seq": m.seq, "what": m.what, "log": m.log, "other": m.stored }))
        .collect();
    if args.redecide {
        let again = redecide_execution(stores, key).await.map_err(explain_error)?;
        found.extend(again.into_iter().map(|d| {
            json!({ "execution_id": key.execution, "kind": "redecided", "seq": d.seq, "what": d.part, "log": d.recorded, "other": d.decided })
        }));
    }
    Ok(found)
}

fn describe_difference(difference: &Value) -> String {
    let get = |name: &str| plain_text(&difference[name]);
    let other = if difference["kind"] == "redecided" { "this build decides" } else { "stored" };
    format!(
        "{} seq {}: {} is {:?} in the log, {other} {:?}",
        get("execution_id"),
        get("seq"),
        get("what"),
        get("log"),
        get("other")
    )
}

fn check_verdict(args: &ReplayArgs, differences: usize, executions: u64) -> Result<()> {
    if differences > 0 && (args.check || args.redecide) {
        bail!(CommandFailure::new(
            ExitCode::Different,
            format!("{differences} differences in {executions} executions")
        ));
    }
    Ok(())
}

fn explain_error(error: ReplayError) -> anyhow::Error {
    match error {
        ReplayError::NotFound(_) | ReplayError::BeyondTheEnd(..) | ReplayError::Definition(..) => {
            CommandFailure::new(ExitCode::Refused, error.to_string()).into()
        }
        ReplayError::Store(error) => CommandFailure::new(ExitCode::Unreachable, error.to_string()).into(),
    }
}

fn replay_progress(output: CliOutput) -> ProgressBar {
    if output == CliOutput::Json || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("  {spinner} {pos} executions replayed  {elapsed}")
        .context("a template of ours")
        .unwrap_or_else(|_| ProgressStyle::default_spinner());
    ProgressBar::new_spinner().with_style(style)
}
