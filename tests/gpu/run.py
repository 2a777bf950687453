#!/usr/bin/env python3
"""Tries cohort on a machine with a GPU and measures it beside PyTorch: one table, and a JSON file with the same figures.

    tests/gpu/run.sh [--json=FILE] [--minutes=9] [--steps=100] [PART...]
    PARTS: kernels collectives training refusals memory_checks rates steps

Needs a build with CUDA (build/release, or the folder that tests/gpu/pack.sh has made, which holds this file too) and, on that
machine, python3 with the torch of that build, and a driver. What a machine lacks (an NCCL that lets two ranks share a GPU,
compute-sanitizer) is a row that says so. With --accelerator=fake the device without hardware takes the GPU's place: a rehearsal
of everything but what CUDA alone has. Exit code 1 if a row failed, or was not reached in time.
"""
import argparse
import json
import os
import pathlib
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/bench/driver"))
import training_data  # noqa: E402

PEER = ROOT / "tests/bench/training/peer.py"
ONE_RANK = ("single", "dp", "ddp", "sharded", "bagua:bytegrad")
TWO_RANKS = ("ddp", "ddp,compression=bf16", "sharded", "horovod,scale_lr=false", "bagua:gradient_allreduce", "bagua:bytegrad",
             "bagua:decentralized", "bagua:low_precision_decentralized")
TIMED = ("mlp_small", "mlp_25m", "resnet18_cifar", "gpt_mini")
ROUNDS = 3
CHECKED_STEPS = 5
TOLERANCE = 2e-3  # of the largest weight: a GPU adds in another order than a CPU


class Skipped(Exception):
    """This machine cannot try it; the text says why."""


class Failed(Exception):
    """It was tried; the text says what was found."""


class Machine:
    """The programs of a build on this machine, with its PyTorch, for a limited time."""

    def __init__(self, arguments, folder):
        import torch
        self.build, self.accelerator, self.steps = arguments.build.resolve(), arguments.accelerator, arguments.steps
        self.torch, self.folder = torch, pathlib.Path(folder)
        self.ends = time.monotonic() + 60 * arguments.minutes
        self.is_cuda = self.accelerator == "cuda"
        plugins = "lib/cohort/plugins" if self.is_cuda else "tests/examples/fake_device/plugins"
        self.flags = [f"--plugin-dir={self.build / plugins}"]
        libraries = [str(self.build / "lib"), str(pathlib.Path(torch.__path__[0]) / "lib")]
        self.environment = {**os.environ, "OMP_NUM_THREADS": "1",
                            "LD_LIBRARY_PATH": ":".join([*libraries, os.environ.get("LD_LIBRARY_PATH", "")])}

    def describe(self):
        about = {"accelerator": self.accelerator, "torch": self.torch.__version__}
        if self.is_cuda and not self.torch.cuda.is_available():
            raise SystemExit("tests/gpu: this machine's torch finds no GPU; rehearse with --accelerator=fake")
        if self.is_cuda:
            gpu = self.torch.cuda.get_device_properties(0)
            driver = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], text=True,
                                    capture_output=True, check=False).stdout.split("\n")[0]
            about |= {"gpu": gpu.name, "driver": driver, "nccl": ".".join(map(str, self.torch.cuda.nccl.version()))}
        return about

    def program(self, name):
        for folder in ("bin", "tests"):
            if (self.build / folder / name).exists():
                return str(self.build / folder / name)
        raise Failed(f"{self.build} has no {name}; build the target gpu_programs with CUDA")

    def suite(self, name):
        return self.program(f"{name}_on_{'cuda' if self.is_cuda else 'fake_device'}")

    def run(self, command, environment=None, code=0):
        return self.run_together([(command, environment or {})], code)

    def run_together(self, commands, code=0):
        """Runs commands with their variables side by side and returns what they have printed, once all have ended.

        Throws Failed if one ends with another exit code, or if the time is over.
        """
        processes = []
        for command, variables in commands:
            output = tempfile.TemporaryFile("w+", encoding="utf-8")
            processes.append((subprocess.Popen([str(word) for word in command], cwd=self.folder, stdout=output,
                                               env={**self.environment, **variables}, stderr=subprocess.STDOUT,
                                               start_new_session=True), output))
        try:
            for process, _ in processes:
                process.wait(max(0.1, self.ends - time.monotonic()))
        except subprocess.TimeoutExpired as error:
            raise Failed("it was not done in the time that was left") from error
        finally:
            for process, _ in processes:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        text = ""
        for _, output in processes:
            output.seek(0)
            text += output.read()
        found = [process.returncode for process, _ in processes]
        if any(each != code for each in found):
            told = [line for line in text.splitlines() if re.search(r"error|FAILED|Failure", line)] or text.splitlines() or [""]
            raise Failed(f"exit codes {found}: {told[0][:300]}")
        return text

    def run_ranks(self, command, count, environment=None, code=0):
        """Runs a program as `count` tasks of srun that see the same devices: ranks share a GPU if there is one alone."""
        job = random.randrange(1, 1 << 30)
        of_job = {"SLURM_JOB_ID": job, "SLURM_STEP_ID": 0, "SLURM_STEP_NUM_TASKS": count, "SLURM_STEP_NUM_NODES": 1,
                  "SLURM_NODEID": 0, "SLURM_GPUS_PER_TASK": 1}
        tasks = [{**of_job, "SLURM_PROCID": rank, "SLURM_LOCALID": rank} for rank in range(count)]
        return self.run_together([(command, {key: str(value) for key, value in {**(environment or {}), **task}.items()})
                                  for task in tasks], code)

    def data(self, model, steps, world):
        file = self.folder / f"{model}-{steps}-{world}.safetensors"
        return file if file.exists() else training_data.write(file, model, steps, world)

    def numerics(self, model, steps, world, *flags):
        return [self.program("cohort_numerics"), *self.flags, f"--data-from={self.data(model, steps, world)}",
                f"--model={model}", "--threads=1", "--attention=math", *flags]


