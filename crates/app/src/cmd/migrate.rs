//! `millstream migrate`: bring the tables up to date, or say what is missing.

use anyhow::{Result, bail};
use millstream_core::log::FORMAT;
use millstream_runtime::backend::{Database, sqlite_path};
use millstream_runtime::config::Config;
use serde_json::json;

use crate::cli::MigrateArgs;
use crate::failure::{ExitCode, Failure};
use crate::output::Output;

pub(crate) async fn run(args: &MigrateArgs, config: &Config, output: Output) -> Result<()> {
    let database = match sqlite_path(&config.database_url) {
        Some(path) if !args.check => {
            if let Some(directory) = path.parent() {
                std::fs::create_dir_all(directory)?;
            }
            Database::open_sqlite(&path).await?
        }
        _ => Database::open(config).await?,
    };
    let pending = database.pending().await?;
    if args.check {
        output.show(&json!({ "pending": pending }), |_| match pending.as_slice() {
            [] => "up to date".to_owned(),
            missing => format!("missing: {}", missing.join(", ")),
        })?;
        if !pending.is_empty() {
            bail!(Failure::new(ExitCode::Different, "the database is behind; run `millstream migrate`"));
        }
        return Ok(());
    }
    database.migrate().await?;
    database.close().await;
    output.show(&json!({ "applied": pending, "format": FORMAT }), |_| {
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
        // One format exists so far, so finishing an upgrade has nothing to switch.
        if args.finish { format!("{tables}; format {FORMAT} is written, nothing to finish") } else { tables }
    })
}
