//! `millstream migrate`: migrates the tables, or reports pending migrations.

use anyhow::{Result, bail};
use millstream_runtime::backend::{Database, release_too_old, sqlite_path};
use millstream_runtime::config::Config;
use millstream_runtime::fault_injection;
use millstream_store::schema::{Release, SchemaFit, SchemaState};
use millstream_workflow::log::FORMAT;
use serde_json::json;

use crate::cli::MigrateArgs;
use crate::failure::{CommandFailure, ExitCode};
use crate::output::CliOutput;

pub(crate) async fn run(args: &MigrateArgs, config: &Config, output: CliOutput) -> Result<()> {
    let database = match sqlite_path(&config.database_url) {
        Some(path) if !args.check => {
            if let Some(directory) = path.parent() {
                std::fs::create_dir_all(directory)?;
            }
            Database::open_sqlite(&path).await?
        }
        _ => Database::open(config).await?,
    };
    let state = database.schema_state().await?;
    let ours = fault_injection::claimed_release()?;
    let fit = state.judge_release(ours);
    let SchemaState { pending, unknown, oldest_release } = state;
    if args.check {
        let shown = json!({
            "pending": pending,
            "unknown": unknown,
            "release": ours.to_string(),
            "oldest_release": oldest_release.map(|release| release.to_string()),
        });
        output.show(&shown, |_| explain_fit(ours, &fit))?;
        return match fit {
            SchemaFit::Exact | SchemaFit::Newer { .. } => Ok(()),
            SchemaFit::Behind { .. } => {
                bail!(CommandFailure::new(
                    ExitCode::Different,
                    "the database is behind; run `millstream migrate`"
                ))
            }
            SchemaFit::Finished { oldest } => {
                bail!(CommandFailure::new(ExitCode::Different, release_too_old(ours, oldest)))
            }
        };
    }
    database.migrate().await?;
    let finished = if args.finish { Some(database.finish_upgrade().await?) } else { None };
    database.close().await;
    let shown = json!({
        "applied": pending,
        "format": FORMAT,
        "oldest_release": finished.or(oldest_release).map(|release| release.to_string()),
    });
    output.show(&shown, |_| {
        let tables = match pending.as_slice() {
            [] => "up to date".to_owned(),
            applied => format!("applied {}", applied.join(", ")),
        };
        let tables = if pending.iter().any(|name| name.contains("keys")) {
            format!(
                "{tables}\nkeys with the role submit may no longer register executors: create a key with `millstream keys create NAME --role executor`"
            )
        } else {
            tables
        };
        match finished {
            Some(oldest) => format!("{tables}; releases before {oldest} may no longer run"),
            None => tables,
        }
    })
}

fn explain_fit(ours: Release, fit: &SchemaFit) -> String {
    match fit {
        SchemaFit::Exact => "up to date".to_owned(),
        SchemaFit::Newer { unknown } => {
            let unknown: Vec<String> = unknown.iter().map(|version| format!("{version:04}")).collect();
            format!(
                "up to date; a newer release has added {}, beside which this one works until `migrate --finish`",
                unknown.join(", ")
            )
        }
        SchemaFit::Behind { pending } => format!("missing: {}", pending.join(", ")),
        SchemaFit::Finished { oldest } => release_too_old(ours, *oldest),
    }
}
