//! Finds the results that an expression mentions, by scanning its text.
//!
//! Folding needs the mentions of every node; it must not parse, and its result must not depend on the version
//! of the parser. The scan never finds less than evaluation asks for: [`check_node`](super::check_node)
//! rejects an expression with a reference that the scan misses.

use std::collections::BTreeSet;

use super::spec::{NodeEdit, NodeId, NodeSpec};

const ROOT: &str = "results";

/// The nodes whose results the expressions of these edits mention.
pub fn mentioned_by_edits(edits: &[NodeEdit]) -> BTreeSet<NodeId> {
    let specs = edits.iter().filter_map(|edit| match edit {
        NodeEdit::Insert(spec) | NodeEdit::Update(spec) => Some(spec),
        NodeEdit::Delete(_) => None,
    });
    let mentioned = specs.flat_map(|spec| {
        let names = mentioned_by_node(spec);
        spec.parents.iter().filter(move |edge| names.contains(edge.from.as_str()))
    });
    mentioned.map(|edge| edge.from.clone()).collect()
}

/// The parents whose results the node's expressions mention.
pub(super) fn mentioned_by_node(spec: &NodeSpec) -> BTreeSet<&str> {
    let conditions = spec.parents.iter().filter_map(|edge| edge.condition.as_deref());
    let sources = conditions.chain(spec.fan_out.iter().map(|fan_out| fan_out.over.as_str()));
    let mut found: BTreeSet<&str> = sources.flat_map(find_mentions).collect();
    if !found.is_empty() {
        let parents: BTreeSet<&str> = spec.parents.iter().map(|edge| edge.from.as_str()).collect();
        found.retain(|name| parents.contains(name));
    }
    found
}

/// The names behind every `results.NAME`, `results["NAME"]` and `results['NAME']` of a text.
pub(crate) fn find_mentions(source: &str) -> impl Iterator<Item = &str> {
    source.match_indices(ROOT).filter_map(|(at, _)| {
        let rest = source.get(at + ROOT.len()..)?.trim_start();
        if let Some(rest) = rest.strip_prefix('.') {
            let rest = rest.trim_start();
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            return rest.get(..end);
        }
        let rest = rest.strip_prefix('[')?.trim_start();
        let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''))?;
        rest.get(1..)?.split_once(quote).map(|(name, _)| name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_result_syntax_is_found() {
        let source = r#"results.a.n > 1 && results["my-node"].x == results['b'] || size(results . c) > 0"#;
        assert_eq!(find_mentions(source).collect::<Vec<_>>(), ["a", "my-node", "b", "c"]);
    }

    #[test]
    fn other_names_are_no_mentions() {
        assert_eq!(find_mentions("input.n > 1 && results").count(), 0);
    }
}
