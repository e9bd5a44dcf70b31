//! Tests that `docs/STATE-MACHINES.md` matches the transition tables of the code. Each machine has a section
//! between two marks; after a change of a table, copy the generated file that the failing test names.

use std::path::Path;

use millstream_devices::claim;
use millstream_people::assignment::diagram;

/// Puts the generated text between the marks of a machine.
fn with_section(document: &str, machine: &str, generated: &str) -> String {
    let (begin, end) = (format!("<!-- {machine}: generated -->\n"), format!("<!-- {machine}: end -->\n"));
    let (before, rest) = document.split_once(&begin).expect("the document has a place for it");
    let (_, after) = rest.split_once(&end).expect("the place has an end");
    format!("{before}{begin}{generated}{end}{after}")
}

fn check(machine: &str, generated: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/STATE-MACHINES.md");
    let document = std::fs::read_to_string(path).unwrap();
    let expected = with_section(&document, machine, generated);
    if document != expected {
        let fresh = Path::new(env!("CARGO_TARGET_TMPDIR")).join("STATE-MACHINES.md");
        std::fs::write(&fresh, expected).unwrap();
        panic!("docs/STATE-MACHINES.md is not what the code does: copy {} over it", fresh.display());
    }
}

#[test]
fn run_lifecycle_diagram_matches_code() {
    let generated =
        format!("\n```mermaid\n{}```\n\n{}\n", claim::draw_run_diagram(), claim::list_transitions());
    check("claim", &generated);
}

#[test]
fn item_lifecycle_diagrams_match_code() {
    for (machine, diagram) in [("assignment", diagram::draw_assignments()), ("item", diagram::draw_items())] {
        check(machine, &format!("\n```mermaid\n{diagram}```\n\n"));
    }
}
