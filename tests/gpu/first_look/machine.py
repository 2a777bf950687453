"""The programs of a build on one machine, with the PyTorch of its Python, for a limited time."""
import ctypes
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time

import training_data

LOG_OF_ONE = 20_000  # characters of one program's output that are kept


class Skipped(Exception):
    """This machine cannot try it; the text says why."""


class Failed(Exception):
    """It was tried and is wrong; `found` says how, as a text or as one for each of several."""

    def __init__(self, found):
        super().__init__(str(found))
        self.found = found


class TimedOut(Failed):
    """It was not done in the time of its part."""


class Started:
    """A program that runs, and what it prints."""

    def __init__(self, command, variables, machine):
        self.command = [str(word) for word in command]
        output, file = tempfile.mkstemp(dir=machine.folder)
        self.output = pathlib.Path(file)
        with os.fdopen(output) as given:
            self.process = subprocess.Popen(self.command, cwd=machine.folder, stdin=subprocess.DEVNULL, stdout=given,
                                            env={**machine.environment, **variables}, stderr=subprocess.STDOUT, start_new_session=True)

    def text(self):
        return self.output.read_text(encoding="utf-8", errors="replace")

    def end(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def library_path(build, torch_folder, given):
    """Returns where programs look for libraries: those of the build, of torch, and of the wheels beside torch."""
    wheels = sorted(pathlib.Path(torch_folder).parent.glob("nvidia/*/lib"))
    return ":".join(map(str, filter(None, [build / "lib", pathlib.Path(torch_folder) / "lib", *wheels, given])))


def torch_of(build):
    """Returns the version of torch that the programs of a build were compiled for."""
    packed = build / "packed.json"
    if packed.exists():
        return json.loads(packed.read_text(encoding="utf-8"))["torch"]
    text = (build / "lib/cohort/libtorch/version.py").read_text(encoding="utf-8")
    return re.search(r"__version__ = '([^']+)'", text).group(1)


def driver_version():
    if not shutil.which("nvidia-smi"):
        return "unknown, without nvidia-smi"
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    return subprocess.run(query, text=True, capture_output=True, check=False).stdout.partition("\n")[0]


def nccl_version():
    """Returns the version of the library that programs load; torch's own is that of the headers it was built with."""
    number = ctypes.c_int()
    ctypes.CDLL("libnccl.so.2").ncclGetVersion(ctypes.byref(number))
    return f"{number.value // 10000}.{number.value // 100 % 100}.{number.value % 100}"


class Machine:
    def __init__(self, arguments, root, folder):
        import torch
        self.torch, self.root, self.folder = torch, root, pathlib.Path(folder)
        self.build, self.accelerator, self.steps = arguments.build.resolve(), arguments.accelerator, arguments.steps
        self.out, self.total_ends = arguments.out, time.monotonic() + arguments.seconds
        self.ends = self.total_ends  # of the part that is tried
        self.is_cuda = self.accelerator == "cuda"
        fake = [f"--plugin-dir={self.build / 'tests/examples/fake_device/plugins'}"] if self.accelerator == "fake" else []
        self.flags = [*fake, f"--plugin-dir={self.build / 'lib/cohort/plugins'}"]
        self.environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1",
                            "LD_LIBRARY_PATH": library_path(self.build, torch.__path__[0], os.environ.get("LD_LIBRARY_PATH"))}

    def describe(self):
        """Returns what the figures depend on. Ends the program if they would mean nothing."""
        torch = self.torch
        if torch.__version__ != torch_of(self.build):
            raise SystemExit(f"tests/gpu: the programs are built for torch {torch_of(self.build)}, and python3 here has "
                             f"{torch.__version__}; put the python3 with that torch first in PATH, or build with "
                             "-DCOHORT_LIBTORCH=DIR for this one")
        about = {"accelerator": self.accelerator, "torch": torch.__version__, "date": time.strftime("%Y-%m-%d")}
        if self.is_cuda and not torch.cuda.is_available():
            raise SystemExit("tests/gpu: torch finds no GPU on this machine; rehearse with --accelerator=fake or cpu")
        if self.is_cuda:
            about |= {"card": torch.cuda.get_device_name(0), "driver": driver_version(), "cuda": torch.version.cuda,
                      "nccl": nccl_version()}
        return about

    def left(self):
        return self.ends - time.monotonic()

    def program(self, name):
        for folder in ("bin", "tests"):
            if (self.build / folder / name).exists():
                return str(self.build / folder / name)
        raise Failed(f"{self.build} has no {name}; build the target gpu_programs")

    def suite(self, name):
        ending = {"cuda": "_on_cuda", "fake": "_on_fake_device", "cpu": ""}[self.accelerator]
        return self.program(name + ending)

    def start(self, command, variables=None):
        return Started(command, variables or {}, self)

    def run(self, command, variables=None, code=0):
        return self.run_together([(command, variables or {})], code)

    def run_together(self, commands, code=0):
        """Runs commands with their variables side by side and returns what they have printed, once all have ended.

        Throws Failed if one ends with another exit code, TimedOut if the time of the part is over.
        """
        started = []
        try:
            for command, variables in commands:
                started.append(self.start(command, variables))
            for each in started:
                each.process.wait(max(0.1, self.left()))
        except subprocess.TimeoutExpired as error:
            raise TimedOut("it was not done in the time of this part") from error
        finally:
            for each in started:
                each.end()
                self.keep(each)
        text = "".join(each.text() for each in started)
        found = [each.process.returncode for each in started]
        if any(each != code for each in found):
            told = [line for line in text.splitlines() if re.search(r"error|Error|FAILED|Failure", line)] or text.splitlines()[-1:] or [""]
            raise Failed(f"exit codes {found} in place of {code}: {told[0][:300]}")
        return text

    def keep(self, started):
        """Adds a program's command, exit code and output to the log."""
        with open(self.out / "log.txt", "a", encoding="utf-8") as log:
            log.write(f"=== {' '.join(started.command)}\n{started.text()[-LOG_OF_ONE:]}\n--- exit code {started.process.returncode}\n")

    def ranks(self, command, count, variables=None):
        """Returns a program as so many tasks of srun that see the same devices: ranks share a GPU if there is one alone."""
        job = {"SLURM_JOB_ID": random.randrange(1, 1 << 30), "SLURM_STEP_ID": 0, "SLURM_STEP_NUM_TASKS": count,
               "SLURM_STEP_NUM_NODES": 1, "SLURM_NODEID": 0, "SLURM_GPUS_PER_TASK": 1}
        tasks = [{**job, "SLURM_PROCID": rank, "SLURM_LOCALID": rank} for rank in range(count)]
        return [(command, {key: str(value) for key, value in {**(variables or {}), **task}.items()}) for task in tasks]

    def data(self, model, steps, world=1, batch=None):
        file = self.folder / f"{model}-{steps}-{world}-{batch}.safetensors"
        return file if file.exists() else training_data.write(file, model, steps, world, batch)

    def numerics(self, model, data, *flags):
        return [self.program("cohort_numerics"), *self.flags, f"--data-from={data}", f"--model={model}", "--threads=1", *flags]

    def on_device(self, *flags):
        return (f"--accelerator={self.accelerator}", "--devices=1", *flags)

    def need_cuda(self, why):
        if not self.is_cuda:
            raise Skipped(f"{why}, so it needs a GPU")

    def need_nccl_on_one_gpu(self):
        """Returns the variables with which ranks may share a GPU under NCCL; throws Skipped if they may not here."""
        self.need_cuda("nccl moves memory of GPUs")
        if self.torch.cuda.device_count() == 1 and tuple(map(int, nccl_version().split("."))) < (2, 30, 3):
            raise Skipped("this NCCL lets no two ranks share a GPU; 2.30.3 does")
        return {"NCCL_MULTI_RANK_GPU_ENABLE": "1"}
