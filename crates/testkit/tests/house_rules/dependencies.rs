//! Dependencies: checks the packages that Cargo resolves against the rules of `deny.toml` about licences,
//! bans and sources. `cargo deny` reads the same file where it is installed; building it takes minutes.

use std::process::Command;

use serde_json::Value;

use crate::tree::repository_root;

struct DenyRules {
    licences: Vec<String>,
    banned: Vec<String>,
    registries: Vec<String>,
}

impl DenyRules {
    fn read() -> Self {
        let text = std::fs::read_to_string(repository_root().join("deny.toml")).expect("read deny.toml");
        let rules: toml::Table = text.parse().expect("deny.toml is TOML");
        let texts = |section: &str, key: &str, field: Option<&str>| -> Vec<String> {
            let list = rules[section][key].as_array().expect("a list");
            let text =
                |item: &toml::Value| field.map_or(item, |field| &item[field]).as_str().map(str::to_owned);
            list.iter().map(|item| text(item).expect("a text")).collect()
        };
        Self {
            licences: texts("licenses", "allow", None),
            banned: texts("bans", "deny", Some("name")),
            registries: texts("sources", "allow-registry", None),
        }
    }

    /// Violations of a package as `cargo metadata` shows it.
    fn package_complaints(&self, package: &Value) -> Vec<String> {
        let text = |field: &str| package[field].as_str();
        let name = text("name").unwrap_or_default();
        let mut complaints = Vec::new();
        if self.banned.iter().any(|banned| banned == name) {
            complaints.push(format!("{name} is banned"));
        }
        if !text("license").is_some_and(|licence| self.allows_licence(licence)) {
            complaints.push(format!("{name} has the licence {:?}", package["license"]));
        }
        // Our own packages have no source.
        if let Some(source) = text("source")
            && !self.registries.iter().any(|registry| source == format!("registry+{registry}"))
        {
            complaints.push(format!("{name} comes from {source}"));
        }
        complaints
    }

    /// An SPDX expression, also in the old form with a slash for `OR`.
    fn allows_licence(&self, expression: &str) -> bool {
        let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
        let mut words = spaced.split_whitespace().peekable();
        self.any_of(&mut words)
    }

    fn any_of<'a>(&self, words: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>) -> bool {
        let mut allowed = self.all_of(words);
        while words.next_if_eq(&"OR").is_some() {
            allowed |= self.all_of(words);
        }
        allowed
    }

    fn all_of<'a>(&self, words: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>) -> bool {
        let mut allowed = self.one_term(words);
        while words.next_if_eq(&"AND").is_some() {
            allowed &= self.one_term(words);
        }
        allowed
    }

    fn one_term<'a>(&self, words: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>) -> bool {
        let mut licence = match words.next() {
            Some("(") => {
                let (mut inner, mut depth) = (Vec::new(), 1);
                for word in words.by_ref() {
                    depth += match word {
                        "(" => 1,
                        ")" => -1,
                        _ => 0,
                    };
                    if depth == 0 {
                        break;
                    }
                    inner.push(word);
                }
                return self.allows_licence(&inner.join(" "));
            }
            Some(word) => word.to_owned(),
            None => return false,
        };
        if words.next_if_eq(&"WITH").is_some() {
            licence = format!("{licence} WITH {}", words.next().unwrap_or_default());
        }
        self.licences.contains(&licence)
    }
}

#[test]
fn dependencies_follow_deny_rules() {
    let rules = DenyRules::read();
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(repository_root())
        .output()
        .expect("run cargo metadata");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let resolved: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata writes JSON");
    let packages = resolved["packages"].as_array().expect("packages");
    let complaints: Vec<String> =
        packages.iter().flat_map(|package| rules.package_complaints(package)).collect();
    assert!(packages.len() > 100 && complaints.is_empty(), "{complaints:#?}");
}

#[test]
fn deny_rules_refuse_bad_licences() {
    let rules = DenyRules::read();
    for good in [
        "MIT",
        "MIT/Apache-2.0",
        "(GPL-3.0 OR MIT) AND Unicode-3.0",
        "Apache-2.0 WITH LLVM-exception OR GPL-2.0",
    ] {
        assert!(rules.allows_licence(good), "{good}");
    }
    for bad in [
        "",
        "GPL-3.0",
        "MIT AND GPL-3.0",
        "(MIT OR ISC) AND (GPL-3.0 OR AGPL-3.0)",
        "GPL-2.0 WITH Classpath-exception-2.0",
    ] {
        assert!(!rules.allows_licence(bad), "{bad}");
    }
    let of = |name: &str, source: &str| serde_json::json!({"name": name, "license": "MIT", "source": source});
    let registry = format!("registry+{}", rules.registries[0]);
    assert_eq!(rules.package_complaints(&of("serde", &registry)), Vec::<String>::new());
    assert_eq!(rules.package_complaints(&of("openssl-sys", &registry)).len(), 1);
    assert_eq!(rules.package_complaints(&of("serde", "git+https://a.example/serde")).len(), 1);
}