def kernels(machine):
    yield ("every kernel against its formula",
           lambda: passed(machine.run([machine.suite("accelerator_suite"), f"--accelerator={machine.accelerator}", *machine.flags])))


def collectives(machine):
    suite = machine.suite("collective_suite")
    own = [f"--plugin-dir={machine.build / 'lib/cohort/plugins'}", *machine.flags]
    yield ("nccl, 1 rank", lambda: passed(machine.run(
        [suite, "--collective=nccl", "--mean-by-share", *own, "--gtest_filter=Ranks/*/1"])))
    if machine.is_cuda:
        yield "nccl, 2 ranks on one GPU", lambda: nccl_with_two_ranks(machine, suite, own)


def nccl_with_two_ranks(machine, suite, own):
    if machine.torch.cuda.device_count() == 1 and machine.torch.cuda.nccl.version() < (2, 30):
        raise Skipped("this NCCL lets no two ranks share a GPU; 2.30 does")
    return passed(machine.run([suite, "--collective=nccl", "--mean-by-share", *own, "--gtest_filter=Ranks/*/2"],
                              {"NCCL_MULTI_RANK_GPU_ENABLE": "1"}))


def training(machine):
    for strategy in ONE_RANK:
        yield f"{strategy}, 1 rank", lambda strategy=strategy: same_as_cpu(machine, strategy, 1, "")
    for wire in ("shm", "gloo"):
        for strategy in TWO_RANKS if wire == "shm" else TWO_RANKS[:2]:
            yield (f"{strategy}, 2 ranks, {wire}",
                   lambda strategy=strategy, wire=wire: same_as_cpu(machine, strategy, 2, wire))


def same_as_cpu(machine, strategy, ranks, wire):
    """Returns how far the weights are from those that the CPU trains, of the largest one."""
    from safetensors.torch import load_file
    weights = []
    for accelerator in ("cpu", machine.accelerator):
        file = machine.folder / f"{accelerator}.safetensors"
        flags = [f"--strategy={strategy}", f"--accelerator={accelerator}", f"--save-final={file}", "--optimizer=sgd_momentum",
                 "--lr=0.01", *([f"--collective={wire}"] if wire else []), *(["--devices=1"] if ranks == 1 else [])]
        command = machine.numerics("mlp_small", CHECKED_STEPS, ranks, *flags)
        machine.run(command) if ranks == 1 else machine.run_ranks(command, ranks)
        weights.append(load_file(file))
    largest = max(tensor.abs().max().item() for tensor in weights[0].values())
    distance = max((weights[1][name] - tensor).abs().max().item() for name, tensor in weights[0].items()) / largest
    if not distance <= TOLERANCE:
        raise Failed(f"the weights are {distance:.1e} of the largest one away from the CPU's; {TOLERANCE:.0e} is allowed")
    return f"weights within {distance:.0e} of the CPU's"


def refusals(machine):
    program = machine.numerics("mlp_small", CHECKED_STEPS, 1, f"--accelerator={machine.accelerator}")
    yield "more devices than there are", lambda: refused(machine.run([*program, "--devices=99"], code=2), "needs .* device 98")
    if machine.is_cuda:
        yield "no visible GPU", lambda: refused(
            machine.run([*program, "--devices=1"], {"CUDA_VISIBLE_DEVICES": "-1"}, code=2), "finds no device")
        yield "nccl, 2 ranks on one GPU", lambda: refuse_sharing(machine)


def refuse_sharing(machine):
    if machine.torch.cuda.device_count() > 1:
        raise Skipped("there is a GPU for each rank")
    command = machine.numerics("mlp_small", CHECKED_STEPS, 2, "--accelerator=cuda", "--strategy=ddp", "--collective=nccl")
    return refused(machine.run_ranks(command, 2, code=2), "shm or gloo")


def refused(text, pattern):
    line = next((line for line in text.splitlines() if re.search(pattern, line)), None)
    if line is None:
        raise Failed(f"no line says '{pattern}': {text[-300:]}")
    return line[:160]


