//! `millstream incidents`: failures that wait for a decision, and the decisions.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Result, bail};
use reqwest::Method;
use serde_json::value::to_raw_value;
use serde_json::{Value, json};

use crate::cli::{
    IncidentSelectionArgs, IncidentsArgs, IncidentsCommand, IncidentsListArgs, ResolutionReasonArgs,
};
use crate::client::{ApiClient, path_segment};
use crate::failure::{CommandFailure, ExitCode};
use crate::output::{CliOutput, format_fields, format_table, plain_text, print_line};
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

pub(crate) async fn run(args: &IncidentsArgs, client: &ApiClient, output: CliOutput) -> Result<()> {
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
            (Some(_) | None, _) => resolve_incidents(which, "retry", why, client, output).await,
        },
        Some(IncidentsCommand::Skip { incident, result, why }) => {
            skip_incident(incident, result.as_deref(), why, client, output).await
        }
        Some(IncidentsCommand::Fail { which, why }) => {
            resolve_incidents(which, "fail", why, client, output).await
        }
        Some(IncidentsCommand::Cancel { which, why }) => {
            resolve_incidents(which, "cancel", why, client, output).await
        }
    }
}

async fn list_incidents(args: &IncidentsListArgs, client: &ApiClient, output: CliOutput) -> Result<()> {
    let query: Vec<(&str, String)> = [
        ("status", &args.status),
        ("fingerprint", &args.group),
        ("execution_id", &args.execution),
        ("definition", &args.definition),
    ]
    .into_iter()
    .filter_map(|(name, value)| value.clone().map(|value| (name, value)))
    .collect();
    let items = client.list_pages("/v1/incidents", &query, args.limit.unwrap_or(LIMIT)).await?;
    output.show(&json!({ "items": items }), |_| match items.as_slice() {
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

async fn list_groups(limit: usize, client: &ApiClient, output: CliOutput) -> Result<()> {
    let answer = client.get(&format!("/v1/incidents/groups?limit={limit}")).await?;
    output.show(&answer, |answer| match answer["items"].as_array().map(Vec::as_slice) {
        None | Some([]) => "no open incidents".to_owned(),
        Some(groups) => format_table(
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
fn with_sample(group: &Value) -> Value {
    let mut row = group.clone();
    row["reason"] = group["sample"]["reason"].clone();
    row
}

async fn show_incident(incident: &str, client: &ApiClient, output: CliOutput) -> Result<()> {
    let incident = client.get(&format!("/v1/incidents/{}", path_segment(incident))).await?;
    output.show(&incident, |incident| {
        let mut parts = vec![format_fields(incident, SHOWN)];
        if !incident["input"].is_null() {
            parts.push(format!("input\n{}", pretty_json(&incident["input"])));
        }
        parts.join("\n\n")
    })
}

async fn show_input(incident: &str, client: &ApiClient) -> Result<()> {
    let incident = client.get(&format!("/v1/incidents/{}", path_segment(incident))).await?;
    print_line(&pretty_json(&incident["input"]))
}

fn pretty_json(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string())
}

/// Sends the file as written: numbers are passed through unparsed.
async fn retry_with_input(
    incident: &str,
    file: &Path,
    why: &ResolutionReasonArgs,
    client: &ApiClient,
    output: CliOutput,
) -> Result<()> {
    let mut body = BTreeMap::from([("input", user_input::json_file(file)?)]);
    if let Some(reason) = &why.reason {
        body.insert("reason", to_raw_value(reason)?);
    }
    let path = format!("/v1/incidents/{}/retry", path_segment(incident));
    let answer = client.send_for_json(client.request(Method::POST, &path).json(&body)).await?;
    output.show(&answer, resolution_line)
}

async fn skip_incident(
    incident: &str,
    result: Option<&str>,
    why: &ResolutionReasonArgs,
    client: &ApiClient,
    output: CliOutput,
) -> Result<()> {
    let mut body = reason_body(why);
    if let Some(result) = result {
        body["result"] = user_input::parse_json_argument(result)?;
    }
    let answer = client.post(&format!("/v1/incidents/{}/skip", path_segment(incident)), &body).await?;
    output.show(&answer, resolution_line)
}

async fn resolve_incidents(
    which: &IncidentSelectionArgs,
    word: &str,
    why: &ResolutionReasonArgs,
    client: &ApiClient,
    output: CliOutput,
) -> Result<()> {
    let mut body = reason_body(why);
    if let Some(group) = &which.group {
        if let Some(limit) = which.limit {
            body["limit"] = json!(limit);
        }
        let answer =
            client.post(&format!("/v1/incidents/groups/{}/{word}", path_segment(group)), &body).await?;
        return output.show(&answer, |answer| {
            format!(
                "{} resolved, {} open now",
                plain_text(&answer["resolved"]),
                plain_text(&answer["remaining"])
            )
        });
    }
    let incident = path_segment(which.incident.as_deref().unwrap_or_default());
    let answer = client.post(&format!("/v1/incidents/{incident}/{word}"), &body).await?;
    output.show(&answer, resolution_line)
}

fn reason_body(why: &ResolutionReasonArgs) -> Value {
    why.reason.as_ref().map_or_else(|| json!({}), |reason| json!({ "reason": reason }))
}

fn resolution_line(answer: &Value) -> String {
    let execution = plain_text(&answer["execution_id"]);
    match (answer["resolution"].as_str(), answer["key"].as_str()) {
        (Some("retry" | "retry_with_input"), Some(key)) => format!("{execution}: being tried again as {key}"),
        (Some("retry" | "retry_with_input"), None) => format!("{execution}: being tried again"),
        (Some("skip"), _) => format!("{execution} goes on"),
        (Some("fail"), _) => format!("{execution} is being failed"),
        (Some("cancel"), _) => format!("{execution} is being cancelled"),
        (_, _) => format!("{execution}: {}", plain_text(&answer["resolution"])),
    }
}
