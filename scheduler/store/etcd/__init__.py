"""The state store on etcd (v3 API, 3.4 and later): a thin client of our own over gRPC.

``address`` reads the URL, ``channel`` finds a member that answers, ``messages`` builds requests and reads answers,
``watch`` follows changes, ``store`` is the contract of ``base.Store``.
"""

from scheduler.store.etcd.address import Address
from scheduler.store.etcd.store import EtcdStore
from scheduler.store.etcd.watch import EtcdWatch

__all__ = ["Address", "EtcdStore", "EtcdWatch"]
