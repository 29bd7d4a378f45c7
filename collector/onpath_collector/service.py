"""The collector put together: owns the loop's clock, what is started and stopped in which order, and the counts.

    receiver -> Service.traces(bytes) -> split -> forward queue, TraceBuffer        (one call, nothing waits)
    TraceBuffer -> released traces -> Judge (worker processes) -> Outcome -> exporters

The only module that wires things and reads a clock.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from onpath.policy.model import Policy
from onpath.results import version
from onpath_collector.buffer import BufferSettings, Released, TraceBuffer
from onpath_collector.config import ForwardConfig, Settings
from onpath_collector.downstream import Downstream, GrpcSender, is_own_endpoint
from onpath_collector.downstream import Signal as TelemetrySignal
from onpath_collector.exporters.base import ResultExporter
from onpath_collector.exporters.console import Console
from onpath_collector.exporters.otlp import OtlpResults
from onpath_collector.exporters.report_file import ReportFile
from onpath_collector.forward import Forwarder, ForwardSettings, RetrySettings
from onpath_collector.judging import INSTANCE, Job, Outcome, Setup
from onpath_collector.otlp import Batch, count_items, split
from onpath_collector.receivers.base import Accepted, Refused
from onpath_collector.receivers.otlp_grpc import GrpcReceiver, GrpcSettings, ListenError
from onpath_collector.workers import JobFailed, JobTimeout, Judge, Pool, Threaded

log: Final = logging.getLogger("onpath")
