"""Which stores this run starts itself, and by which addresses everything finds all of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from portal.supervisor import checks, secrets
from portal.supervisor.config import Config
from portal.supervisor.ports import free_port
from portal.supervisor.process import Program
from portal.supervisor.servers import etcd, postgres, redis, s3


@dataclass(slots=True)
class Stores:
    """``programs`` are to be started; ``environ`` is what every program needs to find the stores."""

    programs: list[Program] = field(default_factory=list)
    environ: dict[str, str] = field(default_factory=dict)
    postgres_sockets: Path | None = None

    def create_database(self) -> None:
        """Once PostgreSQL runs; where it is somebody else's, the database is theirs too."""
        if self.postgres_sockets is not None:
            postgres.ensure_database(self.postgres_sockets)


def check_given(urls: dict[str, str]) -> None:
    """
    Raises:
        Unfit: a store that is named by URL does not answer.
    """
    reach = {
        "postgres": checks.postgres,
        "etcd": checks.etcd,
        "redis": checks.redis_server,
        "s3": checks.object_storage,
    }
    for store, url in urls.items():
        reach[store](url)


def arrange(config: Config) -> Stores:
    """The stores of this run; data directories of new ones are made.

    Raises:
        CannotStart: one of them cannot run on this machine.
    """
    stores = Stores()
    for store, arrange_one in (("postgres", _postgres), ("etcd", _etcd), ("redis", _redis), ("s3", _s3)):
        url = config.urls.get(store) or arrange_one(stores, config.data)
        stores.environ[f"GANGWAY_{store.upper()}_URL"] = url
    return stores


def _postgres(stores: Stores, data: Path) -> str:
    stores.postgres_sockets = postgres.socket_dir(data / "postgres")
    stores.programs.append(postgres.program(data / "postgres", stores.postgres_sockets))
    return postgres.url(stores.postgres_sockets)


def _etcd(stores: Stores, data: Path) -> str:
    port = free_port()
    stores.programs.append(etcd.program(data / "etcd", port, executable=etcd.same_binary(data / "etcd-binary")))
    return etcd.url(port)


def _redis(stores: Stores, data: Path) -> str:
    port = free_port()
    stores.programs.append(redis.program(data / "redis", port))
    return redis.url(port)


def _s3(stores: Stores, data: Path) -> str:
    port = free_port()
    keys = (secrets.keep(data / "s3-access-key", 12), secrets.keep(data / "s3-secret-key"))
    stores.programs.append(s3.program(data / "s3", port, *keys))
    stores.environ |= {
        "AWS_ACCESS_KEY_ID": keys[0],
        "AWS_SECRET_ACCESS_KEY": keys[1],
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    return s3.url(port)
