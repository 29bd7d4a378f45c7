"""`onpath wait`: waits for the verdict on a trace, from a collector's admin port; for scripts and CI.

GET /v1/reports/TRACE_ID:wait -> report -> the view or the JSON of `onpath check`, and its exit codes.
"""

from __future__ import annotations

import json
import os
import re
import ssl
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Final, NoReturn

import click
from rich.console import Console

from onpath.cli.judged import Judged, table
from onpath.cli.text import printable
from onpath_collector.cli.asked import FAILURES, Place, address, failure
from onpath_collector.config import AdminConfig, ConfigError, load_settings
from onpath_collector.security import SecretError, read_secret

NO_ANSWER: Final = 2
TIME_OUT: Final = 3
_TOKEN: Final = "ONPATH_TOKEN"
_SLACK: Final = 5.0  # seconds that an answer may take beyond what it was asked to wait
_TRACE_ID: Final = re.compile("[0-9a-fA-F]{32}")


def _trace_id(_: click.Context, __: click.Parameter, value: str) -> str:
    if not _TRACE_ID.fullmatch(value):
        raise click.BadParameter(f"{value!r} is not 32 hex digits")
    return value


@click.command("wait", short_help="Wait for the verdict on a trace; exit codes as check.")
@click.argument("trace_id", metavar="TRACE_ID", callback=_trace_id)
@click.option("--config", type=click.Path(path_type=Path), metavar="FILE", help="The collector's settings.")
@click.option("--admin", callback=address, metavar="HOST:PORT", help="Its admin port  [127.0.0.1:13133]")
@click.option("--timeout", type=click.FloatRange(0, 600), default=60.0, show_default=True, metavar="SECONDS")
@click.option("--token-file", type=click.Path(path_type=Path), metavar="FILE", help=f"Bearer token  [${_TOKEN}]")
@click.option(
    "--ca", type=click.Path(path_type=Path), metavar="FILE", help="Speak TLS, and trust this authority (PEM)."
)
@click.option("--format", "chosen", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.option("--strict", is_flag=True, help="Count what is unknown as failed.")
@click.pass_context
def command(ctx: click.Context, /, trace_id: str, timeout: float, chosen: str, strict: bool, **place: Any) -> None:
    """Wait until a collector has judged the trace TRACE_ID (32 hex digits), and show what it says.

    Ends with 1 if any workflow failed, 3 if none passed or failed or time is up, else 0; with 2 if the collector gives
    no answer. Where to ask is said by the options, else as to the collector: by ONPATH_ADMIN__ENDPOINT, then --config.
    """
    try:
        collector, token = _collector(**place)
    except (ConfigError, SecretError) as error:
        _end(ctx, str(error), NO_ANSWER)
    except (OSError, ValueError) as error:
        _end(ctx, failure(error), NO_ANSWER)
    try:
        status, answer = _ask(collector, token, trace_id, timeout)
    except FAILURES as error:
        _end(ctx, collector.no_answer(error), NO_ANSWER)
    if status != 200:
        _end(ctx, str(answer.get("error", f"status {status}")), TIME_OUT if status == 504 else NO_ANSWER)
    verdicts = Counter(result["verdict"] for result in answer["results"])
    judged = Judged(results=answer["results"], verdicts=verdicts, traces=1, strict=strict)
    if chosen == "json":
        for result in judged.results:
            click.echo(json.dumps(result))
    else:
        table.show(judged, Console(highlight=False, width=None if sys.stdout.isatty() else 140))
    ctx.exit(judged.exit_code)


def _end(ctx: click.Context, message: str, code: int) -> NoReturn:
    for line in message.splitlines():
        click.echo(f"onpath: {printable(line)}", err=True)
    ctx.exit(code)


def _collector(
    config: Path | None, admin: str | None, token_file: Path | None, ca: Path | None
) -> tuple[Place, str | None]:
    """Where to ask, and with which token. Raises ConfigError, SecretError, OSError."""
    settings = load_settings(config, {}).admin
    return Place.of(admin or settings.endpoint, _context(settings, ca)), _token(settings, token_file)


def _token(settings: AdminConfig, file: Path | None) -> str | None:
    files = [file] if file is not None else [] if _TOKEN in os.environ else settings.bearer_token_files[:1]
    for each in files:
        return next((line.strip() for line in read_secret(each).decode().splitlines() if line.strip()), None)
    return os.environ.get(_TOKEN)


def _context(settings: AdminConfig, ca: Path | None) -> ssl.SSLContext | None:
    """Whoever gets the token must be the collector: known by `ca`, else by the very certificate in its settings."""
    tls = settings.tls
    if ca is None and tls.cert is None:
        return None
    context = ssl.create_default_context(cafile=ca or tls.cert)
    if ca is None:
        context.check_hostname = False
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if tls.client_ca is not None and tls.cert is not None:
        context.load_cert_chain(tls.cert, tls.key)
    return context


def _ask(collector: Place, token: str | None, trace_id: str, timeout: float) -> tuple[int, dict[str, Any]]:
    connection = collector.connection(timeout + _SLACK)
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    try:
        connection.request("GET", f"/v1/reports/{trace_id}:wait?timeout={timeout:.3f}s", headers=headers)
        answer = connection.getresponse()
        found = json.loads(answer.read())
        if not isinstance(found, dict):
            raise ValueError("this is no collector")
        return answer.status, found
    finally:
        connection.close()
