"""The results API on the admin address: the same calls over gRPC and over HTTP.

gRPC (grpc_server) --> Calls --> Reports, TraceBuffer
HTTP (http_app)    -->
"""

from onpath_collector.results_api.calls import CallError, Calls
from onpath_collector.results_api.grpc_server import GrpcApi
from onpath_collector.results_api.http_app import HttpApi

__all__ = ["CallError", "Calls", "GrpcApi", "HttpApi"]
