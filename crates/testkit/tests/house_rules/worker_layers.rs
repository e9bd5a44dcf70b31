//! Layers of the worker: a module uses only those below it. Deciding and performing do not use each other.

use crate::tree::{SourceFile, crate_sources, enforce_rule};

/// From the bottom. Modules that are not listed are below all of these.
const LAYERS: &[&[&str]] = &[
    &["environment"],
    &["notifications"],
    &["leasing"],
    &["pipeline", "perform"],
    &["settle"],
    &["outbound"],
    &["duties", "deps"],
    &["assembly", "drain"],
    &["run"],
    &["lib"],
];

#[test]
fn worker_modules_use_only_lower_layers() {
    let sample = |path, text| upward_uses(&SourceFile::sample(path, text));
    assert_eq!(sample("crates/worker/src/pipeline/commit.rs", "use crate::perform::run_action;\n").len(), 1);
    assert_eq!(sample("crates/worker/src/alarm.rs", "use crate::{metrics, settle};\n").len(), 1);
    assert_eq!(sample("crates/worker/src/settle.rs", "use crate::perform::attempt;\n").len(), 0);
    let files = crate_sources();
    enforce_rule(files.iter().filter(|file| file.crate_name() == Some("worker")), upward_uses);
}

fn upward_uses(file: &SourceFile) -> Vec<String> {
    let path = file.path.strip_prefix("crates/worker/src/").unwrap_or_default();
    let own = first_word(path);
    let code = file.production_code();
    let upward = used_modules(&code).into_iter().filter(|used| {
        let layer = layer_of(used);
        *used != own && layer.is_some() && layer >= layer_of(own)
    });
    upward.map(|used| format!("uses `{used}`, which is not below `{own}`")).collect()
}

fn layer_of(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

/// The modules behind `crate::`, also in a group.
fn used_modules(code: &str) -> Vec<&str> {
    let mut used = Vec::new();
    for rest in code.split("crate::").skip(1) {
        match rest.strip_prefix('{') {
            Some(group) => {
                used.extend(group.split('}').next().unwrap_or_default().split(',').map(first_word))
            }
            None => used.push(first_word(rest)),
        }
    }
    used
}

fn first_word(text: &str) -> &str {
    text.trim_start().split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
}
