# /// script
# requires-python = ">=3.11"
# dependencies = ["grafana-foundation-sdk==1769699998!10.1.0"]
# ///
"""Builds the Grafana dashboard: `uv run deploy/grafana/dashboard.py` writes onpath.json beside this file.

`--check` says by its exit code whether the file is current. Prometheus reads the collector's /metrics; panels with
exemplars lead to the traces that they are of, where the data source of Prometheus knows a data source of traces.
"""

from __future__ import annotations

import sys
from pathlib import Path

from grafana_foundation_sdk.builders import bargauge, common, dashboard, prometheus, stat, timeseries
from grafana_foundation_sdk.builders.dashboard import Dashboard, DatasourceVariable, QueryVariable, Row
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import GraphDrawStyle, StackingMode
from grafana_foundation_sdk.models.dashboard import DataSourceRef, Threshold, ThresholdsMode, VariableRefresh

TARGET = Path(__file__).with_name("onpath.json")
SOURCE = DataSourceRef(type_val="prometheus", uid="$datasource")
CHOSEN = 'workflow=~"$workflow"'
RATE, RANGE = "$__rate_interval", "$__range"


def passed(window: str, by: str = "by (workflow) ") -> str:
    """The share of verdicts that are pass; 0, not nothing, for a workflow without any."""
    everything = f"sum {by}(increase(onpath_verdicts_total{{{CHOSEN}}}[{window}]))"
    good = f'sum {by}(increase(onpath_verdicts_total{{{CHOSEN}, verdict="pass"}}[{window}]))'
    return f"({good} or 0 * {everything}) / ({everything} > 0)"


def mean(window: str) -> str:
    total = f"sum by (workflow, evaluation) (increase(onpath_evaluation_score_sum{{{CHOSEN}}}[{window}]))"
    count = f"sum by (workflow, evaluation) (increase(onpath_evaluation_score_count{{{CHOSEN}}}[{window}]))"
    return f"{total} / ({count} > 0)"


def query(expression: str, legend: str, exemplars: bool = False) -> prometheus.Dataquery:
    return prometheus.Dataquery().expr(expression).legend_format(legend).exemplar(exemplars).datasource(SOURCE).range()


def lines(title: str, unit: str, told: str, *queries: prometheus.Dataquery, width: int = 12) -> timeseries.Panel:
    panel = timeseries.Panel().title(title).description(told).unit(unit).datasource(SOURCE).height(8).span(width)
    panel = panel.fill_opacity(10).min(0).line_width(2)
    for number, each in enumerate(queries):
        panel = panel.with_target(each.ref_id("ABCDEF"[number]))
    return panel


def number(title: str, unit: str, told: str, expression: str, steps: list[Threshold]) -> stat.Panel:
    limits = dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps)
    found = prometheus.Dataquery().expr(expression).instant().datasource(SOURCE).ref_id("A")
    panel = stat.Panel().title(title).description(told).unit(unit).datasource(SOURCE).height(4).span(6)
    return panel.thresholds(limits).with_target(found)


def top(title: str, told: str, expression: str, legend: str) -> bargauge.Panel:
    found = prometheus.Dataquery().expr(expression).legend_format(legend).instant().datasource(SOURCE).ref_id("A")
    return (
        bargauge.Panel().title(title).description(told).datasource(SOURCE).height(8).span(12).min(0).with_target(found)
    )


def steps(*limits: tuple[float | None, str]) -> list[Threshold]:
    return [Threshold(value=value, color=color) for value, color in limits]


def in_short() -> list[stat.Panel]:
    rising = steps((None, "red"), (0.8, "orange"), (0.95, "green"))
    judged = f"sum(increase(onpath_traces_judged_total[{RANGE}]))"
    lost = f"sum(increase(onpath_traces_dropped_total[{RANGE}])) or on() vector(0)"
    plain = steps((None, "blue"))
    return [
        number("Pass rate", "percentunit", "Of all verdicts in the time shown.", passed(RANGE, ""), rising),
        number("Runs judged", "short", "In the time shown.", judged, plain),
        number("Runs going on", "short", "Not judged yet.", "sum(onpath_traces_open)", plain),
        number("Runs lost", "short", "Dropped without a verdict.", lost, steps((None, "green"), (1, "red"))),
    ]