def passed(text):
    count = re.search(r"\[  PASSED  \] (\d+) test", text)
    if not count or count.group(1) == "0":
        raise Failed("no test ran")
    return f"{count.group(1)} tests"


def memory_checks(machine):
    if machine.is_cuda:
        yield "compute-sanitizer finds nothing in the kernels", lambda: sanitized(machine)


def sanitized(machine):
    tool = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    if not tool:
        raise Skipped("there is no compute-sanitizer")
    return passed(machine.run([tool, "--error-exitcode=9", machine.suite("accelerator_suite"), "--accelerator=cuda",
                               *machine.flags]))


def rates(machine):
    size = ["--mib=64", "--calls=50"] if machine.is_cuda else ["--mib=1", "--calls=2"]
    yield "kernels beside a copy", lambda: json.loads(machine.run([machine.suite("kernel_rates"), *machine.flags, *size]))


def steps(machine):
    for model in TIMED if machine.is_cuda else TIMED[:1]:
        yield f"ms of a step: {model}", lambda model=model: step_times(machine, model)


def step_times(machine, model):
    """Returns the median over rounds of the mean step, for one rank of each contestant."""
    contestants = {"cohort single": lambda: cohort_step(machine, model, "single"),
                   "cohort ddp": lambda: cohort_step(machine, model, "ddp")}
    if machine.is_cuda:
        contestants |= {"torch loop": lambda: peer_step(machine, model, "none"),
                        "torch DDP": lambda: peer_step(machine, model, "ddp")}
    times = {name: [] for name in contestants}
    for _ in range(ROUNDS):
        for name, train in contestants.items():
            times[name].append(train())
    return {name: round(statistics.median(own), 4) for name, own in times.items()}


def precisions(machine):
    for model in TIMED if machine.is_cuda else TIMED[:1]:
        for precision in ("32", "bf16-mixed", "bf16-true", "16-mixed", "16-true"):
            yield (f"a step in {precision}: {model}",
                   lambda model=model, precision=precision: step_in(machine, model, precision))


def step_in(machine, model, precision):
    summary = machine.folder / "summary.json"
    step = cohort_step(machine, model, "single", f"--precision={precision}", f"--summary-json={summary}")
    peak = json.loads(summary.read_text(encoding="utf-8"))["peak_device_mib"][0]
    return {"ms": round(step, 4), "peak_device_mib": round(peak, 1)}


def mean_step(file, steps_trained):
    """Returns the mean of the later half: a step's own time says when the host was done with it, not the device."""
    own = json.loads(pathlib.Path(file).read_text(encoding="utf-8"))
    return statistics.mean(own[steps_trained // 2:])


def cohort_step(machine, model, strategy, *flags):
    times = machine.folder / "times.json"
    machine.run(machine.numerics(model, machine.steps, 1, f"--strategy={strategy}", "--devices=1", "--barebones", *flags,
                                 f"--accelerator={machine.accelerator}", f"--step-times={times}"))
    return mean_step(times, machine.steps)


def peer_step(machine, model, kind):
    result = machine.folder / "peer"
    machine.run([sys.executable, PEER, f"--with={kind}", f"--model={model}", f"--steps={machine.steps}", "--device=cuda",
                 f"--data-from={machine.data(model, machine.steps, 1)}", f"--started={time.time()}", f"--result={result}"],
                {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511"})
    return statistics.mean(json.loads(pathlib.Path(f"{result}.0").read_text(encoding="utf-8"))["step_ms"][machine.steps // 2:])


PARTS = {part.__name__: part for part in (kernels, collectives, training, refusals, memory_checks, rates, steps, precisions)}


def try_row(what):
    try:
        return "ok", what()
    except Skipped as reason:
        return "skipped", str(reason)
    except Failed as found:
        return "FAILED", str(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    packed = ROOT / "build/packed"
    parser.add_argument("--build", type=pathlib.Path, default=packed if packed.exists() else ROOT / "build/release")
    parser.add_argument("--accelerator", choices=("cuda", "fake"), default="cuda")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--minutes", type=float, default=9)
    parser.add_argument("--steps", type=int, default=100, help="of each training that is timed")
    parser.add_argument("parts", nargs="*", metavar="PART", help=" ".join(PARTS))
    arguments = parser.parse_args()
    unknown = [part for part in arguments.parts if part not in PARTS]
    if unknown:
        parser.error(f"there is no part {unknown[0]}; there are {', '.join(PARTS)}")
    rows = []
    with tempfile.TemporaryDirectory(prefix="cohort-gpu-") as folder:
        machine = Machine(arguments, folder)
        about = machine.describe()
        print(f"| {', '.join(f'{key} {value}' for key, value in about.items())} | | |\n|---|---|---|")
        for part in arguments.parts or PARTS:
            for name, what in PARTS[part](machine):
                result, found = try_row(what)
                rows.append({"part": part, "what": name, "result": result, "found": found})
                print(f"| {part}: {name} | {result} | {found} |", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": about, "rows": rows}, indent=1) + "\n", encoding="utf-8")
    return 1 if any(row["result"] == "FAILED" for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
