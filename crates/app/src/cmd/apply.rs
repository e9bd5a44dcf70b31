//! `millstream apply FILE`: store a definition on the server.

use anyhow::Result;
use millstream_sdk::Client;
use millstream_sdk::client::StoredSource;

use crate::cli::ApplyArgs;
use crate::output::CliOutput;
use crate::user_input;

pub(crate) async fn run(args: &ApplyArgs, client: &Client, output: CliOutput) -> Result<()> {
    let (text, format) = user_input::read_definition(&args.file)?;
    let stored = client.apply_source(format, text).await?;
    let what = match stored {
        StoredSource::Created(_) => "created",
        StoredSource::Present(_) => "unchanged",
    };
    output.show(&stored.into_document(), |definition| {
        format!("{} version {} ({what})", definition.name, definition.version)
    })
}
