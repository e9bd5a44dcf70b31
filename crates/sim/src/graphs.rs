//! The store of a simulation, continued: graphs, their feed, executors.

use millstream_model::id::{ExecutionKey, Name, TenantId};
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::executor_store::{ExecutorStore, RegisteredExecutor};
use millstream_store::feed::{Feed, FeedEntry};
use millstream_store::graph_store::{
    DispatchContext, ExecutorLogText, GraphCounts, GraphStore, GraphView, GraphViews, LogView, NodeDispatch,
    NodeFilter, NodeView,
};
use millstream_store::outbox::{
    DeliveredParcel, FeedParcel, Outbox, ParcelBackoff, ParcelLimit, SinkBacklog,
};
use millstream_workflow::graph::NodeId;

use crate::stores::{ScheduledStores, execution_list};

#[async_trait::async_trait]
impl GraphStore for ScheduledStores {
    async fn record_dispatches(
        &self,
        batch: &[NodeDispatch],
        result_bytes: usize,
        now: Timestamp,
    ) -> StoreResult<Vec<Option<DispatchContext>>> {
        let about = || {
            let item =
                |one: &NodeDispatch| format!("{}/{}#{}", one.execution.execution, one.node, one.attempt);
            batch.iter().map(item).collect::<Vec<_>>().join(",")
        };
        let (me, owned) = (self.clone(), batch.to_vec());
        let effect = async move { me.truth.graphs.record_dispatches(&owned, result_bytes, now).await };
        self.role.send("dispatch", about, effect).await
    }

    async fn append_logs(&self, logs: &[ExecutorLogText], now: Timestamp) -> StoreResult<()> {
        let (me, owned) = (self.clone(), logs.to_vec());
        let effect = async move { me.truth.graphs.append_logs(&owned, now).await };
        self.role.send("keep_logs", String::new, effect).await
    }
}

#[async_trait::async_trait]
impl GraphViews for ScheduledStores {
    async fn find_graphs(&self, executions: &[ExecutionKey]) -> StoreResult<Vec<Option<GraphView>>> {
        self.role
            .call("graphs", || execution_list(executions), self.truth.graph_views.find_graphs(executions))
            .await
    }

    async fn list_nodes(
        &self,
        execution: &ExecutionKey,
        filter: &NodeFilter,
        after: Option<&NodeId>,
        limit: usize,
    ) -> StoreResult<Vec<NodeView>> {
        let effect = self.truth.graph_views.list_nodes(execution, filter, after, limit);
        self.role.call("nodes", || execution_list([execution]), effect).await
    }

    async fn read_logs(
        &self,
        execution: &ExecutionKey,
        node: &NodeId,
        after: i64,
        limit: usize,
    ) -> StoreResult<Vec<LogView>> {
        let effect = self.truth.graph_views.read_logs(execution, node, after, limit);
        self.role.call("logs", || execution_list([execution]), effect).await
    }

    async fn graph_counts(&self) -> StoreResult<GraphCounts> {
        self.role.call("graph_counts", String::new, self.truth.graph_views.graph_counts()).await
    }
}

#[async_trait::async_trait]
impl Feed for ScheduledStores {
    async fn read_feed(
        &self,
        execution: &ExecutionKey,
        after: i64,
        limit: usize,
    ) -> StoreResult<Vec<FeedEntry>> {
        let effect = self.truth.feed.read_feed(execution, after, limit);
        self.role.call("feed", || execution_list([execution]), effect).await
    }
}

#[async_trait::async_trait]
impl Outbox for ScheduledStores {
    async fn spread_entries(&self, sinks: &[Name], limit: usize, now: Timestamp) -> StoreResult<usize> {
        let (me, owned) = (self.clone(), sinks.to_vec());
        let effect = async move { me.truth.outbox.spread_entries(&owned, limit, now).await };
        self.role.send("spread", String::new, effect).await
    }

    async fn due_parcels(
        &self,
        sink: &Name,
        limit: ParcelLimit,
        now: Timestamp,
    ) -> StoreResult<Vec<FeedParcel>> {
        self.role.call("due", || sink.to_string(), self.truth.outbox.due_parcels(sink, limit, now)).await
    }

    async fn advance_sinks(
        &self,
        sink: &Name,
        parcels: &[DeliveredParcel],
        now: Timestamp,
    ) -> StoreResult<()> {
        let (me, to, owned) = (self.clone(), sink.clone(), parcels.to_vec());
        let effect = async move { me.truth.outbox.advance_sinks(&to, &owned, now).await };
        self.role.send("handed_over", || sink.to_string(), effect).await
    }

    async fn postpone_parcels(&self, sink: &Name, executions: &[ParcelBackoff]) -> StoreResult<()> {
        let (me, to, owned) = (self.clone(), sink.clone(), executions.to_vec());
        let effect = async move { me.truth.outbox.postpone_parcels(&to, &owned).await };
        self.role.send("put_off", || sink.to_string(), effect).await
    }

    async fn count_backlogs(&self) -> StoreResult<Vec<SinkBacklog>> {
        self.role.call("backlogs", String::new, self.truth.outbox.count_backlogs()).await
    }
}

#[async_trait::async_trait]
impl ExecutorStore for ScheduledStores {
    async fn record_executor_heartbeats(
        &self,
        executors: &[RegisteredExecutor],
        now: Timestamp,
    ) -> StoreResult<()> {
        let effect = self.truth.executors.record_executor_heartbeats(executors, now);
        self.role.call("beat_executors", String::new, effect).await
    }

    async fn retire_executors(&self, executors: &[(TenantId, Name)]) -> StoreResult<()> {
        let effect = self.truth.executors.retire_executors(executors);
        self.role.call("retire_executors", String::new, effect).await
    }

    async fn list_executors(&self, since: Timestamp) -> StoreResult<Vec<(RegisteredExecutor, Timestamp)>> {
        self.role.call("executors", String::new, self.truth.executors.list_executors(since)).await
    }

    async fn list_executors_of(
        &self,
        tenant: &TenantId,
        since: Timestamp,
    ) -> StoreResult<Vec<(RegisteredExecutor, Timestamp)>> {
        let effect = self.truth.executors.list_executors_of(tenant, since);
        self.role.call("executors_of", String::new, effect).await
    }

    async fn forget_executors(&self, before: Timestamp) -> StoreResult<usize> {
        let effect = self.truth.executors.forget_executors(before);
        self.role.call("forget_executors", String::new, effect).await
    }
}
