"""Takes OTLP traces from Kafka topics, as a member of a consumer group.

    consume -> waiting -> settled before? only noted : RecordConsumer.take -> Offsets -> committed now and then
    refused -> the rest waits, partitions are paused until it is taken
    revoked -> open traces given up, what is being judged handed out, commit

One task does all this. librdkafka tells of a rebalance only while it is asked for records, so nothing is half taken
when a partition comes or goes.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from onpath_collector.kafka import DaemonThreads, Publisher, PublisherSettings, connection, library
from onpath_collector.receivers.base import Faults, ReceiverCounts, RecordConsumer, Refused, Signal
from onpath_collector.receivers.http_answers import reason
from onpath_collector.receivers.kafka.offsets import Mark, Offsets, Place, Record
from onpath_collector.receivers.kafka.reading import DeadLetters, Reader
from onpath_collector.receivers.kafka.values import KafkaSettings, RecordCounts

log: Final = logging.getLogger("onpath")

_BATCH: Final = 200  # records asked for at once
_WAIT: Final = 0.1  # seconds that they are gathered
_IDLE: Final = 0.5  # seconds that the first is waited for
_TURN: Final = 128 << 10  # bytes taken before the loop does something else
_BEHIND: Final = 0.5  # seconds: over it, judging is not keeping up, and no more is taken
_HANDOVER: Final = 2.0  # seconds in which what is being judged may be handed out before a partition goes
_PATIENCE: Final = 5.0  # seconds for a broker's answer
_AGAIN: Final = 1.0  # seconds between attempts to learn what was committed
_LOOK: Final = 1.0  # seconds between two looks at the ends of partitions, ...
_LOOKS: Final = 50  # ... of which so many are looked at in a second
_FAULT: Final = 1.0  # seconds between two faults of our own
_DEFAULTS: Final = {"queued.max.messages.kbytes": "16384", "allow.auto.create.topics": "false"}


class KafkaReceiver:
    """`start` may be called once; `stop` at any time and again. Owned by one event loop."""

    transport: Final = "kafka"

    def __init__(
        self,
        settings: KafkaSettings,
        consumer: RecordConsumer,
        offsets: Offsets,
        give_up: Callable[[set[int], str], set[int]],
        behind: Callable[[], float],
    ) -> None:
        """`give_up` drops the open traces that hold one of these records, for a reason, and tells all records that they
        held; `behind` tells by how many seconds judging is late. Raises ValueError where the extra is missing.
        """
        self._kafka = library()
        self._settings = settings
        self._consumer = consumer
        self._reader = Reader(settings.encoding, settings.max_request)
        self.offsets = offsets
        self._give_up = give_up
        self._behind = behind
        self._client: Any = None
        self._dead = DeadLetters()
        self._task: asyncio.Task[None] | None = None
        self._stopping = False
        self._waiting: deque[Any] = deque()
        self._refused = False  # the first that waits; told once
        self._paused: set[Place] = set()
        self._quiet = True  # nothing has come in the last turn
        self._commit_at = self._look_at = 0.0
        self._told: set[str] = set()
        self._faults = Faults()
        self.ends: dict[Place, int] = {}  # of partitions: the offset of the next record that is written there
        signals: tuple[Signal, ...] = ("traces", "metrics", "logs")  # the latter two never come
        self.counts: dict[Signal, ReceiverCounts] = {signal: ReceiverCounts() for signal in signals}
        self.records = RecordCounts()

    @property
    def waiting(self) -> int:
        """Records that were read and can't be taken yet."""
        return len(self._waiting)

    @property
    def paused(self) -> int:
        """Partitions that are not read for now."""
        return len(self._paused)

    async def start(self) -> None:
        """Joins the group; brokers may come later. Raises ValueError for options that librdkafka refuses."""
        from confluent_kafka.aio import AIOConsumer

        settings = self._settings
        own = {
            "group.id": settings.group_id,
            "auto.offset.reset": settings.initial_offset,
            "enable.auto.commit": False,
            "partition.assignment.strategy": "cooperative-sticky",
            "on_commit": self._on_commit,
        }
        options = connection("receivers.kafka", settings.brokers, {**_DEFAULTS, **settings.options}, own)
        try:
            self._client = AIOConsumer(options, executor=DaemonThreads())
        except self._kafka.KafkaException as error:
            raise ValueError(f"receivers.kafka.options: {error.args[0].str()}") from None
        if settings.dead_letter_topic is not None:
            places = PublisherSettings(brokers=settings.brokers, options=settings.options)
            self._dead.open(Publisher("receivers.kafka.dead_letter_topic", places), settings.dead_letter_topic)
        await self._client.subscribe(
            list(settings.topics), on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )
        self._task = asyncio.create_task(self._run())

    async def stop(self, grace: float = 5.0) -> None:
        """Leaves the group: open traces are given up, what is being judged is handed out, offsets are committed."""
        self._stopping = True
        if self._task is None:
            return
        _, late = await asyncio.wait({self._task}, timeout=grace)
        if late:
            log.warning("stopped receiving from Kafka without a word to the group: no broker answers")
        await self._dead.close(asyncio.get_running_loop().time() + (0.0 if late else 1.0))

    async def _run(self) -> None:
        while not self._stopping:
            try:
                await self._turn()
            except Exception as error:  # noqa: BLE001 - whatever it is, records must go on
                self.records.errors["internal"] += 1
                self._faults.tell(error)
                await asyncio.sleep(_FAULT)
        try:
            await self._client.close()
        except self._kafka.KafkaException as error:
            self._tell(error.args[0])
        await self._leave(list(self.offsets.partitions), "lost", commit=False)  # what close has not told of

    async def _turn(self) -> None:
        if self._quiet:
            messages = await self._client.consume(num_messages=1, timeout=_IDLE)
        else:
            messages = await self._client.consume(num_messages=_BATCH, timeout=_WAIT)
        before = self.records.read
        for message in messages:
            if (error := message.error()) is None:
                self.records.read += 1
                self._waiting.append(message)
            else:
                self._tell(error)
        self._quiet = self.records.read == before and not self._waiting
        await self._take_waiting()
        await self._pause_or_resume()
        now = asyncio.get_running_loop().time()
        if now >= self._commit_at:
            self._commit_at = now + self._settings.commit_interval
            await self._commit(list(self.offsets.partitions))
        if now >= self._look_at:
            self._look_at = now + max(_LOOK, len(self.offsets.partitions) / _LOOKS)
            await self._look_at_ends()

    # Records

    async def _take_waiting(self) -> None:
        size = 0
        while self._waiting and self._behind() < _BEHIND and not self._stopping:
            message = self._waiting[0]
            try:
                await self._take(message)
            except Refused as refused:
                if not self._refused:
                    self.counts["traces"].refuse(refused)
                    self._refused = True
                return
            self._refused = False
            self._waiting.popleft()
            size += len(message)
            if size >= _TURN:
                size = 0
                await asyncio.sleep(0)

    async def _take(self, message: Any) -> None:
        """Raises Refused: it is to be tried again."""
        place, offset = Place(message.topic(), message.partition()), message.offset()
        partition = self.offsets.partitions.get(place)
        if partition is None or (partition.position is not None and offset < partition.position):
            self.records.given_back += 1  # asked for before the partition went
            return
        before = partition.is_settled(offset)
        counts = self.counts["traces"]
        try:
            request = await self._reader.request(message.value())
            if before:
                partition.note(offset, await self._consumer.recall(request))
            else:
                record = Record(self.offsets, place, offset, self._settings.forward)
                counts.accept(await self._consumer.take(request, record))
                self.records.taken += 1
        except Refused:
            raise
        except Exception as error:  # noqa: BLE001 - one record must not hold up all that follow
            if before:
                partition.note(offset, ())
            else:
                counts.failed[reason(error)] += 1
                self._bury(message, place, error)
        self.records.settled_before += before

    def _bury(self, message: Any, place: Place, error: Exception) -> None:
        """The offset moves on when the dead letter has arrived, or can't."""
        self.records.poison += 1
        if reason(error) == "internal":
            self._faults.tell(error)
        number = self.offsets.begin(place, message.offset(), ())

        def done(why: str | None) -> None:
            self.records.dead_letters[why or "sent"] += 1
            self.offsets.let_go(number)

        self._dead.send(message, error, done)

    async def _pause_or_resume(self) -> None:
        assigned = set(self.offsets.partitions)
        if self._waiting and (running := assigned - self._paused):
            await self._client.pause([self._kafka.TopicPartition(*place) for place in running])
            self.records.pauses += not self._paused
            self._paused |= running
        elif self._paused and not self._waiting:
            await self._client.resume([self._kafka.TopicPartition(*place) for place in self._paused & assigned])
            self._paused.clear()

    # Offsets

    async def _commit(self, places: Sequence[Place]) -> None:
        """Does not wait for the broker, which has it before anything else that is asked of it; `_on_commit` tells."""
        due = self.offsets.due(places, asyncio.get_running_loop().time())
        if not due:
            return
        offsets = [self._kafka.TopicPartition(*place, mark.start, mark.metadata) for place, mark in due]
        try:
            await self._client.commit(offsets=offsets, asynchronous=True)
        except self._kafka.KafkaException as error:
            self._tell(error.args[0])
            return
        for place, mark in due:
            self.offsets.partitions[place].mark = mark

    async def _on_commit(self, error: Any, partitions: Iterable[Any]) -> None:
        if error is None:
            return
        self._tell(error)
        for each in partitions:
            partition = self.offsets.partitions.get(Place(each.topic, each.partition))
            if partition is not None:
                partition.mark = None  # it is due again

    async def _look_at_ends(self) -> None:
        for place in list(self.offsets.partitions):
            _, end = await self._client.get_watermark_offsets(self._kafka.TopicPartition(*place), cached=True)
            if end >= 0:
                self.ends[place] = end

    # Partitions that come and go. What these raise would end the client.

    async def _on_assign(self, client: Any, partitions: Sequence[Any]) -> None:
        try:
            if not partitions:
                return
            known = await self._beginnings(client, partitions)
            for each, mark in known:
                begin = each.offset if mark is None and each.offset >= 0 else None
                self.offsets.assign(Place(each.topic, each.partition), mark, begin)
            await client.incremental_assign([each for each, _ in known])
            self.records.rebalances["assigned"] += len(known)
            log.info("Kafka: %d partitions came", len(known))
        except Exception as error:  # noqa: BLE001
            self._faults.tell(error)

    async def _beginnings(self, client: Any, partitions: Sequence[Any]) -> list[tuple[Any, Mark | None]]:
        """What was committed: without it can't be told which traces are judged already, and no record is read. The
        end of a partition, where nothing was and reading begins there: committed soon, so that it is so for the next.
        """
        while not self._stopping:
            try:
                found = await client.committed(list(partitions), timeout=_PATIENCE)
                return [await self._beginning(client, each) for each in found]
            except self._kafka.KafkaException as error:
                self._tell(error.args[0])
            await asyncio.sleep(_AGAIN)
        raise TimeoutError("stopped before the group's offsets could be had")

    async def _beginning(self, client: Any, found: Any) -> tuple[Any, Mark | None]:
        if found.error is not None:
            raise self._kafka.KafkaException(found.error)
        if found.offset >= 0:
            return found, Mark.of(found.offset, found.metadata)
        if self._settings.initial_offset == "latest":
            found.offset = (await client.get_watermark_offsets(found, timeout=_PATIENCE))[1]
        return found, None

    async def _on_revoke(self, _: Any, partitions: Sequence[Any]) -> None:
        await self._leave([Place(p.topic, p.partition) for p in partitions], "revoked", commit=True)

    async def _on_lost(self, _: Any, partitions: Sequence[Any]) -> None:
        await self._leave([Place(p.topic, p.partition) for p in partitions], "lost", commit=False)

    async def _leave(self, places: Sequence[Place], why: str, *, commit: bool) -> None:
        places = [place for place in places if place in self.offsets.partitions]
        try:
            kept = [m for m in self._waiting if Place(m.topic(), m.partition()) not in places]
            self.records.given_back += len(self._waiting) - len(kept)
            self._waiting = deque(kept)
            given_up = self._give_up(self.offsets.numbers(places), f"partition_{why}")
            if commit:
                await self._hand_out(places, given_up)
                await self._commit(places)
        except Exception as error:  # noqa: BLE001
            self._faults.tell(error)
        for place in places:
            self.offsets.remove(place)
            self.ends.pop(place, None)
            self._paused.discard(place)
        if places:
            self.records.rebalances[why] += len(places)
            log.info("Kafka: %d partitions went (%s)", len(places), why)

    async def _hand_out(self, places: Sequence[Place], given_up: set[int]) -> None:
        """Until all else of these partitions is settled, or time is up: then their next owner judges it again."""
        loop = asyncio.get_running_loop()
        until = loop.time() + _HANDOVER
        while self.offsets.numbers(places) - given_up and loop.time() < until:  # noqa: ASYNC110 - no event of its own
            await asyncio.sleep(0.05)

    def _tell(self, error: Any) -> None:
        """Counts what librdkafka tells of, and logs each kind once."""
        name = error.name().strip("_").lower()
        self.records.errors[name] += 1
        if name not in self._told:
            self._told.add(name)
            log.warning("receivers.kafka: %s; further ones of this kind are only counted", error.str())
