//! Resource usage of a part of a run: CPU by role, and per unit of work.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::batches::BatchStatistics;
use crate::table::{format_mebibytes, new_table, table_cells};
use crate::usage::RoleUsage;

/// Divided by the units of work: an event of a role's usage is such a unit.
#[derive(Debug, Clone, Serialize)]
pub struct WorkCost {
    /// CPU per unit of the engine's own processes; unknown for an engine that was not started here.
    pub engine_cpu_micros: Option<f64>,
    /// The same including PostgreSQL and Redis.
    pub cpu_micros: Option<f64>,
    pub roles: Vec<RoleUsage>,
    /// CPU cores used by other programs: neither the engine, nor its services, nor this process.
    pub cores_taken_by_others: Option<f64>,
    pub database_bytes: Option<f64>,
    pub batches: BTreeMap<String, BatchStatistics>,
}

/// `what` is the unit of work, such as "answer".
pub(crate) fn costs_table(what: &str, costs: &[(&str, &WorkCost)]) -> String {
    let mut table = new_table(&["part", "role", "CPU s", &format!("CPU us/{what}"), "peak MiB"]);
    for (part, cost) in costs {
        for role in &cost.roles {
            table.add_row(table_cells(&[
                (*part).to_owned(),
                role.role.clone(),
                format!("{:.2}", role.cpu_seconds),
                format!("{:.1}", role.cpu_micros_per_event),
                if role.peak_rss == 0 { String::new() } else { format_mebibytes(role.peak_rss) },
            ]));
        }
    }
    table.trim_fmt()
}
