//! `millstream new DIR`: creates a project with an action in Rust, ready to run.
//!
//! Its files are those of `examples/worker`, which is compiled and tested with the workspace. Only the
//! manifest is generated.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::json;

use crate::cli::NewArgs;
use crate::failure::{CommandFailure, ExitCode};
use crate::output::CliOutput;

const FILES: &[(&str, &str)] = &[
    ("src/main.rs", include_str!("../../embedded/examples/worker/src/main.rs")),
    ("src/charge.rs", include_str!("../../embedded/examples/worker/src/charge.rs")),
    ("src/till.rs", include_str!("../../embedded/examples/worker/src/till.rs")),
    ("payment.yaml", include_str!("../../embedded/examples/worker/payment.yaml")),
    ("README.md", include_str!("../../embedded/examples/worker/README.md")),
    (".gitignore", "/target\n/.millstream\n"),
];

pub(crate) fn run(args: &NewArgs, output: CliOutput) -> Result<()> {
    let dir = &args.dir;
    require_empty(dir)?;
    let manifest = cargo_manifest(&package_name(dir), &sdk_dependency(args)?);
    let files = FILES.iter().copied().chain([("Cargo.toml", manifest.as_str())]);
    let mut written = Vec::new();
    for (name, text) in files {
        write_file(&dir.join(name), text)?;
        written.push(name);
    }
    output.show(&json!({ "directory": dir, "files": written }), |_| {
        let dir = dir.display();
        format!("{dir} is ready:\n\n  cd {dir}\n  cargo test    # the action, without a server\n  cargo run     # the engine with the action")
    })
}

fn require_empty(dir: &Path) -> Result<()> {
    let taken = match std::fs::read_dir(dir) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
        Err(error) => return Err(error).with_context(|| format!("cannot look into {}", dir.display())),
    };
    if taken {
        bail!(CommandFailure::new(
            ExitCode::Refused,
            format!("{} is not empty; choose a new directory", dir.display())
        ));
    }
    Ok(())
}

fn write_file(path: &Path, text: &str) -> Result<()> {
    let parent = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(parent)
        .and_then(|()| std::fs::write(path, text))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// The SDK dependency, as a line of the manifest.
fn sdk_dependency(args: &NewArgs) -> Result<String> {
    if let Some(path) = &args.sdk_path {
        let path: PathBuf =
            path.canonicalize().with_context(|| format!("there is no SDK at {}", path.display()))?;
        return Ok(format!("{{ path = {:?} }}", path.display().to_string()));
    }
    Ok(match &args.sdk_git {
        Some(url) => format!("{{ git = {url:?} }}"),
        None => format!("{:?}", env!("CARGO_PKG_VERSION")),
    })
}

/// The directory's name as a valid package name.
fn package_name(dir: &Path) -> String {
    let name = dir.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let name: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '_' { c.to_ascii_lowercase() } else { '-' })
        .collect();
    let name = name.trim_matches('-');
    if name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        name.to_owned()
    } else {
        format!("worker-{name}").trim_end_matches('-').to_owned()
    }
}

fn cargo_manifest(name: &str, sdk: &str) -> String {
    format!(
        r#"[package]
name = "{name}"
version = "0.1.0"
edition = "2024"

[dependencies]
millstream-sdk = {sdk}
serde = {{ version = "1", features = ["derive"] }}
tokio = {{ version = "1", features = ["macros", "rt-multi-thread"] }}

[dev-dependencies]
serde_json = "1"
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_named_after_its_directory() {
        for (dir, name) in
            [("shop", "shop"), ("a/My Shop!", "my-shop"), ("9lives", "worker-9lives"), ("..", "worker")]
        {
            assert_eq!(package_name(Path::new(dir)), name, "{dir}");
        }
    }

    #[test]
    fn manifest_is_toml_for_any_path() {
        for sdk in ["\"0.1.0\"".to_owned(), format!("{{ path = {:?} }}", "/a \"b\"/c")] {
            let text = cargo_manifest("shop", &sdk);
            toml::from_str::<toml::Table>(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        }
    }
}
