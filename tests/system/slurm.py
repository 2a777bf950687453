"""A SLURM of the test's own: Debian's munged, slurmctld and two slurmd on this machine, with all they write in one folder.

Each slurmd has a port and passes for a node of its own (`-N`), so that jobs of two nodes run here; a node has more processors
than the machine, because SLURM would let jobs wait for each other. There is no accounting. Programs find this SLURM by the
variable SLURM_CONF. SLURM keeps a job that is queued again for two minutes; Job.start_soon ends that. The nodes' names are
addresses of this machine for their tasks alone: slurmd has a mount namespace with another /etc/hosts, where root may make one.
"""
import contextlib
import os
import pathlib
import pwd
import re
import shutil
import socket
import subprocess
import tempfile
import time
import unittest

from harness import HANG, Result, SystemTest, clean_environment, kill, processes_marked, reserved_port

PATH = "/usr/sbin:/usr/local/sbin:" + os.environ.get("PATH", "")
PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "salloc", "scontrol", "squeue", "scancel", "sinfo")
NODES = ("node1", "node2")
PROCESSORS = 16  # of each node, as SLURM sees it
ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "DEADLINE", "BOOT_FAIL", "PREEMPTED")


IN_NAMESPACE = ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"']


def why_no_slurm():
    """Returns which of SLURM's programs are missing, as a reason to skip; nothing if all are here."""
    missing = [program for program in PROGRAMS if not shutil.which(program, path=PATH)]
    return f"there is no {', '.join(missing)}: cmake/bootstrap.sh --tests installs SLURM" if missing else None


class Job:
    """A job that sbatch has taken. `number` is its text: 7, or 7_2 for a task of an array."""

    def __init__(self, slurm, number):
        self.slurm, self.number = slurm, number

    def fields(self):
        """Returns what `scontrol show job` says of it. Of an array give the number of one task."""
        line = self.slurm.succeed("scontrol", "-o", "show", "job", self.number).stdout
        return dict(word.split("=", 1) for word in line.split() if "=" in word)

    def state(self):
        return self.fields()["JobState"]

    def wait(self, *states, seconds=HANG):
        """Blocks until the job is in one of these states, or has ended for good, and returns its fields."""
        return self.slurm.wait_until(lambda: (fields := self.fields())["JobState"] in (states or ENDED) and fields,
                                     lambda: f"job {self.number} is {self.state()}", seconds)

    def exit_code(self):
        """Returns the code of its script: of 2:0 the first number, which the second, a signal, does not change."""
        return int(self.fields()["ExitCode"].split(":")[0])

    def restarts(self):
        return int(self.fields()["Restarts"])

    def requeue(self):
        self.slurm.succeed("scontrol", "requeue", self.number)

    def start_soon(self):
        """Lets a job that has been queued again start; not at once, as slurmd refuses a start in the second of the end before."""
        self.slurm.succeed("scontrol", "update", f"jobid={self.number}", "StartTime=now+2")

    def signal(self, name, batch=True):
        """Sends a signal to the script of the job, or else to its tasks."""
        self.slurm.succeed("scancel", f"--signal={name}", *(["--batch"] if batch else []), self.number)


