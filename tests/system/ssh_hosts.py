"""Hosts for tests: an ssh server of the test's own on two loopback addresses, with keys, port and configuration in a folder."""
import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time

from harness import HANG, reserved_port

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:" + os.environ.get("PATH", ""))
HOSTS = ("127.0.0.2", "127.0.0.3")


def make_key(path):
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
    return path


def why_no_networks():
    """Why this user cannot make network namespaces; nothing where he can."""
    missing = [tool for tool in ("ip", "unshare", "nsenter") if not shutil.which(tool)]
    if missing:
        return "there is no " + ", ".join(missing)
    made = subprocess.run(["unshare", "--net", "true"], stderr=subprocess.DEVNULL).returncode == 0
    return None if made else "needs root: makes network namespaces"


class TwoNetworks:
    """Two network namespaces with a wire between them: machines as far as the network can tell. Needs root."""
    addresses = ("10.213.77.1", "10.213.77.2")

    def __init__(self):
        self.holders = [subprocess.Popen(["unshare", "--net", "sleep", "infinity"]) for _ in self.addresses]
        for holder in self.holders:
            while os.readlink(f"/proc/{holder.pid}/ns/net") == os.readlink("/proc/self/ns/net"):
                if holder.poll() is not None:
                    raise OSError("no network namespaces here")
                time.sleep(0.01)
        self.ip(0, "link", "add", "wire", "type", "veth", "peer", "name", "wire", "netns", str(self.holders[1].pid))
        for side, address in enumerate(self.addresses):
            self.ip(side, "address", "add", f"{address}/24", "dev", "wire")
            for name in ("lo", "wire"):
                self.ip(side, "link", "set", name, "up")

    def inside(self, side):
        return ["nsenter", "--net", "--target", str(self.holders[side].pid)]

    def ip(self, side, *arguments):
        subprocess.run([*self.inside(side), "ip", *arguments], check=True)

    def cut(self):
        self.ip(0, "link", "set", "wire", "down")

    def mend(self):
        self.ip(0, "link", "set", "wire", "up")

    def stop(self):
        for holder in self.holders:
            holder.kill()
            holder.wait()


def serve_class(tests, make=None):
    """Starts the hosts that the tests of a class share as `tests.hosts`; they end with the class."""
    folder = tempfile.mkdtemp(prefix="cohort-ssh-")
    tests.addClassCleanup(shutil.rmtree, folder, ignore_errors=True)
    tests.hosts = (make or SshHosts)(folder)
    tests.addClassCleanup(tests.hosts.stop)


class SshHosts:
    """The server runs as this user. `ssh` in `bin` knows the hosts' key and this user's, and nothing of his own files."""

    def __init__(self, folder, addresses=HOSTS, inside=()):
        """`inside` is a command that runs another one where the addresses are."""
        self.folder, self.addresses, self.inside = pathlib.Path(folder), addresses, inside
        self.kept = contextlib.ExitStack()
        self.port = self.kept.enter_context(reserved_port())
        self.bin = self.folder / "bin"
        self.bin.mkdir(parents=True)
        for address in addresses:  # two of Open MPI's daemons that start at once cannot make their folder in the same place
            self.temporary_of(address).mkdir(parents=True)
        host_key, self.key = make_key(self.folder / "host_key"), make_key(self.folder / "key")
        self.authorized, self.known_hosts = self.folder / "authorized_keys", self.folder / "known_hosts"
        self.command, self.configuration = self.bin / "ssh", self.folder / "ssh_config"
        (self.folder / "sshd_config").write_text("\n".join([
            *(f"ListenAddress {address}:{self.port}" for address in addresses), f"HostKey {host_key}",
            f"AuthorizedKeysFile {self.authorized}", "PidFile none", "UsePAM no", "StrictModes no", "PermitRootLogin yes",
            "PasswordAuthentication no", "KbdInteractiveAuthentication no", "MaxStartups 100",
            *(f"Match LocalAddress {address}\nSetEnv TMPDIR={self.temporary_of(address)} SHLVL=5"  # or bash reads the user's .bashrc
              for address in addresses), ""]))
        self.write_what_clients_need()
        self.start()

    def temporary_of(self, address):
        return self.folder / "tmp" / address

    def temporary_files(self):
        """Returns what programs have left in the hosts' temporary folders."""
        return [file for address in self.addresses for file in self.temporary_of(address).iterdir()]

    def write_what_clients_need(self):
        """Keys and configuration as they are at first, whatever a test has made of them."""
        self.authorized.write_text((self.folder / "key.pub").read_text())
        public = " ".join((self.folder / "host_key.pub").read_text().split()[:2])
        self.known_hosts.write_text("".join(f"[{address}]:{self.port} {public}\n" for address in self.addresses))
        self.configuration.write_text("\n".join([
            f"UserKnownHostsFile {self.known_hosts}", "GlobalKnownHostsFile /dev/null", "IdentityAgent none",
            "IdentitiesOnly yes", f"IdentityFile {self.key}", ""]))
        self.command.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {self.configuration} "$@"\n')
        self.command.chmod(0o755)

    def start(self):
        if os.geteuid() == 0:
            os.makedirs("/run/sshd", mode=0o755, exist_ok=True)  # sshd of root insists on it
        self.log = open(self.folder / "sshd.log", "ab")
        self.server = subprocess.Popen([*self.inside, SSHD, "-D", "-e", "-f", self.folder / "sshd_config"], stdin=subprocess.DEVNULL,
                                       stdout=self.log, stderr=self.log, start_new_session=True)
        deadline = time.monotonic() + HANG
        while (self.folder / "sshd.log").read_text().count("Server listening on") < len(self.addresses):
            if self.server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((self.folder / "sshd.log").read_text())
            time.sleep(0.02)

    def connections(self):
        """Processes that serve a connection each: children of the server."""
        return self.servers_below(self.server.pid)

    def servers_below(self, parent):
        listing = subprocess.run(["pgrep", "-x", "-P", str(parent), "sshd"], capture_output=True, text=True).stdout
        return [int(pid) for pid in listing.split()]

    def send(self, connection, number):
        """Sends a signal to what serves the connection: one process, or two where the user is not root and the second holds it."""
        for pid in (connection, *self.servers_below(connection)):
            with contextlib.suppress(ProcessLookupError):  # it may end by itself just now
                os.kill(pid, number)

    def close_connections(self):
        while connections := self.connections():
            for connection in connections:
                self.send(connection, signal.SIGKILL)
            time.sleep(0.01)

    def stop(self):
        self.close_connections()
        self.server.kill()
        self.server.wait()
        self.log.close()
        self.kept.close()

    def environment(self, **more):
        return {"PATH": f"{self.bin}:{os.environ['PATH']}", **more}

    def options(self, slots=2, hosts=None, port=None):
        hosts = hosts or ",".join(f"{address}:{slots}" for address in self.addresses)
        return ["-H", hosts, "-p", str(port or self.port)]

    def agents(self):
        """Processes that run a connection's command, wherever they are: what ssh told them about it stays in their environment."""
        ours = re.compile(rb"(^|\0)SSH_CONNECTION=[^\0]* %d\0" % self.port)
        found = []
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if ours.search((entry / "environ").read_bytes()):
                    found.append(int(entry.name))
            except OSError:
                continue
        return found
