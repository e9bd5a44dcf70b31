//! YAML to JSON conversion, for documents other than definitions.

use super::{Format, yaml};
use crate::problem::{Problem, Problems};
use crate::raw::RawJson;

/// The document as JSON; JSON input stays unchanged. Reports at most one problem.
pub fn as_json(source: &str, format: Format) -> Result<RawJson, Problems> {
    let json = match format {
        Format::Json => RawJson::parse(source),
        Format::Yaml => {
            let document = yaml::parse(source).map_err(|message| Problem::new("", message))?;
            RawJson::parse(&document.to_json())
        }
    };
    json.map_err(|error| Problem::new("", error.to_string()).into())
}
