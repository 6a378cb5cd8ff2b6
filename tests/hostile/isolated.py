"""Run a command in a network namespace of its own, and report every packet that it sends to another machine.

Inside, every address there is belongs to the namespace's own loopback device, where a packet socket sees what any code
sends, native code included. A name server that every name is known to answers, so that whoever looks a name up goes on
to connect. Usage, as root of a user or network namespace: ``python isolated.py REPORT COMMAND [ARGUMENT …]``; the exit
status is the command's, and REPORT is a JSON list of what was sent, such as ``"name stranger.example"``.
"""

from __future__ import annotations

import fcntl
import ipaddress
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

NAME_SERVER, STRANGER = "192.0.2.53", "192.0.2.80"
"""Addresses of a block that is nobody's (RFC 5737): of the name server, and of every name that it is asked for."""
_LOOPBACK = tuple(map(ipaddress.ip_network, ("127.0.0.0/8", "::1/128")))
_UP, _GET_FLAGS, _SET_FLAGS = 1, 0x8913, 0x8914
_NEW_ROUTE, _REQUEST_NEW, _LOCAL_TABLE, _STATIC, _THIS_HOST, _LOCAL, _DEVICE = 24, 0x605, 255, 4, 254, 2, 4
_UDP, _TCP, _SYN, _DNS_PORT = 17, 6, 0x02, 53


class NoNamespace(Exception):
    """There is no network namespace to be had on this machine."""


def run_isolated(command: list[str], report: Path, **options: object) -> tuple[int, list[str], str]:
    """Run a command in a namespace; return its status, what it sent to others, and what it printed.

    Raises
    ------
    NoNamespace
        If there is none to be had, with the reason.
    """
    unshare = shutil.which("unshare")
    if unshare is None:
        reason = "there is no unshare, of util-linux"
        raise NoNamespace(reason)
    report.unlink(missing_ok=True)
    root = [] if os.geteuid() == 0 else ["--map-root-user"]
    enter = [unshare, *root, "--net", "--mount", "--pid", "--fork", "--kill-child", sys.executable, __file__]
    done = subprocess.run(  # noqa: S603 - this interpreter, and what a test names
        [*enter, str(report), *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
        timeout=240,
        **options,  # type: ignore[call-overload]
    )
    if not report.exists():
        raise NoNamespace(done.stdout.strip() or f"unshare ended with status {done.returncode}")
    return done.returncode, json.loads(report.read_text(encoding="utf-8")), done.stdout


def main(report: str, *command: str) -> int:
    """Set the namespace up, run the command, and write the report."""
    _bring_up_loopback()
    for family in (socket.AF_INET, socket.AF_INET6):
        _own_every_address(family)
    _name_the_name_server()
    watching = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    serving = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    serving.bind((NAME_SERVER, _DNS_PORT))
    threading.Thread(target=_answer_names, args=(serving,), daemon=True).start()
    sent: dict[str, None] = {}
    watcher = threading.Thread(target=_watch, args=(watching, sent), daemon=True)
    watcher.start()
    status = subprocess.run(command, check=False).returncode  # noqa: S603 - what a test names
    # The packets of the command stand before this one in the queue.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
        last.sendto(_END, ("127.0.0.1", 9))
    watcher.join()
    Path(report).write_text(json.dumps(list(sent)), encoding="utf-8")
    return status


def _bring_up_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        flags = struct.unpack("16xh14x", fcntl.ioctl(asked, _GET_FLAGS, struct.pack("16s16x", b"lo")))[0]
        fcntl.ioctl(asked, _SET_FLAGS, struct.pack("16sh14x", b"lo", flags | _UP))


def _own_every_address(family: int) -> None:
    """Add the route ``local default dev lo`` to the local table."""
    route = struct.pack("=8BI", family, 0, 0, 0, _LOCAL_TABLE, _STATIC, _THIS_HOST, _LOCAL, 0)
    route += struct.pack("=HHI", 8, _DEVICE, socket.if_nametoindex("lo"))
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as kernel:
        kernel.send(struct.pack("=IHHII", 16 + len(route), _NEW_ROUTE, _REQUEST_NEW, 1, 0) + route)
        error = struct.unpack_from("=i", kernel.recv(4096), 16)[0]
    if error:
        raise OSError(-error, os.strerror(-error))


def _name_the_name_server() -> None:
    folder = Path(tempfile.mkdtemp())
    mount = shutil.which("mount") or "/bin/mount"
    for file, text in (("resolv.conf", f"nameserver {NAME_SERVER}\n"), ("nsswitch.conf", "hosts: files dns\n")):
        (folder / file).write_text(text, encoding="utf-8")
        place = Path("/etc", file).resolve()
        if place.exists() or file == "resolv.conf":
            subprocess.run([mount, "--bind", str(folder / file), str(place)], check=True)  # noqa: S603 - two known files


def _answer_names(serving: socket.socket) -> None:
    """Answer every question for a name: it has one IPv4 address, and none of IPv6."""
    while True:
        asked, address = serving.recvfrom(4096)
        name, kind = _question(asked)
        answer = struct.pack("!HHHLH4s", 0xC00C, 1, 1, 60, 4, socket.inet_aton(STRANGER)) if kind == 1 else b""
        head = asked[:2] + struct.pack("!5H", 0x8180, 1, bool(answer), 0, 0)
        serving.sendto(head + asked[12 : 12 + len(name.encode()) + 6] + answer, address)


def _question(asked: bytes) -> tuple[str, int]:
    """Return the name and the type that a DNS question is for."""
    labels, place = [], 12
    while asked[place]:
        labels.append(asked[place + 1 : place + 1 + asked[place]].decode("ascii", "replace"))
        place += 1 + asked[place]
    return ".".join(labels), struct.unpack_from("!H", asked, place + 1)[0]


_END = b"nothing more is sent"


def _watch(watching: socket.socket, sent: dict[str, None]) -> None:
    """Note what goes to no loopback address, until the packet that says the end."""
    while True:
        frame = watching.recv(65_535)
        if frame.endswith(_END):
            return
        note = _noted(frame)
        if note:
            sent[note] = None


def _noted(frame: bytes) -> str | None:
    kind, packet = struct.unpack_from("!H", frame, 12)[0], frame[14:]
    if kind == 0x0800:
        head, protocol = (packet[0] & 15) * 4, packet[9]
        to = ipaddress.ip_address(packet[16:20])
    elif kind == 0x86DD:
        head, protocol = 40, packet[6]
        to = ipaddress.ip_address(packet[24:40])
    else:
        return None
    if any(to in network for network in _LOOPBACK):
        return None
    if protocol not in {_TCP, _UDP}:
        return f"protocol {protocol} to {to}"
    from_port, port = struct.unpack_from("!HH", packet, head)
    # The namespace plays the strangers too: their answers count for nothing.
    if (protocol == _UDP and from_port == _DNS_PORT) or (protocol == _TCP and packet[head + 13] & 0x12 != _SYN):
        return None
    if protocol == _UDP and port == _DNS_PORT:
        return f"name {_question(packet[head + 8 :])[0]}"
    return f"{'TCP' if protocol == _TCP else 'UDP'} {to} port {port}"


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