def by_workflow() -> list[timeseries.Panel | bargauge.Panel]:
    verdicts = f"sum by (workflow, verdict) (increase(onpath_verdicts_total{{{CHOSEN}}}[{RATE}]))"
    findings = f"sum by (workflow, step, rule) (increase(onpath_findings_total{{{CHOSEN}}}[{RANGE}]))"
    unknown = f"increase(onpath_evaluations_unknown_total{{{CHOSEN}}}[{RANGE}])"
    delay = f"sum by (le) (rate(onpath_verdict_delay_seconds_bucket[{RATE}]))"
    stacked = common.StackingConfig().mode(StackingMode.NORMAL)
    shares = query(passed(RATE), "{{workflow}}", True)
    means = query(mean(RATE), "{{workflow}} {{evaluation}}", True)
    honest = "Scores go to either end: a median of them says little, the mean is honest."
    over_time = lines(
        "Verdicts over time",
        "short",
        "Dots are runs: they lead to their traces.",
        query(verdicts, "{{workflow}} {{verdict}}", True),
    )
    return [
        lines("Pass rate by workflow", "percentunit", "Share of verdicts that are pass.", shares).max(1),
        lines("Mean score by check", "percentunit", honest, means).max(1),
        over_time.draw_style(GraphDrawStyle.BARS).fill_opacity(60).stacking(stacked).span(24),
        top(
            "Top broken steps",
            "What was found wrong most often in the time shown.",
            f"topk(10, {findings}) or on() vector(0)",
            "{{workflow}}: {{step}} {{rule}}",
        ),
        top(
            "Unknown by reason",
            "Why checks could not be decided in the time shown.",
            f"topk(10, sum by (workflow, reason) ({unknown})) or on() vector(0)",
            "{{workflow}}: {{reason}}",
        ),
        lines(
            "From the end of a run to its verdict",
            "s",
            "By the clocks of the agent and the collector: settle_delay, then judging, and models that are asked.",
            query(f"histogram_quantile(0.5, {delay})", "half"),
            query(f"histogram_quantile(0.99, {delay})", "99 of 100"),
            width=24,
        ),
    ]


def health() -> list[timeseries.Panel]:
    lag = f"sum by (le) (rate(onpath_buffer_deadline_lag_seconds_bucket[{RATE}]))"
    took = f"sum by (le, validator) (rate(onpath_evaluation_duration_seconds_bucket{{{CHOSEN}}}[{RATE}]))"
    refused = f"sum by (transport, reason) (increase(onpath_receiver_refused_requests_total[{RATE}])) or on() vector(0)"
    lost = f"sum by (reason) (increase(onpath_spans_dropped_total[{RATE}])) or on() vector(0)"
    return [
        lines(
            "From deadline to release",
            "s",
            "How long after it could have been judged a run was let go; above 1 s the collector is short of CPU.",
            query(f"histogram_quantile(0.5, {lag})", "half"),
            query(f"histogram_quantile(0.99, {lag})", "99 of 100"),
        ),
        lines(
            "Time of a check",
            "s",
            "The slowest of a hundred, by kind of check.",
            query(f"histogram_quantile(0.99, {took})", "{{validator}}"),
        ),
        lines(
            "Room that is used",
            "percentunit",
            "Queues and memory; full means that senders are told to come back.",
            query("onpath_exporter_queue_size / onpath_exporter_queue_capacity", "{{exporter}} {{signal}}"),
            query("onpath_buffer_memory_bytes / onpath_buffer_memory_limit_bytes", "memory"),
            query("onpath_evaluation_queue_size / onpath_evaluation_queue_capacity", "to be judged"),
        ).max(1),
        lines(
            "Sent back, not passed on",
            "short",
            "Requests that senders were told to repeat, and spans that never got on.",
            query(refused, "sent back {{transport}} {{reason}}"),
            query(lost, "not passed on {{reason}}"),
        ),
        lines(
            "Late spans",
            "short",
            "After their run was judged; a longer settle_delay has fewer.",
            query(f"increase(onpath_buffer_late_spans_total[{RATE}])", "{{instance}}"),
            width=8,
        ),
        lines(
            "CPU",
            "percentunit",
            "Of one core.",
            query(f"rate(onpath_process_cpu_seconds_total[{RATE}])", "{{instance}}"),
            width=8,
        ),
        lines("Memory", "bytes", "Resident.", query("onpath_process_resident_memory_bytes", "{{instance}}"), width=8),
    ]


def built() -> Dashboard:
    workflows = (
        QueryVariable("workflow")
        .label("Workflow")
        .query("label_values(onpath_verdicts_total, workflow)")
        .datasource(SOURCE)
        .multi(True)
        .include_all(True)
        .all_value(".*")
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
    )
    board = Dashboard("onpath: do agents keep to their workflows?").uid("onpath").tags(["onpath", "agents"])
    board = board.time("now-6h", "now").refresh("30s").editable()
    board = board.with_variable(DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
    board = board.with_variable(workflows).with_row(Row("Do agents keep to their workflows?"))
    for panel in (*in_short(), *by_workflow()):
        board = board.with_panel(panel)
    board = board.with_row(Row("Is the collector well?"))
    for panel in health():
        board = board.with_panel(panel)
    return board


def main() -> int:
    text = JSONEncoder(sort_keys=True, indent=2).encode(built().build()) + "\n"
    if "--check" in sys.argv:
        return 0 if TARGET.exists() and TARGET.read_text(encoding="utf-8") == text else 1
    TARGET.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
