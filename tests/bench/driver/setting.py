"""Where things are, and how much is measured."""
import os
import pathlib
import shutil
import sys
from dataclasses import dataclass

BENCH = pathlib.Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Setting:
    build: pathlib.Path   # folder of a build of cohort
    peers: pathlib.Path   # venv of the Python peers, or None
    folder: pathlib.Path  # for files of this run
    quick: bool           # only whether all still works: a round of little, without the Python peers

    @property
    def peer_python(self):
        return self.peers and self.peers / "bin/python"

    def program(self, name):
        """A program of the build, or None where it was not built."""
        path = self.build / name
        return path if path.exists() else None

    def plugin(self, name):
        return self.program(f"lib/cohort/plugins/cohort_{name}.so")

    def say(self, text):
        if not self.quick:
            print(f"[bench] {text}", file=sys.stderr, flush=True)


def mpirun(ranks, *options):
    cores = len(os.sched_getaffinity(0))
    waiting = ["--mca", "mpi_yield_when_idle", "1"] if ranks > cores else []
    return [shutil.which("mpirun") or "mpirun", "--allow-run-as-root", "--oversubscribe", "--mca", "rtc_hwloc_vmhole", "none", "--bind-to", "none", "-n", ranks,
            *waiting, *options]


# glibc gives freed memory back and faults it in again, which costs the peers more than anything else they do.
KEEP_FREED_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 34), "MALLOC_TOP_PAD_": str(64 << 20)}


def machine_line():
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo", encoding="utf-8")
                  if line.startswith("model name")), "unknown CPU")
    return f"{len(os.sched_getaffinity(0))} cores of {model}, Linux {os.uname().release.split('-')[0]}"
