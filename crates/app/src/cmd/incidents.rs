//! `millstream incidents`: failures that wait for a decision, and the decisions.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Result, bail};
use reqwest::Method;
use serde_json::value::to_raw_value;
use serde_json::{Value, json};

use crate::cli::{IncidentsArgs, IncidentsCommand, IncidentsListArgs, WhichIncidents, Why};
use crate::client::{Client, segment};
use crate::failure::{ExitCode, Failure};
use crate::output::{Output, fields, line, plain, table};
use crate::written;

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

pub(crate) async fn run(args: &IncidentsArgs, client: &Client, output: Output) -> Result<()> {
    if args.command.is_some() && args.list.is_narrowed() {
        let message = "--status, --group and the like before a command are for the list; give them after it";
        bail!(Failure::new(ExitCode::Invalid, message));
    }
    match &args.command {
        None => list(&args.list, client, output).await,
        Some(IncidentsCommand::Groups { limit }) => groups(*limit, client, output).await,
        Some(IncidentsCommand::Show { incident, input: false }) => show(incident, client, output).await,
        Some(IncidentsCommand::Show { incident, input: true }) => show_input(incident, client).await,
        Some(IncidentsCommand::Retry { which, input, why }) => match (&which.incident, input) {
            (Some(incident), Some(file)) => edited(incident, file, why, client, output).await,
            (Some(_) | None, _) => decide(which, "retry", why, client, output).await,
        },
        Some(IncidentsCommand::Skip { incident, result, why }) => {
            skip(incident, result.as_deref(), why, client, output).await
        }
        Some(IncidentsCommand::Fail { which, why }) => decide(which, "fail", why, client, output).await,
        Some(IncidentsCommand::Cancel { which, why }) => decide(which, "cancel", why, client, output).await,
    }
}

async fn list(args: &IncidentsListArgs, client: &Client, output: Output) -> Result<()> {
    let query: Vec<(&str, String)> = [
        ("status", &args.status),
        ("fingerprint", &args.group),
        ("execution_id", &args.execution),
        ("definition", &args.definition),
    ]
    .into_iter()
    .filter_map(|(name, value)| value.clone().map(|value| (name, value)))
    .collect();
    let items = client.list("/v1/incidents", &query, args.limit.unwrap_or(LIMIT)).await?;
    output.show(&json!({ "items": items }), |_| match items.as_slice() {
        [] => "no incidents".to_owned(),
        rows => table(
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

async fn groups(limit: usize, client: &Client, output: Output) -> Result<()> {
    let answer = client.get(&format!("/v1/incidents/groups?limit={limit}")).await?;
    output.show(&answer, |answer| match answer["items"].as_array().map(Vec::as_slice) {
        None | Some([]) => "no open incidents".to_owned(),
        Some(groups) => table(
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

async fn show(incident: &str, client: &Client, output: Output) -> Result<()> {
    let incident = client.get(&format!("/v1/incidents/{}", segment(incident))).await?;
    output.show(&incident, |incident| {
        let mut parts = vec![fields(incident, SHOWN)];
        if !incident["input"].is_null() {
            parts.push(format!("input\n{}", pretty(&incident["input"])));
        }
        parts.join("\n\n")
    })
}

async fn show_input(incident: &str, client: &Client) -> Result<()> {
    let incident = client.get(&format!("/v1/incidents/{}", segment(incident))).await?;
    line(&pretty(&incident["input"]))
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string())
}

/// Sends the file as written: numbers are passed through unparsed.
async fn edited(incident: &str, file: &Path, why: &Why, client: &Client, output: Output) -> Result<()> {
    let mut body = BTreeMap::from([("input", written::json_file(file)?)]);
    if let Some(reason) = &why.reason {
        body.insert("reason", to_raw_value(reason)?);
    }
    let path = format!("/v1/incidents/{}/retry", segment(incident));
    let answer = client.json(client.request(Method::POST, &path).json(&body)).await?;
    output.show(&answer, told)
}

async fn skip(
    incident: &str,
    result: Option<&str>,
    why: &Why,
    client: &Client,
    output: Output,
) -> Result<()> {
    let mut body = reason(why);
    if let Some(result) = result {
        body["result"] = written::json(result)?;
    }
    let answer = client.post(&format!("/v1/incidents/{}/skip", segment(incident)), &body).await?;
    output.show(&answer, told)
}

async fn decide(
    which: &WhichIncidents,
    word: &str,
    why: &Why,
    client: &Client,
    output: Output,
) -> Result<()> {
    let mut body = reason(why);
    if let Some(group) = &which.group {
        if let Some(limit) = which.limit {
            body["limit"] = json!(limit);
        }
        let answer = client.post(&format!("/v1/incidents/groups/{}/{word}", segment(group)), &body).await?;
        return output.show(&answer, |answer| {
            format!("{} resolved, {} open now", plain(&answer["resolved"]), plain(&answer["remaining"]))
        });
    }
    let incident = segment(which.incident.as_deref().unwrap_or_default());
    let answer = client.post(&format!("/v1/incidents/{incident}/{word}"), &body).await?;
    output.show(&answer, told)
}

fn reason(why: &Why) -> Value {
    why.reason.as_ref().map_or_else(|| json!({}), |reason| json!({ "reason": reason }))
}

fn told(answer: &Value) -> String {
    let execution = plain(&answer["execution_id"]);
    match (answer["resolution"].as_str(), answer["key"].as_str()) {
        (Some("retry" | "retry_with_input"), Some(key)) => format!("{execution}: being tried again as {key}"),
        (Some("retry" | "retry_with_input"), None) => format!("{execution}: being tried again"),
        (Some("skip"), _) => format!("{execution} goes on"),
        (Some("fail"), _) => format!("{execution} is being failed"),
        (Some("cancel"), _) => format!("{execution} is being cancelled"),
        (_, _) => format!("{execution}: {}", plain(&answer["resolution"])),
    }
}
