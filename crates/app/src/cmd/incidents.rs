//! `millstream incidents`: failures that wait for a decision, and the decisions.

use std::path::Path;

use anyhow::{Result, bail};
use millstream_sdk::Client;
use millstream_sdk::client::{
    GroupChoice, GroupDecision, IncidentGroup, IncidentResolution, IncidentResolved, Page,
};
use serde_json::Value;

use crate::cli::{
    IncidentSelectionArgs, IncidentsArgs, IncidentsCommand, IncidentsListArgs, ResolutionReasonArgs,
};
use crate::client::{first_items, page_size};
use crate::failure::{CommandFailure, ExitCode};
use crate::output::{CliOutput, format_fields, format_table, json_fields, pretty_fields, print_line};
use crate::user_input;

const LIMIT: usize = 50;
const SHOWN: &[&str] = &[
    "incident_id",
    "status",
    "execution_id",
    "definition",
    "version",
    "event_id",
    "action",
    "seq",
    "key",
    "class",
    "reason",
    "attempts",
    "error",
    "progress",
    "fingerprint",
    "opened_at",
    "resolved",
];

pub(crate) async fn run(args: &IncidentsArgs, client: &Client, output: CliOutput) -> Result<()> {
    if args.command.is_some() && args.list.is_narrowed() {
        let message = "--status, --group and the like before a command are for the list; give them after it";
        bail!(CommandFailure::new(ExitCode::Invalid, message));
    }
    match &args.command {
        None => list_incidents(&args.list, client, output).await,
        Some(IncidentsCommand::Groups { limit }) => list_groups(*limit, client, output).await,
        Some(IncidentsCommand::Show { incident, input: false }) => {
            show_incident(incident, client, output).await
        }
        Some(IncidentsCommand::Show { incident, input: true }) => show_input(incident, client).await,
        Some(IncidentsCommand::Retry { which, input, why }) => match (&which.incident, input) {
            (Some(incident), Some(file)) => retry_with_input(incident, file, why, client, output).await,
            (Some(_) | None, _) => resolve_incidents(which, GroupChoice::Retry, why, client, output).await,
        },
        Some(IncidentsCommand::Skip { incident, result, why }) => {
            skip_incident(incident, result.as_deref(), why, client, output).await
        }
        Some(IncidentsCommand::Fail { which, why }) => {
            resolve_incidents(which, GroupChoice::Fail, why, client, output).await
        }
        Some(IncidentsCommand::Cancel { which, why }) => {
            resolve_incidents(which, GroupChoice::Cancel, why, client, output).await
        }
    }
}

async fn list_incidents(args: &IncidentsListArgs, client: &Client, output: CliOutput) -> Result<()> {
    let limit = args.limit.unwrap_or(LIMIT);
    let mut list = client.incidents().page_size(page_size(limit));
    for (name, value) in [
        ("status", &args.status),
        ("fingerprint", &args.group),
        ("execution_id", &args.execution),
        ("definition", &args.definition),
    ] {
        if let Some(value) = value {
            list = list.filter(name, value);
        }
    }
    let found = first_items(list.stream(), limit).await?;
    output.show_items(&found, |items| match items {
        [] => "no incidents".to_owned(),
        rows => format_table(
            rows,
            &[
                ("id", "incident_id"),
                ("status", "status"),
                ("execution", "execution_id"),
                ("reason", "reason"),
                ("group", "fingerprint"),
                ("since", "opened_at"),
            ],
        ),
    })
}

async fn list_groups(limit: usize, client: &Client, output: CliOutput) -> Result<()> {
    let answer = Page { items: client.largest_incident_groups(limit).await?, next_cursor: None };
    output.show(&answer, |answer| match answer.items.as_slice() {
        [] => "no open incidents".to_owned(),
        groups => format_table(
            &groups.iter().map(with_sample).collect::<Vec<_>>(),
            &[
                ("group", "fingerprint"),
                ("count", "count"),
                ("definition", "definition"),
                ("action", "action"),
                ("class", "class"),
                ("newest", "reason"),
                ("last seen", "last_seen"),
            ],
        ),
    })
}

/// A group with the message of its newest incident.
fn with_sample(group: &IncidentGroup) -> Value {
    let mut row = json_fields(group);
    row["reason"] = group.sample.reason.as_str().into();
    row
}

async fn show_incident(incident: &str, client: &Client, output: CliOutput) -> Result<()> {
    output.show(&client.incident(incident).await?, |incident| {
        let mut parts = vec![format_fields(incident, SHOWN)];
        if let Some(input) = &incident.input {
            parts.push(format!("input\n{}", pretty_fields(input)));
        }
        parts.join("\n\n")
    })
}

async fn show_input(incident: &str, client: &Client) -> Result<()> {
    print_line(&pretty_fields(&client.incident(incident).await?.input.unwrap_or_default()))
}

/// Sends the file as written: numbers are passed through unparsed.
async fn retry_with_input(
    incident: &str,
    file: &Path,
    why: &ResolutionReasonArgs,
    client: &Client,
    output: CliOutput,
) -> Result<()> {
    let input = user_input::json_file(file)?;
    let answer = client.retry_incident_with_input(incident, &input, why.reason.as_deref()).await?;
    output.show(&answer, resolution_line)
}

async fn skip_incident(
    incident: &str,
    result: Option<&str>,
    why: &ResolutionReasonArgs,
    client: &Client,
    output: CliOutput,
) -> Result<()> {
    let reason = why.reason.as_deref();
    let answer = match result {
        Some(result) => {
            client.skip_incident(incident, &user_input::parse_json_argument(result)?, reason).await?
        }
        None => client.skip_dead_event(incident, reason).await?,
    };
    output.show(&answer, resolution_line)
}

async fn resolve_incidents(
    which: &IncidentSelectionArgs,
    choice: GroupChoice,
    why: &ResolutionReasonArgs,
    client: &Client,
    output: CliOutput,
) -> Result<()> {
    if let Some(group) = &which.group {
        let limit = which.limit.map(|limit| u32::try_from(limit).unwrap_or(u32::MAX));
        let decision = GroupDecision { reason: why.reason.clone(), limit };
        let answer = client.resolve_incident_group(group, choice, &decision).await?;
        return output
            .show(&answer, |answer| format!("{} resolved, {} open now", answer.resolved, answer.remaining));
    }
    let (incident, reason) = (which.incident.as_deref().unwrap_or_default(), why.reason.as_deref());
    let answer = match choice {
        GroupChoice::Retry => client.retry_incident(incident, reason).await?,
        GroupChoice::Fail => client.fail_incident(incident, reason).await?,
        GroupChoice::Cancel => client.cancel_incident(incident, reason).await?,
    };
    output.show(&answer, resolution_line)
}

fn resolution_line(answer: &IncidentResolved) -> String {
    let execution = &answer.execution_id;
    match (answer.resolution, &answer.key) {
        (IncidentResolution::Retry | IncidentResolution::RetryWithInput, Some(key)) => {
            format!("{execution}: being tried again as {key}")
        }
        (IncidentResolution::Retry | IncidentResolution::RetryWithInput, None) => {
            format!("{execution}: being tried again")
        }
        (IncidentResolution::Skip, _) => format!("{execution} goes on"),
        (IncidentResolution::Fail, _) => format!("{execution} is being failed"),
        (IncidentResolution::Cancel, _) => format!("{execution} is being cancelled"),
        (other, _) => format!("{execution}: {other}"),
    }
}
