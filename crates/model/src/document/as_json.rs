//! YAML to JSON conversion, for documents other than definitions.

use super::source::SourceFormat;
use super::yaml;
use crate::problem::{ValidationProblem, ValidationProblems};
use crate::raw::RawJson;

/// The document as JSON; JSON input stays unchanged. Reports at most one problem.
pub fn as_json(source: &str, format: SourceFormat) -> Result<RawJson, ValidationProblems> {
    let json = match format {
        SourceFormat::Json => RawJson::parse(source),
        SourceFormat::Yaml => {
            let document = yaml::parse(source).map_err(|message| ValidationProblem::new("", message))?;
            RawJson::parse(&document.to_json())
        }
    };
    json.map_err(|error| ValidationProblem::new("", error.to_string()).into())
}
