//! `millstream apply FILE`: store a definition on the server.

use anyhow::Result;
use millstream_model::document::SourceFormat;
use reqwest::Method;

use crate::cli::ApplyArgs;
use crate::client::ApiClient;
use crate::output::{CliOutput, plain_text};
use crate::user_input;

pub(crate) async fn run(args: &ApplyArgs, client: &ApiClient, output: CliOutput) -> Result<()> {
    let (text, format) = user_input::read_definition(&args.file)?;
    let media_type = match format {
        SourceFormat::Json => "application/json",
        SourceFormat::Yaml => "application/yaml",
    };
    let request =
        client.request(Method::POST, "/v1/definitions").header("content-type", media_type).body(text);
    let answer = client.send(request).await?;
    let created = answer.status() == reqwest::StatusCode::CREATED;
    let definition = answer.json().await?;
    output.show(&definition, |definition| {
        let version = plain_text(&definition["version"]);
        let what = if created { "created" } else { "unchanged" };
        format!("{} version {version} ({what})", plain_text(&definition["name"]))
    })
}
