"""The one command `onpath`. Its subcommands come from this package and from the entry-point group `onpath.commands`.

Wrong usage ends with 64 everywhere, an interrupt with 130; what else a command ends with is its own (results.md
section 4, policy.md).
"""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Final

import click

USAGE: Final = 64
INTERRUPTED: Final = 130  # as a shell says of what SIGINT has ended
click.UsageError.exit_code = USAGE

# Commands of the library, by module below this package that holds `command`; each is imported when it is called.
_OWN: Final = {
    "check": "check",
    "preflight": "preflight",
    "score": "score",
    "steps": "steps",
    "validate": "validate",
}
# Commands that an extra brings, with what to install when it is not there.
_EXTRA: Final = dict.fromkeys(("collector", "health", "wait"), "onpath[collector]")


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*_OWN, *_EXTRA})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _OWN:
            found: click.Command = import_module(f"{__name__}.{_OWN[cmd_name]}").command
            return found
        for point in entry_points(group="onpath.commands", name=cmd_name):
            try:
                found = point.load()
            except ModuleNotFoundError:
                break  # the entry point is always there, what it needs comes with the extra
            return found
        return _missing(cmd_name, _EXTRA[cmd_name]) if cmd_name in _EXTRA else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            close = get_close_matches(args[0], self.list_commands(ctx), 1)
            hint = f" Did you mean '{close[0]}'?" if close else ""
            raise click.UsageError(error.message + hint, ctx) from None

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:  # click would end with 1, which is a verdict here
            click.echo("onpath: interrupted", err=True)
            ctx.exit(INTERRUPTED)


def _missing(name: str, extra: str) -> click.Command:
    @click.command(name, context_settings={"ignore_unknown_options": True}, short_help=f"Needs {extra}.")
    @click.argument("rest", nargs=-1, type=click.UNPROCESSED)
    @click.pass_context
    def command(ctx: click.Context, rest: tuple[str, ...]) -> None:
        click.echo(f"onpath: `onpath {name}` needs more than the library: pip install '{extra}'", err=True)
        ctx.exit(2)

    return command


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="onpath")
def main() -> None:
    """Keeps AI agents on path: checks what agents did against the workflows you declared."""
