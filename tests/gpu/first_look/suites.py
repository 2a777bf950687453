"""The machine, and the conformance suites: kernels, their speed and their memory accesses, and the collective nccl."""
import json
import re
import shutil
import sys
import tempfile

from machine import Failed, Skipped, TimedOut

# A copy of each size counts by itself: the smaller ones fit into caches of a GPU.
SIZES = {"cuda": ((512, 30), (25, 30), (1, 30)), "fake": ((1, 2),), "cpu": ((1, 2),)}
COPY = """
import time, torch
x = torch.randn({count}, device="{device}"); y = torch.empty_like(x); wait = torch.cuda.synchronize if x.is_cuda else lambda: None
best = 0
for _ in range(3):
    wait(); begun = time.perf_counter()
    for _ in range(10): y.copy_(x)
    wait(); best = max(best, 10 * 8 * {count} / (time.perf_counter() - begun))
print(round(best / 1e9, 1))
"""


def passed(text):
    count = re.search(r"\[  PASSED  \] (\d+) test", text)
    if not count or count.group(1) == "0":
        raise Failed("no test ran")
    return f"{count.group(1)} tests"


def facts(machine):
    yield "every library is found", lambda: find_libraries(machine)
    yield "the programs start", lambda: start_programs(machine)
    yield "GB/s of a copy by torch", lambda: copy_by_torch(machine)


def is_elf(file):
    with open(file, "rb") as content:
        return content.read(4) == b"\x7fELF"


def find_libraries(machine):
    patterns = ("bin/*", "tests/*_on_*", "lib/cohort/plugins/*.so")
    files = [file for pattern in patterns for file in sorted(machine.build.glob(pattern)) if file.is_file() and is_elf(file)]
    text = machine.run(["ldd", *files])
    missing = sorted({line.strip() for line in text.splitlines() if "not found" in line})
    if missing:
        raise Failed("; ".join(missing))
    return f"those of {len(files)} files"


def start_programs(machine):
    for name in ("cohort_numerics", "mnist"):
        machine.run([machine.program(name), "--help"])
    return "cohort_numerics, mnist"


def copy_by_torch(machine):
    if machine.accelerator == "fake":
        raise Skipped("torch of Python knows no such device")
    count = 1 << (28 if machine.is_cuda else 22)
    return float(machine.run([sys.executable, "-c", COPY.format(count=count, device=machine.accelerator)]).split()[-1])


def kernels(machine):
    yield "every kernel against its formula", lambda: passed(machine.run(
        [machine.suite("accelerator_suite"), f"--accelerator={machine.accelerator}", *machine.flags]))


def rates(machine):
    for mib, calls in SIZES[machine.accelerator]:
        yield f"kernels beside a copy of {mib} MiB", lambda mib=mib, calls=calls: rates_of(machine, mib, calls)


def rates_of(machine, mib, calls):
    if machine.accelerator == "cpu":
        raise Skipped("it measures memory of a device")
    return json.loads(machine.run([machine.suite("kernel_rates"), *machine.flags[:1], f"--mib={mib}", f"--calls={calls}"]))


def collectives(machine):
    yield "nccl, 1 rank", lambda: nccl_suite(machine, 1)
    yield "nccl, 2 ranks on one GPU", lambda: nccl_suite(machine, 2)


def nccl_suite(machine, ranks):
    if machine.accelerator == "cpu":
        raise Skipped("nccl moves memory of GPUs")
    if machine.accelerator == "fake":
        variables = {"LD_PRELOAD": str(machine.build / "tests/support/nccl_stand_in/lib/libnccl.so.2")}
    else:
        variables = machine.need_nccl_on_one_gpu() if ranks > 1 else {}
    suite = [machine.suite("collective_suite"), "--collective=nccl", "--mean-by-share", *machine.flags, f"--gtest_filter=Ranks/*/{ranks}"]
    if ranks == 1:
        return passed(machine.run(suite, variables))
    # Each rank is a process, as in a training. Ranks that are threads of a process and share a GPU hang now and then.
    folder = {"PMIX_SERVER_TMPDIR": tempfile.mkdtemp(dir=machine.folder)}
    return passed(machine.run_together(machine.ranks([*suite, "--under-launcher"], ranks, {**variables, **folder})))


def memcheck(machine):
    yield "compute-sanitizer finds nothing in the kernels", lambda: sanitized(machine)


def sanitized(machine):
    machine.need_cuda("compute-sanitizer runs kernels of CUDA")
    tool = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    if not tool:
        raise Skipped("there is no compute-sanitizer")
    try:  # without the arrays of gigabytes
        return passed(machine.run([tool, "--error-exitcode=9", machine.suite("accelerator_suite"), "--accelerator=cuda", "--gtest_filter=-Large.*",
                                   *machine.flags]))
    except TimedOut:  # it is ten to fifty times slower than the kernels
        raise Skipped("it was not done in the time of this part; give it more with --seconds") from None
