//! Drawings of small and large graphs.

use super::{NodeSketch, draw_ascii, draw_svg};
use crate::graph::NodeStatus;

fn sketch(id: &str, parents: &[&str], status: NodeStatus, label: &str) -> NodeSketch {
    let parents = parents.iter().map(|parent| (*parent).to_owned()).collect();
    NodeSketch { id: id.to_owned(), parents, status, label: label.to_owned() }
}

fn diamond() -> Vec<NodeSketch> {
    vec![
        sketch("join", &["left", "right"], NodeStatus::Pending, ""),
        sketch("left", &["root"], NodeStatus::Running, "parent root passed"),
        sketch("right", &["root"], NodeStatus::Crash, "killed\nby OOM"),
        sketch("root", &[], NodeStatus::Pass, ""),
    ]
}

fn wide(count: usize) -> Vec<NodeSketch> {
    let status = |n: usize| if n == 700 { NodeStatus::Fail } else { NodeStatus::Pass };
    let mut nodes: Vec<NodeSketch> =
        (0..count).map(|n| sketch(&format!("n{n:04}"), &["root"], status(n), "")).collect();
    nodes.push(sketch("root", &[], NodeStatus::Pass, ""));
    nodes
}

#[test]
fn small_graph_is_drawn_completely() {
    insta::assert_snapshot!(draw_ascii(&diamond()), @"
    4 nodes: 1 PENDING, 1 RUNNING, 1 PASS, 1 CRASH
    layer 1
      + root  PASS
    layer 2
      > left   RUNNING      <- root  parent root passed
      ! right  CRASH        <- root  killed by OOM
    layer 3
      . join  PENDING      <- left, right
    ");
}

#[test]
fn wide_layer_shows_relevant_nodes() {
    let text = draw_ascii(&wide(1_000));
    assert_eq!(text.lines().count(), 1 + 2 + 1 + 20 + 1);
    assert!(text.lines().nth(4).is_some_and(|line| line.contains("n0700")), "{text}");
    assert!(text.ends_with("  … 980 more: 980 PASS\n"), "{text}");
}

#[test]
fn long_chain_shows_both_ends() {
    let mut nodes = vec![sketch("n0000", &[], NodeStatus::Pass, "")];
    for n in 1..1_000 {
        nodes.push(sketch(&format!("n{n:04}"), &[&format!("n{:04}", n - 1)], NodeStatus::Pending, ""));
    }
    let text = draw_ascii(&nodes);
    assert!(text.contains("… 940 more layers: 940 PENDING\n"), "{text}");
    assert!(text.contains("n0029") && !text.contains("n0030") && text.contains("n0970"), "{text}");
}

#[test]
fn svg_has_boxes_and_curves() {
    let picture = draw_svg(&diamond());
    assert_eq!((picture.matches("<g transform").count(), picture.matches("<path").count()), (4, 4));
    assert!(picture.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
}

#[test]
fn svg_escapes_node_texts() {
    let picture = draw_svg(&[sketch("<a>", &["<a>", "unknown"], NodeStatus::Pass, "\"'&</title><script>")]);
    assert!(!picture.contains("<script") && !picture.contains("<a>"), "{picture}");
    assert!(picture.contains("&lt;a&gt;") && picture.contains("&quot;&#39;&amp;&lt;/title&gt;"), "{picture}");
}

#[test]
fn svg_of_many_nodes_is_bounded() {
    let picture = draw_svg(&wide(20_000));
    assert_eq!(picture.matches("<g transform").count(), 61);
    assert!(picture.contains("19941 more") && picture.len() < 50_000, "{}", picture.len());
}

#[test]
fn empty_graph_is_drawn() {
    assert_eq!(draw_ascii(&[]), "0 nodes: \n");
    assert!(draw_svg(&[]).contains("</svg>"));
}
