"""What sinks share: a result as they get it, HTTP to their backend, and what its answers mean.

JSON line of a Result -> Scored -> Sink.send(Http, Scored) -> Delivered | Retry | Failed
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

import aiohttp

from onpath.results import json_text, version
from onpath_collector.downstream.base import Delivered, Failed, Outcome, Retry
from onpath_collector.downstream.otlp_http import read_limited, retry_after
from onpath_collector.judging import Place

_LARGE: Final = frozenset({"findings", "alignment"})  # of an evaluation; only the line has them while it waits
_TOLD: Final = 200  # characters of an error's body that are told
_LONGEST_EXPLANATION: Final = 4000  # characters; backends refuse or cut longer ones, and the report file has them


class Problem(Exception):
    """A sink that can't be; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a sink's settings come from: its `url`, else the environment."""

    configured: str | None
    environment: Mapping[str, str]

    def url(self, *variables: str, default: str | None = None) -> str:
        """Without a slash at its end. Raises Problem."""
        found = self.configured or self.optional(*variables) or default
        if not found:
            told = f" or {' or '.join(variables)} in the environment" if variables else ""
            raise Problem(f"it needs a url{told}")
        parts = urlsplit(found)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Problem(f"{found!r} is not a url such as https://HOST:PORT")
        return found.rstrip("/")

    def optional(self, *variables: str) -> str | None:
        """The first of these variables that is set."""
        return next((value for name in variables if (value := self.environment.get(name))), None)

    def required(self, *variables: str) -> list[str]:
        """The values of all of these. Raises Problem, which names those that are not set."""
        missing = [name for name in variables if not self.environment.get(name)]
        if missing:
            raise Problem(f"it needs {' and '.join(missing)} in the environment")
        return [self.environment[name] for name in variables]


@dataclass(frozen=True, slots=True)
class Scored:
    """A Result on its way to a backend: its line, what scores are made of, and where it stands in its trace."""

    line: str
    document: Mapping[str, Any]
    place: Place
    evaluations: Sequence[Mapping[str, Any]]  # those that the sink can hold

    @classmethod
    def of(cls, line: str, place: Place) -> Scored:
        document = json.loads(line)
        evaluations = [{k: v for k, v in e.items() if k not in _LARGE} for e in document.pop("evaluations")]
        return cls(line, document, place, evaluations)

    @property
    def identity(self) -> tuple[str, str, str]:
        """What a revision of it shares with it."""
        document = self.document
        return (document["session"] or document["trace_id"], document["workflow"], document["span_id"])

    @property
    def revision(self) -> int:
        return int(self.document["revision"])

    def only(self, wanted: Callable[[Mapping[str, Any]], bool]) -> Scored:
        return replace(self, evaluations=[e for e in self.evaluations if wanted(e)])

    def about(self, evaluation: Mapping[str, Any]) -> dict[str, str]:
        """What stands beside a score: texts, which every backend can hold."""
        document = self.document
        found = {
            "onpath.evaluation.key": evaluation["key"],
            "onpath.evaluation.id": evaluation["id"],
            "onpath.label": evaluation["label"],
            "onpath.reason": evaluation.get("reason"),
            "onpath.workflow": document["workflow"],
            "onpath.verdict": document["verdict"],
            "onpath.revision": str(document["revision"]),
            "onpath.complete": str(document["complete"]).lower(),
            "onpath.release_reason": document["release_reason"],
            "onpath.policy.fingerprint": document["policy_fingerprint"],
            "onpath.version": document["version"],
        }
        return {name: value for name, value in found.items() if value is not None}


def explained(evaluation: Mapping[str, Any]) -> str:
    text: str = evaluation["explanation"]
    return text if len(text) <= _LONGEST_EXPLANATION else text[: _LONGEST_EXPLANATION - 1] + "\N{HORIZONTAL ELLIPSIS}"


@dataclass(frozen=True, slots=True)
class Reply:
    """`status` 0: there was no answer."""

    status: int
    body: bytes
    outcome: Outcome

    def json(self) -> Any:
        """The body; None if it is not JSON."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


class Http:
    """Requests to one backend. Redirects are not followed: they would take credentials elsewhere."""

    def __init__(self, url: str, headers: Mapping[str, str], timeout: float) -> None:
        """`timeout` is seconds for one request."""
        self._url = url
        self._headers = {"User-Agent": f"onpath/{version()}", **headers}
        self._timeout = aiohttp.ClientTimeout(total=timeout)
        self._session: aiohttp.ClientSession | None = None

    async def call(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> Reply:
        """Sends `body`: JSON, or what becomes it. Whatever happens is a Reply; only cancellation is raised."""
        if self._session is None:  # not sooner: it belongs to the running loop
            self._session = aiohttp.ClientSession(trust_env=True)
        data = body if isinstance(body, bytes | None) else encoded(body)
        sent = {
            **self._headers,
            **({"Content-Type": "application/json"} if data is not None else {}),
            **(headers or {}),
        }
        try:
            async with self._session.request(
                method, self._url + path, data=data, headers=sent, timeout=self._timeout, allow_redirects=False
            ) as response:
                content = await read_limited(response)
                outcome = _outcome(response.status, retry_after(response), content)
                if isinstance(outcome, Delivered) and response.content_type == "text/html":
                    outcome = Retry("web_page", message="a web page answers, a login as a rule, and no API")
                return Reply(response.status, content, outcome)
        except TimeoutError:
            return Reply(0, b"", Retry("timeout"))
        except (aiohttp.ClientError, OSError) as error:
            told = error.message if isinstance(error, aiohttp.ClientResponseError) else str(error)  # without the url
            return Reply(0, b"", Retry("unavailable", message=told))

    async def each(self, method: str, path: str, bodies: Iterable[object]) -> Outcome:
        """One request a body; the first that isn't taken ends it."""
        for body in bodies:
            outcome = (await self.call(method, path, body)).outcome
            if not isinstance(outcome, Delivered):
                return outcome
        return Delivered()

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()


def encoded(value: object) -> bytes:
    """JSON; a half of a surrogate pair, which a span's text may hold and UTF-8 can't, becomes a question mark."""
    return json_text(value).encode("utf-8", "replace")


def _outcome(status: int, after: float | None, content: bytes) -> Outcome:
    if 200 <= status < 300:
        return Delivered()
    told = content[:_TOLD].decode("utf-8", "replace")
    if status in (404, 408, 425, 429) or status >= 500:  # 404: the trace is not there yet
        return Retry(f"http_{status}", after, told)
    return Failed(f"http_{status}", told)


class Sink(Protocol):
    """One backend's API. Made of a Target; raises Problem for what it lacks."""

    @property
    def url(self) -> str: ...
    @property
    def headers(self) -> Mapping[str, str]: ...

    def holds(self, evaluation: Mapping[str, Any]) -> bool:
        """Whether the backend has a place for an evaluation like this: one without a score has only its label."""
        ...

    async def send(self, http: Http, scored: Scored) -> Outcome:
        """Sends a result; again is the same as once, and a later revision takes the place of an earlier one."""
        ...
