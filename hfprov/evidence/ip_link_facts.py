"""Network interfaces, addresses and neighbours, as :mod:`hfprov.evidence.ip_link` reads them."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field


class Traffic(Struct, frozen=True):
    """Counters of one direction. ``overruns`` also holds what newer kernels call missed."""

    bytes: int
    packets: int
    errors: int
    dropped: int
    overruns: int | None = None
    multicast: int | None = None
    carrier_errors: int | None = None
    collisions: int | None = None


class Address(Struct, frozen=True):
    """An IP address of an interface; ``prefix_length`` belongs to ``peer`` where there is one."""

    family: str
    """``inet`` or ``inet6``."""
    address: str
    prefix_length: int | None
    scope: str | None = None
    peer: str | None = None


class Interface(Struct, frozen=True):
    """One network interface. None: the form that was read does not have the value."""

    name: str
    index: int | None = None
    flags: tuple[str, ...] = ()
    mtu_bytes: int | None = None
    min_mtu_bytes: int | None = None
    max_mtu_bytes: int | None = None
    """The driver's limit; 0 means that there is none."""
    operstate: str | None = None
    """``UP``, ``DOWN``, ``UNKNOWN``, … as the kernel says."""
    qdisc: str | None = None
    master: str | None = None
    parent: str | None = None
    """The interface below (``eth0`` of ``vlan10@eth0``)."""
    link_type: str | None = None
    """``ether``, ``infiniband``, ``loopback``, …"""
    hardware_address: str | None = None
    permanent_address: str | None = None
    kind: str | None = None
    """``bond``, ``vlan``, ``bridge``, ``vxlan``, …; None for a physical interface."""
    details: Mapping[str, str] = field(default_factory=dict)
    """What ``-d`` tells of the kind (``mode``, ``id``, ``protocol``), as text."""
    member_kind: str | None = None
    """The kind of ``master`` for a member (``bond``, ``bridge``)."""
    member_details: Mapping[str, str] = field(default_factory=dict)
    tx_queues: int | None = None
    rx_queues: int | None = None
    tx_queue_length: int | None = None
    alternative_names: tuple[str, ...] = ()
    virtual_functions: int = 0
    promiscuity: int | None = None
    """How many ask for frames of others: sniffers, bridges. Flags tell what was set by hand."""
    gso_max_bytes: int | None = None
    """The most that the kernel hands over at once, to be cut into packets."""
    tso_max_bytes: int | None = None
    """The most that the driver takes at once."""
    addresses: tuple[Address, ...] = ()
    received: Traffic | None = None
    sent: Traffic | None = None

    @property
    def is_up(self) -> bool:
        """Whether it was set up and has a carrier. Only flags can say so; ``UNKNOWN`` cannot."""
        return "UP" in self.flags and "LOWER_UP" in self.flags


class Interfaces(Struct, frozen=True):
    """``ip link`` or ``ip addr``."""

    interfaces: tuple[Interface, ...]
    complete: bool = True
    """False when ip said that the kernel's list was cut or changed while it was read."""

    def find(self, name: str) -> Interface | None:
        """The interface with a name or an alternative name."""
        for interface in self.interfaces:
            if name == interface.name or name in interface.alternative_names:
                return interface
        return None


class Neighbour(Struct, frozen=True):
    """One entry of ``ip neigh``."""

    address: str
    interface: str
    hardware_address: str | None
    states: tuple[str, ...]
    """``REACHABLE``, ``STALE``, ``INCOMPLETE``, ``FAILED``, …"""
    router: bool = False


class Neighbours(Struct, frozen=True):
    """``ip neigh``."""

    entries: tuple[Neighbour, ...]
