//! Names of types: each is defined once in the engine, so that a search for it leads to one place.
//!
//! Associated types are not counted: their traits name them.

use std::collections::BTreeMap;

use crate::allow_list::enforce_allow_list;
use crate::tree::{SourceFile, files_ending_in};

#[test]
fn type_names_are_defined_once() {
    let sample = "pub struct Lease;\n    pub(crate) enum Told { A }\ntype Rows = ();\n\
                  // struct Commented;\nimpl Iterator for A {\n    type Item = u8;\n}\n\
                  #[cfg(test)]\nmod tests {\n    struct Fixture;\n}\ntrait Clock {}\n";
    let sample = SourceFile::sample("crates/model/src/a.rs", sample);
    let names: Vec<_> = type_definitions(&sample).into_iter().map(|(_, name)| name).collect();
    assert_eq!(names, ["Lease", "Told", "Rows", "Clock"]);

    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in files_ending_in(&[".rs"]).iter().filter(|file| file.is_engine_code()) {
        for (line, name) in type_definitions(file) {
            found.entry(name.to_owned()).or_default().push(format!("{}:{line}", file.path));
        }
    }
    assert!(found.len() > 500, "the walk finds no types");
    found.retain(|_, places| places.len() > 1);
    enforce_allow_list("duplicate_type_names.txt", &found);
}

/// The types that production code of a file defines, with their lines.
fn type_definitions(file: &SourceFile) -> Vec<(usize, &str)> {
    let lines = file.production_lines().into_iter();
    lines.filter_map(|(number, line)| Some((number, defined_type(line)?))).collect()
}

fn defined_type(line: &str) -> Option<&str> {
    let code = line.trim_start();
    let (is_private, item) = match code.strip_prefix("pub") {
        None => (true, code),
        Some(rest) if rest.starts_with('(') => (false, rest.split_once(") ")?.1),
        Some(rest) => (false, rest.strip_prefix(' ')?),
    };
    let (keyword, rest) = item.split_once(' ')?;
    let is_associated = is_private && code.len() < line.len();
    let is_definition = match keyword {
        "struct" | "enum" | "trait" => true,
        "type" => !is_associated,
        _ => false,
    };
    let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    (is_definition && name.starts_with(|c: char| c.is_ascii_uppercase())).then_some(name)
}
