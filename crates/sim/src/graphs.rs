//! The store of a simulation, continued: graphs, their feed, executors.

use millstream_core::graph::NodeId;
use millstream_core::id::{ExecutionKey, Name, TenantId};
use millstream_core::time::Timestamp;
use millstream_store::Result;
use millstream_store::executor_store::{Executor, ExecutorStore};
use millstream_store::feed::{Feed, FeedEntry};
use millstream_store::graph_store::{
    Dispatch, DispatchContext, GraphCounts, GraphStore, GraphView, GraphViews, LogView, NodeFilter, NodeLog,
    NodeView,
};
use millstream_store::outbox::{HandedOver, Limit, Outbox, Parcel, PutOff, SinkBacklog};

use crate::stores::{Scheduled, listed};

#[async_trait::async_trait]
impl GraphStore for Scheduled {
    async fn dispatch(
        &self,
        batch: &[Dispatch],
        result_bytes: usize,
        now: Timestamp,
    ) -> Result<Vec<Option<DispatchContext>>> {
        let about = || {
            let item = |one: &Dispatch| format!("{}/{}#{}", one.execution.execution, one.node, one.attempt);
            batch.iter().map(item).collect::<Vec<_>>().join(",")
        };
        let (me, owned) = (self.clone(), batch.to_vec());
        let effect = async move { me.truth.graphs.dispatch(&owned, result_bytes, now).await };
        self.role.send("dispatch", about, effect).await
    }

    async fn keep_logs(&self, logs: &[NodeLog], now: Timestamp) -> Result<()> {
        let (me, owned) = (self.clone(), logs.to_vec());
        let effect = async move { me.truth.graphs.keep_logs(&owned, now).await };
        self.role.send("keep_logs", String::new, effect).await
    }
}

#[async_trait::async_trait]
impl GraphViews for Scheduled {
    async fn graphs(&self, executions: &[ExecutionKey]) -> Result<Vec<Option<GraphView>>> {
        self.role.call("graphs", || listed(executions), self.truth.graph_views.graphs(executions)).await
    }

    async fn nodes(
        &self,
        execution: &ExecutionKey,
        filter: &NodeFilter,
        after: Option<&NodeId>,
        limit: usize,
    ) -> Result<Vec<NodeView>> {
        let effect = self.truth.graph_views.nodes(execution, filter, after, limit);
        self.role.call("nodes", || listed([execution]), effect).await
    }

    async fn logs(
        &self,
        execution: &ExecutionKey,
        node: &NodeId,
        after: i64,
        limit: usize,
    ) -> Result<Vec<LogView>> {
        let effect = self.truth.graph_views.logs(execution, node, after, limit);
        self.role.call("logs", || listed([execution]), effect).await
    }

    async fn graph_counts(&self) -> Result<GraphCounts> {
        self.role.call("graph_counts", String::new, self.truth.graph_views.graph_counts()).await
    }
}

#[async_trait::async_trait]
impl Feed for Scheduled {
    async fn feed(&self, execution: &ExecutionKey, after: i64, limit: usize) -> Result<Vec<FeedEntry>> {
        let effect = self.truth.feed.feed(execution, after, limit);
        self.role.call("feed", || listed([execution]), effect).await
    }
}

#[async_trait::async_trait]
impl Outbox for Scheduled {
    async fn spread(&self, sinks: &[Name], limit: usize, now: Timestamp) -> Result<usize> {
        let (me, owned) = (self.clone(), sinks.to_vec());
        let effect = async move { me.truth.outbox.spread(&owned, limit, now).await };
        self.role.send("spread", String::new, effect).await
    }

    async fn due(&self, sink: &Name, limit: Limit, now: Timestamp) -> Result<Vec<Parcel>> {
        self.role.call("due", || sink.to_string(), self.truth.outbox.due(sink, limit, now)).await
    }

    async fn handed_over(&self, sink: &Name, parcels: &[HandedOver], now: Timestamp) -> Result<()> {
        let (me, to, owned) = (self.clone(), sink.clone(), parcels.to_vec());
        let effect = async move { me.truth.outbox.handed_over(&to, &owned, now).await };
        self.role.send("handed_over", || sink.to_string(), effect).await
    }

    async fn put_off(&self, sink: &Name, executions: &[PutOff]) -> Result<()> {
        let (me, to, owned) = (self.clone(), sink.clone(), executions.to_vec());
        let effect = async move { me.truth.outbox.put_off(&to, &owned).await };
        self.role.send("put_off", || sink.to_string(), effect).await
    }

    async fn backlogs(&self) -> Result<Vec<SinkBacklog>> {
        self.role.call("backlogs", String::new, self.truth.outbox.backlogs()).await
    }
}

#[async_trait::async_trait]
impl ExecutorStore for Scheduled {
    async fn beat_executors(&self, executors: &[Executor], now: Timestamp) -> Result<()> {
        let effect = self.truth.executors.beat_executors(executors, now);
        self.role.call("beat_executors", String::new, effect).await
    }

    async fn retire_executors(&self, executors: &[(TenantId, Name)]) -> Result<()> {
        let effect = self.truth.executors.retire_executors(executors);
        self.role.call("retire_executors", String::new, effect).await
    }

    async fn executors(&self, since: Timestamp) -> Result<Vec<(Executor, Timestamp)>> {
        self.role.call("executors", String::new, self.truth.executors.executors(since)).await
    }

    async fn executors_of(&self, tenant: &TenantId, since: Timestamp) -> Result<Vec<(Executor, Timestamp)>> {
        let effect = self.truth.executors.executors_of(tenant, since);
        self.role.call("executors_of", String::new, effect).await
    }

    async fn forget_executors(&self, before: Timestamp) -> Result<usize> {
        let effect = self.truth.executors.forget_executors(before);
        self.role.call("forget_executors", String::new, effect).await
    }
}
