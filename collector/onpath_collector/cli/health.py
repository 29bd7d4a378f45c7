"""`onpath health`: asks a collector's admin port whether it takes requests; for probes that run a command.

Probes run again and again: where only the address is to be known, the settings are not loaded, which would be most of
the work.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from onpath_collector.cli.asked import FAILURES, Place, address, failure, is_address

if TYPE_CHECKING:
    import ssl

    from onpath_collector.config import ServerTlsConfig

_DEFAULT: Final = "127.0.0.1:13133"  # as in the settings
_ENDPOINT: Final = "ONPATH_ADMIN__ENDPOINT"


@click.command("health", short_help="Ask a collector whether it is ready: 0 or 1.")
@click.option("--config", type=click.Path(path_type=Path), metavar="FILE", help="The collector's settings.")
@click.option("--admin", callback=address, metavar="HOST:PORT", help="Its admin port  [127.0.0.1:13133]")
@click.option("--live", is_flag=True, help="Ask only whether it answers at all: for liveness probes.")
@click.option("--timeout", type=click.FloatRange(min=0.1), default=3.0, show_default=True, metavar="SECONDS")
@click.pass_context
def command(ctx: click.Context, config: Path | None, admin: str | None, live: bool, timeout: float) -> None:
    """Ask a collector whether it accepts requests. Ends with 0 if it does, with 1 if not or if it cannot be reached.

    With --live one that is still starting, or already stopping, is well too.

    Where to ask is said by the option, else as to the collector: by ONPATH_ADMIN__ENDPOINT, then by --config FILE.
    """
    path = "/livez" if live else "/healthz"
    try:
        place = _place(config, admin)
        state, well = _ask(place, path, timeout)
    except _Unusable as error:
        state, well = str(error), False
    click.echo(state, err=not well)
    ctx.exit(0 if well else 1)


class _Unusable(Exception):
    """The settings have problems; they are told one a line."""


def _place(config: Path | None, admin: str | None) -> Place:
    """Where the collector is asked, and how, by its settings. Raises _Unusable."""
    said = {name for name in os.environ if name.upper().partition("__")[0] == "ONPATH_ADMIN"}
    endpoint = os.environ.get(_ENDPOINT) or _DEFAULT
    if config is None and said <= {_ENDPOINT} and is_address(endpoint):
        return Place.of(admin or endpoint)
    try:
        from onpath_collector.config import ConfigError, load_settings
    except ModuleNotFoundError:
        raise _Unusable("settings are read with more than the library: pip install 'onpath[collector]'") from None
    try:
        settings = load_settings(config, {}).admin
        return Place.of(admin or settings.endpoint, _context(settings.tls))
    except ConfigError as error:
        raise _Unusable("\n".join(error.problems)) from None
    except (OSError, ValueError) as error:
        raise _Unusable(failure(error)) from None


def _ask(place: Place, path: str, patience: float) -> tuple[str, bool]:
    """What the collector says, and whether it is well."""
    connection = place.connection(patience)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.read(1000).decode("utf-8", "replace").strip(), answer.status == 200
    except FAILURES as error:
        return place.no_answer(error), False
    finally:
        connection.close()


def _context(tls: ServerTlsConfig) -> ssl.SSLContext | None:
    """Nothing secret is sent and the answer is a yes or no: whose certificate it is does not matter. Where clients must
    show one, the collector's own is shown."""
    if tls.cert is None:
        return None
    import ssl

    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if tls.client_ca is not None:
        context.load_cert_chain(tls.cert, tls.key)
    return context
