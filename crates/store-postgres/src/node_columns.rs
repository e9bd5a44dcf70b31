//! Nodes of graphs as arrays, one per column.

use std::borrow::Cow;

use millstream_model::id::ExecutionKey;
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use millstream_store::graph_store::NodeWrite;
use sqlx::Postgres;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;

use crate::decode;

#[derive(Debug)]
pub(crate) struct NodeColumns<'a> {
    tenants: Vec<&'a str>,
    executions: Vec<&'a str>,
    nodes: Vec<&'a str>,
    statuses: Vec<&'static str>,
    attempts: Vec<i64>,
    seqs: Vec<i64>,
    whys: Vec<Option<Cow<'a, str>>>,
    specs: Vec<Option<&'a str>>,
    children: Vec<Option<RawJson>>,
    results: Vec<Option<&'a str>>,
    errors: Vec<Option<Cow<'a, str>>>,
    started: Vec<Option<i64>>,
    ended: Vec<Option<i64>>,
}

impl<'a> NodeColumns<'a> {
    pub(crate) fn of(nodes: &[(&'a ExecutionKey, &'a NodeWrite)]) -> Self {
        let each = || nodes.iter().map(|(_, node)| *node);
        let time = |time: Option<Timestamp>| time.map(Timestamp::as_millis);
        Self {
            tenants: nodes.iter().map(|(key, _)| key.tenant.as_str()).collect(),
            executions: nodes.iter().map(|(key, _)| key.execution.as_str()).collect(),
            nodes: each().map(|node| node.node.as_str()).collect(),
            statuses: each().map(|node| node.status.as_str()).collect(),
            attempts: each().map(|node| i64::from(node.attempt)).collect(),
            seqs: each().map(|node| node.seq.0).collect(),
            whys: each().map(|node| node.why.as_deref().map(decode::strip_nul)).collect(),
            specs: each().map(|node| node.spec.as_ref().map(RawJson::as_str)).collect(),
            children: each().map(|node| node.children.as_ref().map(RawJson::from_value)).collect(),
            results: each().map(|node| node.result.as_ref().map(RawJson::as_str)).collect(),
            errors: each().map(|node| node.error.as_deref().map(decode::strip_nul)).collect(),
            started: each().map(|node| time(node.started_at)).collect(),
            ended: each().map(|node| time(node.ended_at)).collect(),
        }
    }

    /// As `$1` to `$13`.
    pub(crate) fn bound<'q>(&'q self, sql: &'static str) -> Query<'q, Postgres, PgArguments> {
        sqlx::query(sql)
            .bind(&self.tenants)
            .bind(&self.executions)
            .bind(&self.nodes)
            .bind(&self.statuses)
            .bind(&self.attempts)
            .bind(&self.seqs)
            .bind(&self.whys)
            .bind(&self.specs)
            .bind(self.children.iter().map(|list| list.as_ref().map(RawJson::as_str)).collect::<Vec<_>>())
            .bind(&self.results)
            .bind(&self.errors)
            .bind(&self.started)
            .bind(&self.ended)
    }
}
