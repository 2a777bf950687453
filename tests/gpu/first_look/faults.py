"""What goes wrong, and how the programs say it: sentences and exit codes."""
import contextlib
import re
import signal
import sys
import time

from machine import Failed, Skipped

MODEL, STEPS, BATCH, CLASSES = "mlp_small", 5, 32, 10
HOLDER = """
import time, torch
held = torch.empty(torch.cuda.mem_get_info()[0] - (3 << 30), dtype=torch.uint8, device="cuda")
print("held", flush=True)
time.sleep(600)
"""


def faults(machine):
    program = machine.numerics(MODEL, machine.data(MODEL, STEPS), f"--accelerator={machine.accelerator}")
    if machine.accelerator != "cpu":
        yield "more devices than there are", lambda: says(machine.run([*program, "--devices=99"], code=2), "needs .* device 98")
    if machine.is_cuda:
        yield "no visible GPU", lambda: says(
            machine.run([*program, "--devices=1"], {"CUDA_VISIBLE_DEVICES": "-1"}, code=2), "finds no device")
        yield "nccl, 2 ranks on one GPU", lambda: refuse_sharing(machine)
    yield "a label out of range", lambda: bad_label(machine)
    yield "no memory", lambda: no_memory(machine)
    yield "a killed rank", lambda: killed_rank(machine, "shm", {})
    yield "a killed rank, nccl", lambda: killed_rank(machine, "nccl", machine.need_nccl_on_one_gpu())


def says(text, pattern):
    """Returns the line that has the pattern; throws Failed if there is none."""
    line = next((line for line in text.splitlines() if re.search(pattern, line)), None)
    if line is None:
        raise Failed(f"no line says '{pattern}': {text[-300:]}")
    return line[:200]


def refuse_sharing(machine):
    if machine.torch.cuda.device_count() > 1:
        raise Skipped("there is a GPU for each rank")
    command = machine.numerics(MODEL, machine.data(MODEL, STEPS, 2), "--accelerator=cuda", "--strategy=ddp", "--collective=nccl")
    return says(machine.run_together(machine.ranks(command, 2), code=2), "shm or gloo")


def bad_label(machine):
    """A batch has a class that the model does not have: a kernel on the device finds it, and later calls fail too."""
    file = machine.folder / "bad_label.safetensors"
    content = bytearray(machine.data(MODEL, STEPS).read_bytes())
    first_of_last = len(content) - 8 * BATCH  # y, of whole numbers with eight bytes, is the last tensor of the file
    content[first_of_last:first_of_last + 8] = CLASSES.to_bytes(8, "little")
    file.write_bytes(content)
    text = machine.run(machine.numerics(MODEL, file, *machine.on_device("--strategy=single")), code=1)
    if "nothing caught" in text:
        raise Failed("the program was ended by an exception that nothing caught: " + says(text, "nothing caught"))
    return says(text, "error: .*(Target 10 is out of bounds|device-side assert)")


def no_memory(machine):
    if machine.accelerator == "cpu":
        raise Skipped("a CPU's memory is the machine's")
    model = "table_4gib" if machine.is_cuda else "table_4mib"
    command = machine.numerics(model, machine.data(model, 3), *machine.on_device("--strategy=single"))
    with memory_taken(machine) as variables:
        return says(machine.run(command, variables, code=2), "error: .*; choose a smaller batch")


@contextlib.contextmanager
def memory_taken(machine):
    """Leaves a program less memory of the device than the model needs; gives the variables to run it with."""
    if machine.accelerator == "fake":
        yield {"FAKE_DEVICE_MIB": "2"}
        return
    holder = machine.start([sys.executable, "-c", HOLDER])
    try:
        wait_for(machine, holder, "held")
        yield {}
    finally:
        holder.end()
        machine.keep(holder)


def killed_rank(machine, collective, variables):
    command = machine.numerics(MODEL, machine.data(MODEL, STEPS, 2), f"--accelerator={machine.accelerator}", "--strategy=ddp",
                               f"--collective={collective}", "--timeout=15s", "--max-epochs=1000000")
    ranks = [machine.start(*task) for task in machine.ranks(command, 2, variables)]
    try:
        wait_for(machine, ranks[0], r"^epoch \d")
        ranks[1].process.send_signal(signal.SIGKILL)
        killed = time.monotonic()
        wait_until(machine, lambda: ranks[0].process.poll() is not None, "rank 0 to end")
        ended = time.monotonic()
    finally:
        for rank in ranks:
            rank.end()
            machine.keep(rank)
    if ranks[0].process.returncode != 4:
        raise Failed(f"rank 0 ended with exit code {ranks[0].process.returncode} in place of 4")
    return f"after {ended - killed:.1f} s: {says(ranks[0].text(), 'error: .*rank 1')}"


def wait_for(machine, started, pattern):
    wait_until(machine, lambda: re.search(pattern, started.text(), re.M) or started.process.poll() is not None, f"'{pattern}'")
    if not re.search(pattern, started.text(), re.M):
        raise Failed(f"it ended with exit code {started.process.returncode} before '{pattern}': {started.text()[-300:]}")


def wait_until(machine, condition, what):
    while not condition():
        if machine.left() < 0:
            raise Failed(f"{what} did not come in the time of this part")
        time.sleep(0.05)
