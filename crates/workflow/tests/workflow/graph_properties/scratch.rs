//! A reference implementation of the derived fields of a graph.

use std::collections::{BTreeMap, BTreeSet};

use millstream_workflow::graph::{FanOutInstances, Graph, NodeId, NodeStatus};

pub(crate) fn check(graph: &Graph) {
    let mut tally: BTreeMap<NodeStatus, u32> = BTreeMap::new();
    let mut ready: BTreeSet<NodeId> = BTreeSet::new();
    for (id, node) in &graph.nodes {
        *tally.entry(node.status).or_default() += 1;
        assert_eq!(*id, node.spec.id);
        let open = node.spec.parents.iter().filter(|edge| !graph.nodes[&edge.from].status.is_ended());
        assert_eq!(node.waits_for as usize, open.count(), "{id} waits for other parents");
        if node.status == NodeStatus::Pending && node.waits_for == 0 {
            ready.insert(id.clone());
        }
        let children: BTreeSet<NodeId> = graph
            .nodes
            .iter()
            .filter(|(_, child)| child.spec.parents.iter().any(|edge| edge.from == *id))
            .map(|(child, _)| child.clone())
            .collect();
        assert_eq!(node.children, children, "{id} has other children");
        let mentions = children.iter().filter(|child| mentions(graph, child, id)).count();
        assert_eq!(node.mentioned as usize, mentions, "{id} has a different number of mentions");
        if let Some(instances) = node.instances {
            let own: Vec<NodeStatus> = graph
                .nodes
                .values()
                .filter(|instance| instance.of.as_ref().is_some_and(|(fan_out, _)| fan_out == id))
                .map(|instance| instance.status)
                .collect();
            let count =
                |wanted: fn(&NodeStatus) -> bool| own.iter().filter(|status| wanted(status)).count() as u32;
            let scratch = FanOutInstances {
                all: own.len() as u32,
                open: count(|status| !status.is_ended()),
                failed: count(|status| status.is_ended() && *status != NodeStatus::Pass),
            };
            assert_eq!(instances, scratch, "{id} counts other instances");
        }
    }
    assert_eq!(graph.tally.0, tally);
    assert_eq!(graph.ready, ready);
    let fan_outs =
        graph.nodes.values().filter(|node| node.status == NodeStatus::Running && node.spec.fan_out.is_some());
    assert_eq!(graph.running_fan_outs as usize, fan_outs.count());
    assert_eq!(*graph, Graph::from_parts(graph.to_parts()));
}

fn mentions(graph: &Graph, child: &NodeId, parent: &NodeId) -> bool {
    let spec = &graph.nodes[child].spec;
    let conditions = spec.parents.iter().filter_map(|edge| edge.condition.as_ref());
    conditions.chain(spec.fan_out.iter().map(|fan_out| &fan_out.over)).any(|source| {
        let ends = |text: &str| !text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        let dotted = format!("results.{parent}");
        source.contains(&format!("results[\"{parent}\"]"))
            || source.match_indices(&dotted).any(|(at, _)| ends(&source[at + dotted.len()..]))
    })
}
