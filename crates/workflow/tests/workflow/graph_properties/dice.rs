//! Random graphs and edits, derived from one seed.

use std::sync::Arc;

use millstream_model::id::Name;
use millstream_workflow::graph::{Graph, GraphSpec, NodeEdit, NodeId, NodeSpec};

/// SplitMix64: small, and identical on every platform.
pub(crate) struct GraphDice(pub(crate) u64);

impl GraphDice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn of(&mut self, sides: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(sides.max(1)).unwrap()).unwrap()
    }

    pub(crate) fn one<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        (!from.is_empty()).then(|| from[self.of(from.len())].clone())
    }
}

/// Always valid: parents come before their children.
pub(crate) fn graph(dice: &mut GraphDice) -> GraphSpec {
    let count = 1 + dice.of(10);
    let mut ids: Vec<String> = Vec::new();
    let mut nodes = Vec::new();
    for number in 0..count {
        let id = format!("n{number}");
        nodes.push(node(dice, &id, &ids));
        ids.push(id);
    }
    let parallel = ["", r#""max_parallel":1,"#, r#""max_parallel":2,"#][dice.of(3)];
    let retry = [r#"{}"#, r#"{"retry":{"attempts":2,"backoff":"1s","on":["FAIL","CRASH","TASK_ERROR"]}}"#]
        [dice.of(2)];
    let json = format!(
        r#"{{"name":"g","input":{{"list":[1,2],"none":[],"n":2}},"options":{{{parallel}"node":{retry}}},"nodes":[{}]}}"#,
        nodes.join(",")
    );
    serde_json::from_str(&json).expect(&json)
}

/// One node with parents among `known`, as JSON.
fn node(dice: &mut GraphDice, id: &str, known: &[String]) -> String {
    let mut parents: Vec<String> = (0..dice.of(4)).filter_map(|_| dice.one(known)).collect();
    parents.sort();
    parents.dedup();
    let edges: Vec<String> = parents
        .iter()
        .map(|parent| match dice.of(3) {
            0 => format!(r#"{{"node":"{parent}","if":{:?}}}"#, condition(dice, &parents)),
            _ => format!("{parent:?}"),
        })
        .collect();
    let on_failure = ["skip", "skip", "continue"][dice.of(3)];
    let fan_out = match (dice.of(4), dice.one(&parents)) {
        (0, Some(parent)) => format!(r#","fan_out":{{"over":"results[\"{parent}\"].list"}}"#),
        (1, _) => format!(r#","fan_out":{{"over":"input.{}"}}"#, ["list", "none", "n"][dice.of(3)]),
        _ => String::new(),
    };
    let is_final = dice.of(8) == 0;
    let retry =
        ["{}", "{}", r#"{"retry":{"attempts":3,"backoff":"1s","on":["CRASH","TIMEOUT"]}}"#][dice.of(3)];
    format!(
        r#"{{"id":"{id}","parents":[{}],"options":{retry},"on_failure":"{on_failure}","is_final":{is_final}{fan_out}}}"#,
        edges.join(",")
    )
}

/// Conditions that are true, false, and erroneous.
fn condition(dice: &mut GraphDice, parents: &[String]) -> String {
    let parent = dice.one(parents).unwrap_or_default();
    match dice.of(6) {
        0 => "true".to_owned(),
        1 => "false".to_owned(),
        2 => format!("results[\"{parent}\"] > 2"),
        3 => format!("has(results.{parent}) && results.{parent} != null"),
        4 => format!("results.{parent}.n > input.n"),
        _ => "input.n > 1".to_owned(),
    }
}

/// Random edits, valid or invalid.
pub(crate) fn edits(dice: &mut GraphDice, graph: &Graph) -> Vec<NodeEdit> {
    let ids: Vec<NodeId> = graph.nodes.keys().cloned().collect();
    let words: Vec<String> =
        ids.iter().map(|id| id.as_str().to_owned()).filter(|id| !id.contains('.')).collect();
    (0..1 + dice.of(3))
        .filter_map(|_| match dice.of(8) {
            0..=3 => {
                let id = format!("x{}", dice.of(30));
                Some(NodeEdit::Insert(read(&node(dice, &id, &words))))
            }
            4..=5 => {
                let id = dice.one(&ids)?;
                let known: Vec<String> = words.iter().filter(|word| *word != id.as_str()).cloned().collect();
                Some(NodeEdit::Update(read(&node(dice, id.as_str(), &known))))
            }
            6 => dice.one(&ids).map(NodeEdit::Delete),
            _ => Some(NodeEdit::Delete(Name::parse("unknown").unwrap())),
        })
        .collect()
}

fn read(json: &str) -> Arc<NodeSpec> {
    Arc::new(serde_json::from_str(json).expect(json))
}

/// Makes one random part of the spec invalid.
pub(crate) fn spoil(dice: &mut GraphDice, spec: &mut GraphSpec) {
    for _ in 0..1 + dice.of(4) {
        let (at, from) = (dice.of(spec.nodes.len()), dice.of(spec.nodes.len()));
        let other = spec.nodes[from].id.clone();
        let node = &mut spec.nodes[at];
        match dice.of(4) {
            0 => node.parents.push(millstream_workflow::graph::GraphEdge {
                from: other,
                condition: Some("1 +".to_owned()),
            }),
            1 => node.parents.push(millstream_workflow::graph::GraphEdge { from: other, condition: None }),
            2 => node.id = other,
            _ => {
                node.task.dependencies.insert("d".to_owned(), other);
            }
        }
    }
}
