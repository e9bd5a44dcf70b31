//! Wording: no text mentions anything but the project itself, and no sentence has a pronoun for a process.

use std::collections::BTreeMap;

use crate::allow_list::enforce_allow_list;
use crate::tree::{SourceFile, enforce_rule, files_ending_in, matching_lines};

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

/// Subjects and phrases that hide the component which acts. Written apart for the same reason.
const PRONOUNS: &[&str] = &[
    concat!("no", "body"),
    concat!("some", "body"),
    concat!("who", "ever"),
    concat!("who", "mever"),
    concat!("every", "body"),
    concat!("any", "body"),
    concat!("wh", "om"),
    concat!("an", "ew"),
    concat!("in ", "vain"),
    concat!("is ", "told"),
    concat!("are ", "told"),
    concat!("was ", "told"),
    concat!("were ", "told"),
    concat!("stands ", "for"),
    concat!("so ", "many"),
    concat!("for ", "good"),
    concat!("who ", "is"),
    concat!("those ", "who"),
];

const WRITTEN: &[&str] =
    &[".rs", ".md", ".toml", ".sql", ".yaml", ".yml", ".service", "scripts/test", "run", "Dockerfile"];

#[test]
fn the_project_speaks_of_itself_alone() {
    let rule = |file: &SourceFile| {
        matching_lines(&file.text, |line| {
            let line = line.to_lowercase();
            FOREIGN.iter().find(|word| line.contains(**word)).map(|word| format!("says `{word}`"))
        })
    };
    assert_eq!(rule(&SourceFile::sample("a.md", concat!("see issue ", "#4"))).len(), 1);
    enforce_rule(files_ending_in(WRITTEN).iter().filter(|file| file.path != "Cargo.lock"), rule);
}

/// Covers comments and all string literals of the engine: errors, log messages, problem texts, help texts.
#[test]
fn comments_and_messages_have_no_pronoun_subjects() {
    let (one, other) = (PRONOUNS[0], PRONOUNS[9]);
    for (sample, count) in [
        (format!("/// The lease that {one} holds.\n"), 1),
        (format!("warn!(\"the worker {other} to stop\");\n"), 1),
        (format!("const HELP: &str = \"\\\nExamples:\n  run  {one}\\n{one}\n\";\n"), 1),
        (format!("let t = br#\"a \"quoted\" {one}\"#; // {one}\n"), 1),
        (format!("let {one} = c == '\"'; let s: &'a str = \"{one}_viable\";\n"), 0),
        (format!("#[cfg(test)]\nmod tests {{\n    // {one}\n}}\n"), 0),
    ] {
        let file = SourceFile::sample("crates/model/src/a.rs", &sample);
        assert_eq!(pronoun_lines(&file).len(), count, "{sample}");
    }
    let mut found = BTreeMap::new();
    for file in files_ending_in(&[".rs"]).iter().filter(|file| file.is_engine_code()) {
        let lines = pronoun_lines(file);
        if !lines.is_empty() {
            found.insert(file.path.clone(), lines);
        }
    }
    enforce_allow_list("pronoun_subjects.txt", &found);
}

/// The lines of comments and string literals that contain a word of the list.
fn pronoun_lines(file: &SourceFile) -> Vec<String> {
    let (numbers, code): (Vec<usize>, Vec<&str>) = file.production_lines().into_iter().unzip();
    let prose = comments_and_literals(&code.join("\n"));
    numbers
        .iter()
        .zip(prose.lines())
        .filter_map(|(number, line)| {
            let word = PRONOUNS.iter().find(|word| contains_word(line, word))?;
            Some(format!("line {number} says `{word}`: {}", line.trim_matches(['|', '/', '!', ' '])))
        })
        .collect()
}

fn contains_word(line: &str, word: &str) -> bool {
    let line = line.to_lowercase();
    let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(word).any(|(at, _)| {
        !is_word(line[..at].chars().next_back()) && !is_word(line[at + word.len()..].chars().next())
    })
}

/// Comments and string literals, each on its line; other code is left out.
fn comments_and_literals(code: &str) -> String {
    let chars: Vec<char> = code.chars().collect();
    let (mut prose, mut at) = (String::with_capacity(code.len()), 0);
    while let Some(rest) = chars.get(at..).filter(|rest| !rest.is_empty()) {
        let (length, has_escapes) = match rest {
            ['/', '/', ..] => (rest.iter().position(|c| *c == '\n').unwrap_or(rest.len()), false),
            ['"', ..] => (quoted_length(rest), true),
            ['r', '"' | '#', ..] if !continues_word(&chars, at) => (raw_length(rest), false),
            _ => (0, false),
        };
        if length > 0 {
            // Fragments of one line stay apart.
            prose.push('|');
            push_text(&rest[..length], has_escapes, &mut prose);
            at += length;
        } else {
            if rest[0] == '\n' {
                prose.push('\n');
            }
            at += character_length(rest);
        }
    }
    prose
}

/// Appends the text of a fragment, with spaces for escapes.
fn push_text(fragment: &[char], has_escapes: bool, prose: &mut String) {
    let mut chars = fragment.iter();
    while let Some(character) = chars.next() {
        if has_escapes && *character == '\\' {
            prose.push(if chars.next() == Some(&'\n') { '\n' } else { ' ' });
        } else {
            prose.push(*character);
        }
    }
}

/// Whether the character continues an identifier. The `b` of a byte string is not one.
fn continues_word(chars: &[char], at: usize) -> bool {
    let character = |back: usize| at.checked_sub(back).and_then(|at| chars.get(at));
    let is_word = |back: usize| character(back).is_some_and(|c| c.is_alphanumeric() || *c == '_');
    is_word(1) && (character(1) != Some(&'b') || is_word(2))
}

/// The length of a string literal with escapes, quotes included.
fn quoted_length(rest: &[char]) -> usize {
    let mut at = 1;
    while let Some(character) = rest.get(at) {
        match character {
            '"' => return at + 1,
            '\\' => at += 2,
            _ => at += 1,
        }
    }
    rest.len()
}

/// The length of a raw string literal; zero for a raw identifier.
fn raw_length(rest: &[char]) -> usize {
    let hashes = rest[1..].iter().take_while(|c| **c == '#').count();
    if rest.get(1 + hashes) != Some(&'"') {
        return 0;
    }
    let begin = 2 + hashes;
    let is_end = |window: &[char]| window[0] == '"' && window[1..].iter().all(|c| *c == '#');
    let end = rest[begin..].windows(hashes + 1).position(is_end);
    end.map_or(rest.len(), |end| begin + end + hashes + 1)
}

/// The length of a character literal, or one for any other character.
fn character_length(rest: &[char]) -> usize {
    match rest {
        ['\'', '\\', ..] => rest.iter().skip(3).position(|c| *c == '\'').map_or(1, |end| end + 4),
        ['\'', _, '\'', ..] => 3,
        _ => 1,
    }
}
