//! User input: files, standard input, JSON on the command line.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result};
use millstream_model::document::SourceFormat;
use serde_json::Value;
use serde_json::value::RawValue;

/// The text of a file, or of standard input for `-`, and its format by the file name.
pub(crate) fn read_definition(file: &Path) -> Result<(String, SourceFormat)> {
    let format = match file.extension().and_then(|ending| ending.to_str()) {
        Some("json") => SourceFormat::Json,
        _ => SourceFormat::Yaml,
    };
    Ok((read_text(file)?, format))
}

/// The JSON of a file, or of standard input for `-`, unparsed.
pub(crate) fn json_file(file: &Path) -> Result<Box<RawValue>> {
    let text = read_text(file)?;
    serde_json::from_str(&text).with_context(|| format!("not JSON: {}", file.display()))
}

fn read_text(file: &Path) -> Result<String> {
    if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
        return Ok(text);
    }
    std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

/// JSON given as an argument, or in a file as `@FILE`.
pub(crate) fn parse_json_argument(argument: &str) -> Result<Value> {
    let text = match argument.strip_prefix('@') {
        Some(file) => std::fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?,
        None => argument.to_owned(),
    };
    serde_json::from_str(&text).with_context(|| format!("not JSON: {argument}"))
}
