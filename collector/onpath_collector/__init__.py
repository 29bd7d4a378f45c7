"""The sidecar: receives OTLP, passes it on, judges each trace when it is complete."""
