"""Starts the programs that are measured, waits for them, and leaves none behind."""
import contextlib
import os
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass, field

# Variables of launchers and of tuning that would change what is measured.
DROPPED = ("RANK", "WORLD_SIZE", "LOCAL_", "NODE_RANK", "MASTER_", "OMPI_", "PMIX_", "TORCHELASTIC_", "COHORT_", "SLURM_",
           "OMP_", "MALLOC_", "HOROVOD_", "GLOO_", "PYTHONPATH")


class Failed(Exception):
    """A program ended otherwise than with code 0 in its time."""


@dataclass
class Process:
    command: list
    environment: dict = field(default_factory=dict)


def _start(process, out, err):
    environment = {key: value for key, value in os.environ.items() if not key.startswith(DROPPED)}
    environment.update(PYTHONDONTWRITEBYTECODE="1", **process.environment)
    return subprocess.Popen([str(word) for word in process.command], env=environment, stdin=subprocess.DEVNULL, stdout=out,
                            stderr=err, start_new_session=True)


@contextlib.contextmanager
def _uninterrupted():
    """A signal that ends this program does so afterwards: then it knows what it has started."""
    received = []
    handlers = {number: signal.signal(number, lambda given, _: received.append(given)) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number in received:
            os.kill(os.getpid(), number)


def _end(child):
    """Launchers are asked first: killed at once, they would leave their ranks behind."""
    with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGTERM)
            child.wait(timeout=5)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _await_all(children, deadline):
    """Returns when all ended well; raises with the name of the first that did not."""
    waiting = list(children)
    while waiting:
        for child in list(waiting):
            code = child.poll()
            if code is None:
                continue
            if code != 0:
                raise Failed(f"{os.path.basename(child.args[0])} ended with code {code}")
            waiting.remove(child)
        if time.monotonic() > deadline:
            raise Failed(f"{os.path.basename(waiting[0].args[0])} did not end in its time")
        time.sleep(0.002)


def run_together(processes, timeout_s=300):
    """Starts all at once and returns their standard outputs when all have ended well."""
    with contextlib.ExitStack() as stack:
        children, outputs, errors = [], [], []
        try:
            for process in processes:
                outputs.append(stack.enter_context(tempfile.TemporaryFile("w+")))
                errors.append(stack.enter_context(tempfile.TemporaryFile("w+")))
                with _uninterrupted():
                    children.append(_start(process, outputs[-1], errors[-1]))
            _await_all(children, time.monotonic() + timeout_s)
        except Failed as failure:
            raise Failed(f"{failure}: {_last_lines(errors)}") from None
        finally:
            for child in children:
                _end(child)
        return [_content(output) for output in outputs]


def _content(file):
    file.seek(0)
    return file.read()


def _last_lines(files):
    lines = [line for file in files for line in _content(file).strip().splitlines()[-3:]]  # causes come before echoes
    return " | ".join(dict.fromkeys(lines)) or "no message"
