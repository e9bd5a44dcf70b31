//! Rule on the walk: the way of one event through the code, as docs/ARCHITECTURE.md lists it.
//!
//! The table names one file and one function per station, in reading order. A reader opens each file once and
//! never goes back, so a file appears once, and every function is reached from a file that was opened before:
//! by its own name, or by the trait method or the type of the channel that the table names.

use std::collections::BTreeSet;

use crate::tree::{SourceFile, crate_sources, repository_root};

/// The walk is in this document, under this heading.
const DOCUMENT: &str = "docs/ARCHITECTURE.md";
const HEADING: &str = "### One event, from the request to the last action";
/// More stations are more than a reader can follow.
const MOST_STATIONS: usize = 32;

/// One row of the table.
struct WalkStation {
    number: usize,
    file: String,
    function: String,
    /// The trait method or channel type that leads to the function, where its own name does not.
    through: Option<String>,
}

#[test]
fn walk_is_read_without_return() {
    let files = [
        SourceFile::sample("crates/a/src/first.rs", "fn start() { later(); store.put_row() }"),
        SourceFile::sample("crates/b/src/second.rs", "pub(crate) async fn later<T>(row: T) { Parcel(row) }"),
        SourceFile::sample("crates/b/src/third.rs", "fn put_row() { insert() }\nfn drain(parcel: Parcel) {}"),
    ];
    let table =
        |rows: &[&str]| format!("# Page\n\n{HEADING}\n\n{}\n\n### Next\n\n| 9 | x |", rows.join("\n"));
    let walk = |rows: &[&str]| walk_complaints(&table(rows), &files);
    let row = |number: usize, file: &str, function: &str, through: &str| {
        let name = file.rsplit('/').next().unwrap_or_default();
        format!("| {number} | [{name}](../crates/{file}) | `{function}` | {through} | text |")
    };
    let first = row(1, "a/src/first.rs", "start", "");
    let second = row(2, "b/src/second.rs", "later", "");
    assert_eq!(walk(&[&first, &second, &row(3, "b/src/third.rs", "put_row", "")]), Vec::<String>::new());
    assert_eq!(
        walk(&[&first, &second, &row(3, "b/src/third.rs", "drain", "`Parcel`")]),
        Vec::<String>::new()
    );
    for (wrong, complaint) in [
        (row(2, "b/src/gone.rs", "later", ""), "does not exist"),
        (row(2, "b/src/second.rs", "late", ""), "does not define"),
        (row(2, "a/src/first.rs", "start", ""), "appears twice"),
        (row(2, "b/src/third.rs", "drain", ""), "`drain` occurs in no earlier file"),
        (row(2, "b/src/third.rs", "drain", "`Parcel`"), "`Parcel` occurs in no earlier file"),
        (row(2, "b/src/second.rs", "later", "`put_row`"), "`put_row` does not occur in"),
        (row(3, "b/src/second.rs", "later", ""), "is number 2"),
        ("| 2 | second.rs | `later` | | text |".to_owned(), "cannot be read"),
    ] {
        let complaints = walk(&[&first, &wrong]);
        assert!(complaints.len() == 1 && complaints[0].contains(complaint), "{wrong}: {complaints:?}");
    }
    assert_eq!(walk_complaints("# Page", &files), ["the walk has no stations"]);

    let document = std::fs::read_to_string(repository_root().join(DOCUMENT)).expect("the document");
    let complaints = walk_complaints(&document, &crate_sources());
    assert!(complaints.is_empty(), "{DOCUMENT}:\n{}", complaints.join("\n"));
}

fn walk_complaints(document: &str, files: &[SourceFile]) -> Vec<String> {
    let section = document.split(HEADING).nth(1).unwrap_or_default();
    let section = section.split("\n#").next().unwrap_or_default();
    let rows = section.lines().filter(|line| {
        let cell = line.trim_start_matches('|').split('|').next().unwrap_or_default();
        line.starts_with('|') && cell.trim().parse::<usize>().is_ok()
    });
    let (mut complaints, mut opened, mut code_before) = (Vec::new(), BTreeSet::new(), String::new());
    let mut count = 0;
    for row in rows {
        count += 1;
        let Some(station) = read_station(row) else {
            complaints.push(format!("the row cannot be read: {row}"));
            continue;
        };
        let WalkStation { number, file, function, through } = station;
        if number != count {
            complaints.push(format!("station {number} is number {count}"));
        }
        if !opened.insert(file.clone()) {
            complaints.push(format!("station {number}: {file} appears twice"));
            continue;
        }
        let Some(code) = files.iter().find(|source| source.path == file).map(SourceFile::production_code)
        else {
            complaints.push(format!("station {number}: {file} does not exist"));
            continue;
        };
        if !defines_function(&code, &function) {
            complaints.push(format!("station {number}: {file} does not define `{function}`"));
        } else if count > 1 {
            let link = through.as_ref().unwrap_or(&function);
            if !has_word(&code_before, link) {
                complaints.push(format!("station {number}: `{link}` occurs in no earlier file"));
            } else if !has_word(&code, link) {
                complaints.push(format!("station {number}: `{link}` does not occur in {file}"));
            }
        }
        code_before.push_str(&code);
        code_before.push('\n');
    }
    if count == 0 {
        complaints.push("the walk has no stations".to_owned());
    }
    if count > MOST_STATIONS {
        complaints.push(format!("{count} stations: at most {MOST_STATIONS}"));
    }
    complaints
}

/// Reads `| number | [name](../path) | `function` | `through` or nothing | text |`.
fn read_station(row: &str) -> Option<WalkStation> {
    let cells: Vec<&str> = row.trim().trim_matches('|').split('|').map(str::trim).collect();
    let [number, file, function, through, _] = cells[..] else { return None };
    let link = file.split_once("](../")?.1.strip_suffix(')')?;
    let code = |cell: &str| Some(cell.strip_prefix('`')?.strip_suffix('`')?.to_owned());
    Some(WalkStation {
        number: number.parse().ok()?,
        file: link.to_owned(),
        function: code(function)?,
        through: if through.is_empty() { None } else { Some(code(through)?) },
    })
}

fn defines_function(code: &str, function: &str) -> bool {
    ["(", "<"].iter().any(|next| code.contains(&format!("fn {function}{next}")))
}

fn has_word(code: &str, word: &str) -> bool {
    code.split(|c: char| !c.is_alphanumeric() && c != '_').any(|found| found == word)
}
