"""A real Kafka broker for tests: one process on loopback, in KRaft mode, from Maven Central.

    with Broker() as broker: broker.address        python -m tests.peers.kafka.broker    (until Ctrl-C)

At `secure_address` it asks for TLS and a password: `options` of a client that has both. The jars are fetched once, into
.cache/kafka of the project. Needs Java 17 and Maven.
"""

from __future__ import annotations

import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Final

from confluent_kafka.admin import AdminClient, NewTopic
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from tests.support.processes import Child
from tests.support.tls import Authority
from tests.support.waiting import until

VERSION: Final = "4.4.0"
CACHE: Final = Path(__file__).parents[3] / ".cache" / "kafka"
_PATIENCE: Final = 300  # seconds for fetching it
USER: Final = "onpath"
PASSWORD: Final = "for-tests-alone"
_CLUSTER: Final = "onpathTestClusterAAAAA"  # an id: 22 characters of base64
_POM: Final = f"""<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>tests</groupId><artifactId>broker</artifactId><version>1</version><dependencies><dependency>
<groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{VERSION}</version>
</dependency></dependencies></project>
"""


def missing() -> str | None:
    """Why there can be no broker here; None if there can."""
    if shutil.which("java") is None:
        return "needs Java 17 or later"
    told = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', told)
    if version is None or int(version[1]) < 17:
        return "needs Java 17 or later"
    if shutil.which("mvn") is None and not _jars().is_dir():
        return "needs Maven, to fetch Kafka"
    return None


def _jars() -> Path:
    return CACHE / VERSION


class Unavailable(Exception):
    """Kafka can't be fetched; says why."""


def fetch() -> Path:
    """The folder with Kafka's jars. Raises Unavailable."""
    jars = _jars()
    if not jars.is_dir():
        with tempfile.TemporaryDirectory() as folder:
            pom, found = Path(folder) / "pom.xml", Path(folder) / "jars"
            pom.write_text(_POM, encoding="utf-8")
            command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
            command += [f"-DoutputDirectory={found}", "-DincludeScope=runtime"]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=False)
            except subprocess.TimeoutExpired:
                raise Unavailable(f"Maven did not fetch Kafka within {_PATIENCE} s") from None
            if done.returncode:
                raise Unavailable(f"Maven did not fetch Kafka: {' '.join(done.stdout.split())[-300:]}")
            jars.parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(found, jars.with_suffix(".part"), dirs_exist_ok=True)
            jars.with_suffix(".part").rename(jars)
    return jars


def _ports(count: int) -> list[int]:
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


class Broker:
    """`with Broker() as broker`. Its data is gone afterwards."""

    def __enter__(self) -> Broker:
        self._folder = tempfile.TemporaryDirectory(prefix="kafka-")
        folder = Path(self._folder.name)
        port, secure, controller = _ports(3)
        self.address, self.secure_address = f"127.0.0.1:{port}", f"127.0.0.1:{secure}"
        self.options = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": USER,
            "sasl.password": PASSWORD,
            "ssl.ca.location": str(_certificates(folder)),
        }
        properties = folder / "server.properties"
        properties.write_text(_properties(folder, port, secure, controller), encoding="utf-8")
        java = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{fetch()}/*"]
        subprocess.run(
            [*java, "kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(properties)],
            check=True,
            capture_output=True,
        )
        self._process = Child([*java, "kafka.Kafka", str(properties)])
        try:
            until(lambda: not _is_free(port), lambda: f"the broker to listen:\n{self._process.output}", 60)
            self.admin = AdminClient({"bootstrap.servers": self.address, "log_level": 0})
            self.admin.list_topics(timeout=30)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.stop(signal.SIGKILL)
        self._folder.cleanup()

    def kill(self) -> None:
        self._process.stop(signal.SIGKILL)

    def make_topic(self, name: str, partitions: int) -> None:
        (made,) = self.admin.create_topics([NewTopic(name, partitions, 1)]).values()
        made.result(30)


def _certificates(folder: Path) -> Path:
    """The authority's certificate; the broker's own, with its key as Kafka reads it, is server.pem."""
    authority = Authority(folder)
    chain, key = authority.issue("broker")
    pkcs8 = load_pem_private_key(key.read_bytes(), None).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    (folder / "server.pem").write_bytes(pkcs8 + chain.read_bytes())
    return authority.path


def _properties(folder: Path, port: int, secure: int, controller: int) -> str:
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    return "\n".join(
        [
            "process.roles=broker,controller",
            "node.id=1",
            f"controller.quorum.voters=1@127.0.0.1:{controller}",
            f"listeners=PLAINTEXT://127.0.0.1:{port},SECURE://127.0.0.1:{secure},CONTROLLER://127.0.0.1:{controller}",
            f"advertised.listeners=PLAINTEXT://127.0.0.1:{port},SECURE://127.0.0.1:{secure}",
            "controller.listener.names=CONTROLLER",
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL,CONTROLLER:PLAINTEXT",
            "listener.name.secure.sasl.enabled.mechanisms=PLAIN",
            f'listener.name.secure.plain.sasl.jaas.config={login} user_{USER}="{PASSWORD}";',
            "listener.name.secure.ssl.keystore.type=PEM",
            f"listener.name.secure.ssl.keystore.location={folder / 'server.pem'}",
            f"log.dirs={folder / 'data'}",
            "offsets.topic.replication.factor=1",
            "offsets.topic.num.partitions=4",
            "transaction.state.log.replication.factor=1",
            "transaction.state.log.min.isr=1",
            "share.coordinator.state.topic.replication.factor=1",
            "share.coordinator.state.topic.min.isr=1",
            "group.initial.rebalance.delay.ms=0",
            "group.min.session.timeout.ms=1000",
            "auto.create.topics.enable=false",
        ]
    )


if __name__ == "__main__":
    with Broker() as running:
        print(running.address, flush=True)
        try:
            while True:
                time.sleep(1)
        except KeyboardInterrupt:
            print("stopped")
