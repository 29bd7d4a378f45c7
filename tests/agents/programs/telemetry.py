"""Spans by the framework's own environment: the OpenTelemetry SDK's batch processor and OTLP gRPC exporter.

Where to is said by OTEL_EXPORTER_OTLP_ENDPOINT, as in any application; the SDK flushes when the program ends.
"""

from __future__ import annotations

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor


def start() -> TracerProvider:
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    return provider