class Slurm:
    """Starts the daemons; stop() cancels all jobs, ends the daemons and removes the folder."""

    def __init__(self, folder):
        """The folder must not exist, and its path must be short: SLURM makes sockets there."""
        self.folder = pathlib.Path(folder)
        (self.folder / "state").mkdir(parents=True)
        self.configuration = self.folder / "slurm.conf"
        self.mark = f"SLURM_CONF={self.configuration}"
        self.daemons = {}
        self.kept = contextlib.ExitStack()
        self.ports = [self.kept.enter_context(reserved_port()) for _ in ("slurmctld", *NODES)]
        try:
            self.start()
        except BaseException:
            self.stop()
            raise

    def start(self):
        hosts = self.folder / "hosts"
        hosts.write_text(f"127.0.0.1 {' '.join(NODES)}\n" + pathlib.Path("/etc/hosts").read_text())
        namespace = [*IN_NAMESPACE, str(hosts)]
        self.has_names = subprocess.run([*namespace, "true"], stderr=subprocess.DEVNULL).returncode == 0
        (self.folder / "key").write_bytes(os.urandom(1024))
        (self.folder / "key").chmod(0o600)
        self.configuration.write_text("\n".join([*self.settings(*self.ports), ""]))
        # --force makes a warning of a refusal: the temporary folder belongs to others as well.
        self.start_daemon("munged", "--foreground", "--force", "--num-threads=2", f"--key-file={self.folder / 'key'}",
                          f"--socket={self.munge_socket}", f"--pid-file={self.folder / 'munged.pid'}",
                          f"--seed-file={self.folder / 'munged.seed'}")
        self.wait_until(self.munge_socket.exists, lambda: "munged does not listen")
        self.start_daemon("slurmctld", "-D")
        for node in NODES:
            self.start_daemon("slurmd", "-D", "-N", node, name=node, inside=namespace if self.has_names else [])
        self.wait_until(lambda: self.run("sinfo", "-h", "-N", "-o", "%T").stdout.split() == ["idle"] * len(NODES),
                        lambda: f"nodes are not idle: {self.run('sinfo', '-N', '-l')}")

    @property
    def munge_socket(self):
        return self.folder / "munge.socket"

    def settings(self, port, *node_ports):
        """Returns the lines of slurm.conf."""
        host, user, folder = socket.gethostname().split(".")[0], pwd.getpwuid(os.geteuid()).pw_name, self.folder
        nodes = (f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={node_port} CPUs={PROCESSORS} State=UNKNOWN"
                 for name, node_port in zip(NODES, node_ports))
        return ["ClusterName=test", f"SlurmctldHost={host}(127.0.0.1)", f"SlurmctldPort={port}", f"SlurmUser={user}",
                f"SlurmdUser={user}", "AuthType=auth/munge", f"AuthInfo=socket={self.munge_socket}", "CredType=cred/munge",
                f"StateSaveLocation={folder / 'state'}", f"SlurmdSpoolDir={folder}/spool-%n",
                f"SlurmctldPidFile={folder / 'slurmctld.pid'}", f"SlurmdPidFile={folder}/%n.pid",
                "ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none", "MpiDefault=none", "SwitchType=switch/none",
                "SelectType=select/cons_tres", "SelectTypeParameters=CR_Core", "SlurmdParameters=config_overrides",
                "SchedulerType=sched/backfill", "SchedulerParameters=sched_interval=1,bf_interval=1",
                "AccountingStorageType=accounting_storage/none", "JobAcctGatherType=jobacct_gather/none",
                "JobCompType=jobcomp/none", "JobRequeue=1", "KillWait=2", "OverTimeLimit=0", "ReturnToService=2",
                *nodes, "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP"]

    def start_daemon(self, program, *arguments, name=None, inside=()):
        with open(self.log_of(name or program), "ab") as log:
            self.daemons[name or program] = subprocess.Popen(
                [*inside, shutil.which(program, path=PATH), *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                cwd=self.folder, env=clean_environment(self.environment()), start_new_session=True)

    def log_of(self, daemon):
        return self.folder / f"{daemon}.log"

    def environment(self, **more):
        """Returns the variables by which SLURM's programs find these daemons."""
        return {"SLURM_CONF": str(self.configuration), **more}

    def wait_until(self, condition, what, seconds=HANG):
        """Returns what the condition does once that is true. Throws if a daemon ends before, or at the deadline."""
        deadline = time.monotonic() + seconds
        while not (found := condition()):
            ended = [name for name, daemon in self.daemons.items() if daemon.poll() is not None]
            if ended or time.monotonic() > deadline:
                why = f"{', '.join(ended)} ended" if ended else f"after {seconds} s {what()}"
                raise RuntimeError(f"{why}\n{self.logs()}")
            time.sleep(0.05)
        return found

    def logs(self):
        return "\n".join(f"--- {name}\n{self.log_of(name).read_text()[-2000:]}" for name in self.daemons)

    def run(self, program, *arguments, environment=None, timeout=HANG, cwd=None):
        """Returns how one of SLURM's programs, or any program of a job, has ended."""
        done = subprocess.run([program, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=timeout, cwd=cwd or self.folder, env=clean_environment(self.environment(**(environment or {}))))
        return Result(done.returncode, done.stdout, done.stderr)

    def succeed(self, program, *arguments, **options):
        result = self.run(program, *arguments, **options)
        if result.code != 0:
            raise AssertionError(f"{program} {' '.join(map(str, arguments))}: {result}")
        return result

    def srun(self, *arguments, **options):
        return self.run("srun", *arguments, **options)

    def scontrol(self, *arguments, **options):
        return self.succeed("scontrol", *arguments, **options)

    def squeue(self, *arguments, **options):
        return self.succeed("squeue", *arguments, **options)

    def sbatch(self, *arguments, **options):
        """Returns the job that sbatch has made of these arguments."""
        return self.job(self.succeed("sbatch", "--parsable", *arguments, **options).stdout.strip())

    def job(self, number):
        return Job(self, str(number))

    def jobs(self):
        """Returns the numbers of the jobs that have not ended; of an array that of each task."""
        return re.findall(r"\S+", self.squeue("-h", "-r", "-o", "%i").stdout)

    def cancel_all(self):
        """Ends all jobs and blocks until their processes are gone."""
        for state in ("PENDING", "RUNNING", "SUSPENDED"):
            self.run("scancel", f"--state={state}")
        self.wait_until(lambda: not self.jobs(), lambda: f"jobs are left: {self.squeue().stdout}")

    def stop(self):
        """Ends jobs and daemons. What does not end in order is killed, and then said."""
        failure = None
        try:
            if len(self.daemons) == 2 + len(NODES):
                self.cancel_all()
        except (RuntimeError, AssertionError, subprocess.TimeoutExpired) as error:
            failure = error
        for daemon in reversed(self.daemons.values()):
            daemon.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                daemon.wait(HANG)
            daemon.kill()
            daemon.wait()
        kill(processes_marked(self.mark))
        self.kept.close()
        shutil.rmtree(self.folder)
        if failure:
            raise failure


@unittest.skipIf(why_no_slurm(), why_no_slurm())
class SlurmTest(SystemTest):
    """One SLURM serves the tests of a class. Its programs run as commands of the test, in an environment that names it."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.slurm = Slurm(tempfile.mktemp(prefix="cohort-slurm-"))
        cls.addClassCleanup(cls.slurm.stop)

    def nothing_is_left_behind(self):
        self.slurm.cancel_all()
        super().nothing_is_left_behind()

    def environment(self, extra=None):
        return super().environment(self.slurm.environment(**(extra or {})))
