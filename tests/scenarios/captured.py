"""What servers on this machine send to their clients, as it lies on the wire. Needs CAP_NET_RAW."""

import re
import socket
import struct
import threading
from collections import defaultdict
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Final

_IPV4: Final = 0x0800
_ETHERNET_BYTES: Final = 14
_BUFFER_BYTES: Final = 64 << 20
_SO_RCVBUFFORCE: Final = 33
_HOSTS: Final = rb"(?:127\.0\.0\.1|localhost)"

_Flow = tuple[bytes, bytes]
"""Address and port of the sender, and of who it is for."""


class Captured:
    """Packets in the order of their sequence numbers; those of a connection are one text."""

    def __init__(self) -> None:
        self._packets: defaultdict[_Flow, dict[int, bytes]] = defaultdict(dict)

    def take(self, packet: bytes, from_ports: Collection[int]) -> None:
        """One of IPv4; those of other senders are left out."""
        ip = packet[_ETHERNET_BYTES:]
        head_bytes = (ip[0] & 15) * 4
        if ip[9] != socket.IPPROTO_TCP:
            return
        size_bytes = int.from_bytes(ip[2:4])  # 0 where the kernel leaves cutting to the device
        tcp = ip[head_bytes : size_bytes or None]
        from_port, _, sequence = struct.unpack_from(">HHI", tcp)
        payload = tcp[(tcp[12] >> 4) * 4 :]
        if payload and from_port in from_ports:
            self._packets[ip[12:16] + tcp[:2], ip[16:20] + tcp[2:4]][sequence] = payload

    def told(self, ports: Collection[int]) -> set[int]:
        """Which of these ports of this machine were told to anybody, in Kafka's protocol or as text."""
        streams = [b"".join(one[at] for at in sorted(one)) for one in self._packets.values()]
        return {port for port in ports if any(_address(port).search(stream) for stream in streams)}


def _address(port: int) -> re.Pattern[bytes]:
    return re.compile(_HOSTS + b"(?:" + re.escape(struct.pack(">i", port)) + b"|:%d)" % port)


@contextmanager
def captured(from_ports: Collection[int]) -> Iterator[Captured]:
    """What is sent from these ports of the loopback interface. Raises: PermissionError."""
    found, ended = Captured(), threading.Event()
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_IPV4)) as tap:
        tap.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
        tap.bind(("lo", _IPV4))
        tap.settimeout(0.1)

        def listen() -> None:
            while not ended.is_set():
                try:
                    packet, (_, _, direction, *_) = tap.recvfrom(1 << 17)
                except TimeoutError:
                    continue
                if direction != socket.PACKET_OUTGOING:  # each comes twice here
                    found.take(packet, from_ports)

        listener = threading.Thread(target=listen)
        listener.start()
        try:
            yield found
        finally:
            ended.set()
            listener.join()
