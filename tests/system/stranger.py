"""Somebody who can reach a job's sockets and knows their protocols, but not the job's secret. A program of its own, so that it
can be another user, on another machine.

    stranger.py attack TIMES [RECORDING]        tries every listening socket that it sees here, so often at least
    stranger.py crowd ADDRESS COUNT             connects so often to the store there, and says nothing
    stranger.py flood COUNT                     gives each socket that listens here so many ranks of Gloo that nobody awaits
    stranger.py record PORT ADDRESS FILE        stands between a rank and ADDRESS:PORT, and takes down what the rank says first
"""
import pathlib
import random
import resource
import select
import signal
import socket
import sys
import time

GREETING = b"cohort 1" + bytes(range(32))
TORCH = b"\0" + (0x3C85F7CE).to_bytes(4, "little")  # what a client of PyTorch's store says first
TRIES_OF_EACH = 10
TRIES_AT_ONCE = 64
STORE_PORT = 29500


def texts():
    """What strangers say, without end."""
    chance = random.Random(1)
    key = b"\1" + (4).to_bytes(8, "little") + b"rank"
    for number in range(sys.maxsize):
        yield from (
            b"GET / HTTP/1.1\r\nHost: here\r\n\r\n",
            b"",
            chance.randbytes(chance.choice((1, 8, 40, 4096))),
            TORCH, TORCH + key, TORCH + b"\1" + (2**63).to_bytes(8, "little"), TORCH + b"\6" + (2**62).to_bytes(8, "little"),
            GREETING, GREETING + b"\xff\xff\xff\xff", GREETING + (16).to_bytes(4, "little") + bytes(16),
            GREETING + (2**31).to_bytes(4, "little") + chance.randbytes(64),
            (number % 4).to_bytes(8, "little"), (number % 4).to_bytes(8, "little") + chance.randbytes(256),  # a rank of Gloo
        )


def listening():
    """Returns family and place of all sockets in this network namespace that listen for ranks, which everybody can see."""
    found = []
    for table in ("tcp", "tcp6"):
        for line in pathlib.Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            host, port = fields[1].split(":")
            if fields[3] == "0A":
                address = socket.inet_ntoa(bytes.fromhex(host[-8:])[::-1])
                found.append((socket.AF_INET, ("127.0.0.1" if address == "0.0.0.0" else address, int(port, 16))))
    for line in pathlib.Path("/proc/net/unix").read_text().splitlines()[1:]:
        fields = line.split()
        if len(fields) > 7 and fields[3] == "00010000" and "cohort-" in fields[7]:
            found.append((socket.AF_UNIX, "\0" + fields[7][1:] if fields[7][0] == "@" else fields[7]))
    return found


def call(family, place):
    link = socket.socket(family, socket.SOCK_STREAM)
    link.settimeout(1)
    link.connect(place)
    return link


def attack(times, recording):
    """Prints how much a store said to it at most, once it has tried so often."""
    tries, most, held = 0, 0, []
    says = texts()
    print("ready", flush=True)
    while tries < times:
        for family, place in listening() * TRIES_OF_EACH:
            try:
                link = call(family, place)
                link.sendall(recording if recording and tries % 5 == 0 else next(says))
                is_store = family == socket.AF_UNIX or place[1] == STORE_PORT
                held.append([link, 0, is_store])  # with how many bytes it has heard; -1: ended
                tries += 1
            except OSError:
                pass  # shown out
        # While nobody listens it looks rarely, and leaves the processor to the ranks that start.
        ready = select.select([entry[0] for entry in held], [], [], 0.002)[0] if held else time.sleep(0.02) or []
        for entry in held:
            if entry[0] in ready:
                try:
                    got = entry[0].recv(65536)
                except OSError:
                    got = b""
                entry[1] += len(got)
                most = max(most, entry[1] if entry[2] else 0)
                if not got:
                    entry[0].close()
                    entry[1] = -1
        held = [entry for entry in held if entry[1] >= 0]
        for entry in held[:-TRIES_AT_ONCE]:
            entry[0].close()
        held = held[-TRIES_AT_ONCE:]
    print(f"most={most}")


def connection_to(address, port):
    while True:
        try:
            return socket.create_connection((address, port))
        except ConnectionRefusedError:
            time.sleep(0.01)  # it is not there yet


def record(port, address, file):
    with socket.create_server(("0.0.0.0", port)) as server:
        print("ready", flush=True)
        rank = server.accept()[0]
    there = connection_to(address, port)
    with open(file, "wb") as recording:
        while True:
            for link in select.select([rank, there], [], [])[0]:
                data = link.recv(65536)
                if not data:
                    return
                if link is rank:
                    recording.write(data)
                    recording.flush()
                (there if link is rank else rank).sendall(data)


def crowd(address, count):
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    held = [connection_to(address, STORE_PORT)]
    while len(held) < count:
        link = socket.socket()
        link.setblocking(False)
        link.connect_ex((address, STORE_PORT))
        held.append(link)
    print("ready", flush=True)
    signal.pause()


def flood(count):
    places = [place for family, place in listening() if family == socket.AF_INET]
    print(f"sockets={len(places)}", flush=True)
    for place in places:
        for number in range(count):
            try:
                with socket.create_connection(place, timeout=0.02) as link:
                    link.sendall((1000 + number).to_bytes(8, "little"))
            except OSError:
                pass  # nobody lets it in


if __name__ == "__main__":
    if sys.argv[1] == "attack":
        attack(int(sys.argv[2]), pathlib.Path(sys.argv[3]).read_bytes() if len(sys.argv) > 3 else None)
    elif sys.argv[1] == "flood":
        flood(int(sys.argv[2]))
    elif sys.argv[1] == "crowd":
        crowd(sys.argv[2], int(sys.argv[3]))
    else:
        record(int(sys.argv[2]), sys.argv[3], sys.argv[4])
