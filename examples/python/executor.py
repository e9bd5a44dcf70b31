"""An executor of graph nodes in Python.

    python3 -m venv venv && venv/bin/pip install grpcio grpcio-tools
    venv/bin/python -m grpc_tools.protoc -I crates/rpc/proto --python_out=. --grpc_python_out=. \
        millstream/v1/node.proto millstream/v1/node_service.proto
    PYTHONPATH=. venv/bin/python examples/python/executor.py

It answers every node with the length of its goal, and says again and again that it is there.
"""

import json
import os
import time
from concurrent import futures

import grpc
from millstream.v1 import node_pb2, node_service_pb2, node_service_pb2_grpc

ENGINE = os.environ.get("MILLSTREAM_URL", "http://127.0.0.1:7400").removeprefix("http://")
NAME = os.environ.get("EXECUTOR_NAME", "python")


class Performer(node_service_pb2_grpc.NodeServiceServicer):
    def ExecuteNode(self, request, context):
        task = request.node.assigned_task
        if task.goal == "refuse":
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "not this")
        results = {"length": len(task.goal), "upstream": [node.id for node in request.upstream_nodes]}
        return node_service_pb2.ExecuteNodeResponse(
            workflow_id=request.workflow_id,  # an answer says whose it is
            node_id=request.node_id,
            status=node_pb2.NODE_STATUS_PASS,
            results_json=json.dumps(results),
            logs=f"performed {request.node_id}\n",
        )


def main():
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=16))
    node_service_pb2_grpc.add_NodeServiceServicer_to_server(Performer(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    executors = node_service_pb2_grpc.ExecutorServiceStub(grpc.insecure_channel(ENGINE))
    me = node_service_pb2.Executor(name=NAME, address=f"http://127.0.0.1:{port}", capacity=16)
    while True:
        wait = 1.0
        try:
            answer = executors.RegisterExecutor(node_service_pb2.RegisterExecutorRequest(executor=me), timeout=5)
            wait = answer.beat_every.ToTimedelta().total_seconds()
        except grpc.RpcError as error:
            print(f"not registered: {error.code()}", flush=True)
        time.sleep(wait)


if __name__ == "__main__":
    main()
