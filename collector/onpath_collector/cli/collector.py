"""`onpath collector`: options and file to settings, settings and policy to a running service."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import click
import yaml

from onpath_collector.config import ConfigError, Settings, load_settings, shown

REFUSED = 2  # a configuration or policy that is not used; policies may say 4 or 5 (policy.md)


@click.command("collector", short_help="Receive OTLP, pass it on, judge each trace.")
@click.option("--config", "config", type=click.Path(path_type=Path), metavar="FILE", help="Settings, as onpath.yaml.")
@click.option("--policy", metavar="PATH", help="The policy: a file, or a folder of them.")
@click.option("--grpc", metavar="HOST:PORT", help="Where to receive OTLP/gRPC  [127.0.0.1:4317]")
@click.option("--http", metavar="HOST:PORT", help="Where to receive OTLP/HTTP  [127.0.0.1:4318]")
@click.option("--admin", metavar="HOST:PORT", help="Status page, metrics, health, results  [127.0.0.1:13133]")
@click.option("--forward", metavar="URL", help="Where to pass everything on: grpc://HOST:PORT or http://HOST:PORT.")
@click.option("--journal", metavar="DIR", help="Keep what was acknowledged there, through crashes and restarts.")
@click.option("--report-file", metavar="PATH", help="One JSON report a line; - is standard output.")
@click.option("--settle-delay", metavar="TIME", help="Wait after a trace's root has ended  [2s]")
@click.option("--log-format", type=click.Choice(["console", "json"]), help="[console on a terminal, else json]")
@click.option("--print-config", is_flag=True, help="Print the settings in force, secrets hidden, and leave.")
@click.pass_context
def command(ctx: click.Context, /, config: Path | None, print_config: bool, **options: str | None) -> None:
    """Receive OTLP from agents, pass it on downstream, and judge each trace when it is complete.

    Settings come from the options here, then ONPATH_* variables, then --config FILE, then defaults. Without any, it
    receives on loopback and prints verdicts. SIGTERM and Ctrl-C stop it cleanly.
    """
    try:
        settings = load_settings(config, _nested(options))
    except ConfigError as error:
        for problem in error.problems:
            click.echo(f"onpath: {problem}", err=True)
        ctx.exit(REFUSED)
    except (OSError, UnicodeDecodeError) as error:
        click.echo(f"onpath: {config}: {getattr(error, 'strerror', None) or error}", err=True)
        ctx.exit(REFUSED)
    if print_config:
        click.echo(yaml.safe_dump(shown(settings), sort_keys=False), nl=False)
        ctx.exit(0)
    ctx.exit(_run(settings, config.parent if config else None))


def _nested(options: dict[str, str | None]) -> dict[str, Any]:
    """The common options, in the places of the settings that they stand for."""
    found: dict[str, Any] = {}
    for name, path in _PLACES.items():
        value = options[name]
        if value is None:
            continue
        at = found
        for part in path[:-1]:
            at = at.setdefault(part, {})
        at[path[-1]] = value
    if options["journal"] is not None:
        found["durability"]["mode"] = "journal"
    return found


_PLACES = {
    "policy": ("policy",),
    "grpc": ("receivers", "grpc", "endpoint"),
    "http": ("receivers", "http", "endpoint"),
    "admin": ("admin", "endpoint"),
    "forward": ("forward", "endpoint"),
    "journal": ("durability", "directory"),
    "report_file": ("results", "report_file"),
    "settle_delay": ("buffer", "settle_delay"),
    "log_format": ("log", "format"),
}


def _run(settings: Settings, folder: Path | None) -> int:
    # Here, not above: printing help or settings needs no service.
    from onpath.policy.load import PolicyError
    from onpath_collector.exporters.console import set_up_logging
    from onpath_collector.policy_source import PolicySource
    from onpath_collector.serving import StartError, serve

    set_up_logging(settings.log.format, settings.log.level)
    source = PolicySource(settings.policy, folder) if settings.policy is not None else None
    try:
        asyncio.run(serve(settings, source))
    except PolicyError as error:
        for problem in error.problems:
            click.echo(f"onpath: {problem}", err=True)
        return error.exit_code
    except StartError as error:
        click.echo(f"onpath: {error}", err=True)
        return error.exit_code
    return 0
