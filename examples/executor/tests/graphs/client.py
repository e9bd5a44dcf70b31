"""A generated client: creates a workflow, watches it to its end, and says what it saw as JSON."""

import json
import os

import grpc
from millstream.v1 import node_pb2, workflow_pb2, workflow_service_pb2, workflow_service_pb2_grpc

channel = grpc.insecure_channel(os.environ["MILLSTREAM_URL"].removeprefix("http://"))
workflows = workflow_service_pb2_grpc.WorkflowServiceStub(channel)


def node(name, goal, *parents):
    edges = [node_pb2.Parent(node=parent) for parent in parents]
    return node_pb2.Node(id=name, assigned_task=node_pb2.Task(goal=goal), parents=edges)


def create(nodes):
    metadata = workflow_pb2.WorkflowMetadata(name="from python")
    workflow = workflow_pb2.Workflow(metadata=metadata, nodes=nodes)
    return workflows.CreateWorkflow(workflow_service_pb2.CreateWorkflowRequest(workflow=workflow)).workflow


refusals = {}
for name, nodes in {
    "cycle": [node("a", "", "b"), node("b", "", "a")],
    "unknown": [node("a", "", "nowhere")],
    "twice": [node("a", ""), node("a", "")],
    "many": [node(f"n{number}", "") for number in range(100_000)],
}.items():
    try:
        create(nodes)
    except grpc.RpcError as error:
        refusals[name] = [error.code().name, error.details()]

workflow = create([node("a", "four"), node("b", "seven!!", "a")])
events = []
request = workflow_service_pb2.WatchWorkflowRequest(workflow_id=workflow.workflow_id)
for event in workflows.WatchWorkflow(request, timeout=60):
    events.append(event.WhichOneof("what"))
found = workflows.GetNode(workflow_service_pb2.GetNodeRequest(workflow_id=workflow.workflow_id, node_id="b")).node
print(json.dumps({
    "refusals": refusals,
    "events": events,
    "results": json.loads(found.assigned_task.results_json),
    "executor": found.executor,
}))
