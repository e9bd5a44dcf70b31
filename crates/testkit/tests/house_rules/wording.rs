//! What is written: links that lead somewhere, and no word of anything but the project itself.

use crate::tree::{SourceFile, enforce, files, lines, root};

/// Written apart, so that this file does not contain them.
const FOREIGN: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("index.crates", ".io"),
    concat!("clau", "de"),
    concat!("anthro", "pic"),
    concat!("issue ", "#"),
    concat!("issues ", "show"),
    concat!("this ", "session"),
    concat!("the ", "brief"),
];

const WRITTEN: &[&str] =
    &[".rs", ".md", ".toml", ".sql", ".yaml", ".yml", ".service", "scripts/test", "run", "Dockerfile"];

#[test]
fn the_project_speaks_of_itself_alone() {
    let rule = |file: &SourceFile| {
        lines(&file.text, |line| {
            let line = line.to_lowercase();
            FOREIGN.iter().find(|word| line.contains(**word)).map(|word| format!("says `{word}`"))
        })
    };
    assert_eq!(rule(&SourceFile::sample("a.md", concat!("see issue ", "#4"))).len(), 1);
    enforce(files(WRITTEN).iter().filter(|file| file.path != "Cargo.lock"), rule);
}

#[test]
fn links_between_documents_lead_somewhere() {
    let root = root();
    let rule = |file: &SourceFile| {
        let directory = root.join(&file.path).parent().expect("a file has a directory").to_owned();
        targets(&file.text)
            .into_iter()
            .filter(|target| !directory.join(target).exists())
            .map(|target| format!("no file `{target}`"))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        rule(&SourceFile::sample("docs/a.md", "[x](nowhere.md#part) [y](https://a.example)")).len(),
        1
    );
    enforce(&files(&[".md"]), rule);
}

/// Relative link targets outside code blocks, without their fragment.
fn targets(text: &str) -> Vec<String> {
    let prose = text.split("```").step_by(2);
    prose
        .flat_map(|part| part.split("](").skip(1))
        .filter_map(|rest| rest.split([')', ' ', '\n']).next())
        .filter(|target| {
            !target.contains("://") && !target.starts_with('#') && !target.starts_with("mailto:")
        })
        .filter_map(|target| target.split('#').next())
        .filter(|target| !target.is_empty())
        .map(str::to_owned)
        .collect()
}
