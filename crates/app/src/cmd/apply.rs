//! `millstream apply FILE`: store a definition on the server.

use anyhow::Result;
use millstream_core::definition::Format;
use reqwest::Method;

use crate::cli::ApplyArgs;
use crate::client::Client;
use crate::output::{Output, plain};
use crate::written;

pub(crate) async fn run(args: &ApplyArgs, client: &Client, output: Output) -> Result<()> {
    let (text, format) = written::definition(&args.file)?;
    let media_type = match format {
        Format::Json => "application/json",
        Format::Yaml => "application/yaml",
    };
    let request =
        client.request(Method::POST, "/v1/definitions").header("content-type", media_type).body(text);
    let answer = client.send(request).await?;
    let created = answer.status() == reqwest::StatusCode::CREATED;
    let definition = answer.json().await?;
    output.show(&definition, |definition| {
        let version = plain(&definition["version"]);
        let what = if created { "created" } else { "unchanged" };
        format!("{} version {version} ({what})", plain(&definition["name"]))
    })
}
