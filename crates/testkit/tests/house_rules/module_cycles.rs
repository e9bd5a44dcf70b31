//! Rule on the layers within a crate: its top-level modules import each other in one direction.
//!
//! Two modules that belong together may refer to each other. A larger cycle has no layers: none of its
//! modules can be read, tested or moved without the others. An allow-list has the crates with larger cycles
//! and the present size of the largest one.

use std::collections::{BTreeMap, BTreeSet};

use crate::allow_list::enforce_allow_list;
use crate::tree::{SourceFile, crate_sources};

/// The largest cycle that needs no entry in the allow-list.
const PAIR: usize = 2;

/// The modules that each module imports.
type ModuleImports = BTreeMap<String, BTreeSet<String>>;

#[test]
fn top_level_modules_form_no_large_cycle() {
    let cycle = |a: &str, b: &str| {
        let sources = [
            SourceFile::sample("crates/x/src/lib.rs", "mod a;\nmod b;\nmod c;\npub use c::Third;"),
            SourceFile::sample("crates/x/src/a.rs", a),
            SourceFile::sample("crates/x/src/b/mod.rs", b),
            SourceFile::sample("crates/x/src/c/inner.rs", "use super::super::a::First;"),
        ];
        large_cycles(&sources)
    };
    let whole = BTreeMap::from([("x".to_owned(), ["a", "b", "c"].map(str::to_owned).to_vec())]);
    assert_eq!(cycle("use crate::{\n    b::{Second, c},\n    d,\n};", "use crate::Third;"), whole);
    assert_eq!(cycle("fn f() { super::b::f() }", "use crate::c;"), whole);
    let pair = "use crate::c;\n// use crate::b;\n#[cfg(test)]\nmod tests { use crate::b; }";
    assert_eq!(cycle(pair, "use crate::c;"), BTreeMap::new());

    let sources: Vec<SourceFile> = crate_sources().into_iter().filter(SourceFile::is_engine_code).collect();
    enforce_allow_list("module_cycles.txt", &large_cycles(&sources));
}

/// The modules of the largest cycle of each crate that has a large one.
fn large_cycles(sources: &[SourceFile]) -> BTreeMap<String, Vec<String>> {
    let mut crates: BTreeMap<&str, Vec<&SourceFile>> = BTreeMap::new();
    for file in sources {
        crates.entry(file.crate_name().unwrap_or_default()).or_default().push(file);
    }
    let largest =
        crates.into_iter().map(|(name, files)| (name.to_owned(), largest_cycle(&imports_of(&files))));
    largest.filter(|(_, cycle)| cycle.len() > PAIR).collect()
}

fn imports_of(files: &[&SourceFile]) -> ModuleImports {
    let modules: BTreeSet<&str> =
        files.iter().filter_map(|file| module_of(file)).map(|(name, _)| name).collect();
    let exported: BTreeMap<String, &str> = files
        .iter()
        .filter(|file| file.path.ends_with("/src/lib.rs"))
        .flat_map(|file| modules.iter().flat_map(|module| exports_of(file, module)))
        .collect();
    let mut imports = ModuleImports::new();
    for file in files {
        let Some((module, depth)) = module_of(file) else { continue };
        let code = code_of(file);
        let names =
            names_after(&code, "crate::").into_iter().chain(names_after(&code, &"super::".repeat(depth)));
        let used = names.filter_map(|name| {
            let name = modules.get(name.as_str()).or_else(|| exported.get(&name))?;
            (*name != module).then(|| (*name).to_owned())
        });
        imports.entry(module.to_owned()).or_default().extend(used);
    }
    imports
}

/// The top-level module of a file, and the file's depth below the root of its crate.
fn module_of(file: &SourceFile) -> Option<(&str, usize)> {
    let inside = file.path.split_once("/src/")?.1.trim_end_matches(".rs");
    let module = inside.trim_end_matches("/mod");
    let name = module.split('/').next().unwrap_or_default();
    (!["lib", "main"].contains(&name)).then(|| (name, module.split('/').count()))
}

/// The names that the root of a crate takes from one of its modules: all modules may import them from the
/// root.
fn exports_of<'a>(root: &SourceFile, module: &&'a str) -> Vec<(String, &'a str)> {
    let code = code_of(root);
    let exported = code.split("use ").skip(1).filter_map(|rest| rest.split(';').next());
    let names = exported.filter_map(|path| path.strip_prefix(*module)?.strip_prefix("::"));
    names.flat_map(words_of).map(|name| (name.to_owned(), *module)).collect()
}

/// Production code without comments.
fn code_of(file: &SourceFile) -> String {
    let lines =
        file.production_lines().into_iter().map(|(_, line)| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// The first names of all paths that begin with `prefix`, those of nested imports included.
fn names_after(code: &str, prefix: &str) -> Vec<String> {
    let begins_path = |at: usize| {
        let before = code[..at].chars().next_back();
        before.is_none_or(|c| !is_of_name(c) && c != ':')
    };
    let starts = code.match_indices(prefix).filter(|(at, _)| begins_path(*at));
    starts.flat_map(|(at, _)| first_names(&code[at + prefix.len()..])).collect()
}

/// The first name of a path, or of each path in braces.
fn first_names(rest: &str) -> Vec<String> {
    let Some(group) = rest.strip_prefix('{') else {
        return leading_name(rest).into_iter().collect();
    };
    let (mut depth, mut names, mut is_first) = (1, Vec::new(), true);
    for word in group.split_inclusive(['{', '}', ',']) {
        if depth == 1 && is_first {
            names.extend(leading_name(word));
        }
        match word.chars().next_back() {
            Some('{') => depth += 1,
            Some('}') => depth -= 1,
            Some(_) | None => {}
        }
        is_first = word.ends_with(',');
        if depth == 0 {
            break;
        }
    }
    names
}

fn leading_name(text: &str) -> Option<String> {
    let name: String = text.trim_start().chars().take_while(|c| is_of_name(*c)).collect();
    (!name.is_empty()).then_some(name)
}

fn words_of(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !is_of_name(c)).filter(|word| !word.is_empty())
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The largest set of modules that import each other, directly or through others.
fn largest_cycle(imports: &ModuleImports) -> Vec<String> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        imports.keys().map(|module| (module.as_str(), reachable_from(imports, module))).collect();
    let cycle_of = |module: &str| -> Vec<String> {
        let reaches = |from: &str, to: &str| reached.get(from).is_some_and(|found| found.contains(to));
        let others = imports.keys().filter(|other| reaches(module, other) && reaches(other, module));
        others.cloned().collect()
    };
    imports.keys().map(|module| cycle_of(module)).max_by_key(Vec::len).unwrap_or_default()
}

fn reachable_from<'a>(imports: &'a ModuleImports, module: &str) -> BTreeSet<&'a str> {
    let (mut reached, mut waiting) = (BTreeSet::new(), vec![module]);
    while let Some(next) = waiting.pop() {
        for used in imports.get(next).into_iter().flatten() {
            if reached.insert(used.as_str()) {
                waiting.push(used);
            }
        }
    }
    reached
}
