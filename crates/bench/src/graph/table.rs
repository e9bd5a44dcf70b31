//! Results of the graph benchmark, as tables for a terminal.

use super::report::{GraphReport, GraphsReport, NodeCostGrowth};
use crate::report::FigureSpread;
use crate::table::{format_mebibytes, format_whole, new_table, table_cells};
use crate::usage::as_f64;

pub(crate) fn graph_tables(report: &GraphsReport) -> Vec<String> {
    let mut parts = vec![speed_table(&report.graphs), cpu_table(&report.graphs)];
    parts.extend(report.growth.iter().map(growth_text));
    parts.push(format!(
        "The executor answers at once and says that it performs {} nodes at a time.",
        format_whole(f64::from(report.capacity))
    ));
    parts
}

fn speed_table(graphs: &[GraphReport]) -> String {
    let mut table = new_table(&[
        "shape",
        "nodes",
        "edges",
        "graphs",
        "nodes/s",
        "least…most",
        "us/node",
        "engine CPU us/node",
        "with services",
        "db B/node",
        "runs",
    ]);
    for one in graphs {
        let micros = |spread: &Option<FigureSpread>| {
            spread.as_ref().map_or("-".to_owned(), |spread| format!("{:.0}", spread.median))
        };
        table.add_row(table_cells(&[
            one.shape.to_string(),
            format_whole(as_f64(one.nodes)),
            format_whole(as_f64(one.edges)),
            one.median.graphs.to_string(),
            format_whole(one.nodes_per_second.median),
            format!(
                "{}…{}",
                format_whole(one.nodes_per_second.least),
                format_whole(one.nodes_per_second.most)
            ),
            format!("{:.0}", one.micros_per_node.median),
            micros(&one.engine_cpu_micros_per_node),
            micros(&one.cpu_micros_per_node),
            one.median.database_bytes_per_node.map_or("-".to_owned(), format_whole),
            one.runs.len().to_string(),
        ]));
    }
    table.trim_fmt()
}

fn cpu_table(graphs: &[GraphReport]) -> String {
    let mut table = new_table(&["shape", "nodes", "role", "CPU s", "CPU us/node", "peak MiB"]);
    for one in graphs {
        for role in &one.median.roles {
            table.add_row(table_cells(&[
                one.shape.to_string(),
                format_whole(as_f64(one.nodes)),
                role.role.clone(),
                format!("{:.2}", role.cpu_seconds),
                format!("{:.1}", role.cpu_micros_per_event),
                if role.peak_rss == 0 { String::new() } else { format_mebibytes(role.peak_rss) },
            ]));
        }
    }
    table.trim_fmt()
}

fn growth_text(growth: &NodeCostGrowth) -> String {
    let times = |spread: &FigureSpread| {
        format!("{:.2} times ({:.2}…{:.2})", spread.median, spread.least, spread.most)
    };
    let cpu = growth.engine_cpu.as_ref().zip(growth.cpu.as_ref()).map(|(engine, all)| {
        format!(", {} the CPU of the engine, {} with its services", times(engine), times(all))
    });
    format!(
        "{}: a node of {} takes {} the time of one of {}{}.",
        growth.shape,
        format_whole(as_f64(growth.most_nodes)),
        times(&growth.time),
        format_whole(as_f64(growth.least_nodes)),
        cpu.unwrap_or_default()
    )
}
