"""The files of examples/containers work: the image's contents, the pods of the manifest, the notebook.

No container engine is needed. A pod is a root folder with what the Dockerfile puts into the image, this machine's /usr, and
namespaces of its own for mounts, processes and, where pods talk to each other, networks. The variables are those that the
Kubeflow training operator v1 sets, and the secret lies as Kubernetes mounts it."""
import functools
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import unittest

import harness
from harness import BIN, BUILD, LIBTORCH, PLUGINS, SOURCE, SystemTest, clean_environment
from pages import only_block
from ssh_hosts import TwoNetworks, why_no_networks

FOLDER = SOURCE / "examples/containers"
DOCKERFILE = (FOLDER / "Dockerfile").read_text()
MANIFEST = FOLDER / "pytorchjob.yaml"
SECRET = "a secret that only the pods of this job know\n"
SHORT = ["--max-steps=20", "--limit-val-batches=2", "--limit-test-batches=2"]
DEBIAN_PYTHON = "/usr/bin/python3"  # it has a parser of YAML
IN_EVERY_IMAGE = {"libc6", "libgcc-s1", "libstdc++6"}

# Arguments: root, hosts, user, command. Makes the root look like a container's and becomes the command, as process 1.
ENTER = """
set -e
root=$1 hosts=$2 user=$3; shift 3
mount --make-rprivate /
for one in usr dev/null dev/zero dev/urandom dev/random; do mount --rbind "/$one" "$root/$one"; done
mount -t proc proc "$root/proc"
mount -t tmpfs -o size=64k shm "$root/dev/shm"
mount --bind "$hosts" "$root/etc/hosts"
cd /
exec chroot --userspec="$user:$user" --groups="$user" "$root" sh -c 'cd /tmp && exec "$@"' sh "$@"
"""


def parsed(yaml):
    """Returns the documents of a text in YAML, by Debian's parser."""
    read = "import json, sys, yaml; json.dump(list(yaml.safe_load_all(sys.stdin)), sys.stdout)"
    text = subprocess.run([DEBIAN_PYTHON, "-c", read], input=yaml, capture_output=True, text=True, check=True).stdout
    return json.loads(text)


def the_job():
    _, job = parsed(MANIFEST.read_text())
    return job


def instructions():
    """Returns the words of each line of the Dockerfile, with continued ones joined."""
    text = re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.M).replace("\\\n", " ")
    return [line.split() for line in text.splitlines() if line.strip()]


def copied_sources():
    return [source for words in instructions() if words[0] == "COPY" and "--from=build" not in words for source in words[1:-1]]


def libtorch_files():
    """Returns the libraries of LibTorch that the image has, below the folder of LibTorch."""
    return re.findall(r"opt/cohort-deps/libtorch-\*/(\S+)", DOCKERFILE)


def needed_by(file):
    listed = subprocess.run(["readelf", "-d", file], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"\(NEEDED\).*\[(.*)\]", listed))


@functools.cache
def package_of(library):
    """Returns the Debian package of a library of the system; nothing where no package has it."""
    listed = subprocess.run(["dpkg-query", "-S", f"*/{library}"], capture_output=True, text=True).stdout
    names = {line.split(":")[0] for line in listed.splitlines() if line.endswith(f"-linux-gnu/{library}")}
    return names.pop() if names else None


class Files(SystemTest):
    def test_the_image_has_every_library_that_is_needed(self):
        installed = " ".join(" ".join(words) for words in instructions() if "apt-get" in words).split()
        own = {file.name for file in (BUILD / "lib").glob("*.so*")} | {pathlib.Path(file).name for file in libtorch_files()}
        programs = [BIN / name for name in ("cohort", "mnist")]
        for file in [*programs, *(BUILD / "lib").glob("libcohort*.so"), *PLUGINS.glob("*.so")]:
            for library in needed_by(file) - own:
                with self.subTest(file=file.name, library=library):
                    package = package_of(library)
                    self.assertTrue(library.startswith("ld-linux") or package in IN_EVERY_IMAGE or package in installed, package)

    def test_the_manifest_is_a_job_of_two_pods_with_a_secret(self):
        volume, job = parsed(MANIFEST.read_text())
        self.assertEqual((volume["kind"], job["kind"], job["apiVersion"]),
                         ("PersistentVolumeClaim", "PyTorchJob", "kubeflow.org/v1"))
        for name in ("Master", "Worker"):
            replicas = job["spec"]["pytorchReplicaSpecs"][name]
            self.assertEqual((replicas["replicas"], replicas["restartPolicy"]), (1, "OnFailure"))
            pod = replicas["template"]["spec"]
            volumes = {one["name"]: one for one in pod["volumes"]}
            (container,) = pod["containers"]
            self.assertEqual(container["name"], "pytorch")
            self.assertEqual({one["name"] for one in container["volumeMounts"]}, set(volumes))
            self.assertEqual(volumes["job-secret"]["secret"]["defaultMode"], 0o400)
            self.assertEqual(volumes["runs"]["persistentVolumeClaim"]["claimName"], volume["metadata"]["name"])
            self.assertEqual(f"USER {pod['securityContext']['runAsUser']}", re.search("^USER .*$", DOCKERFILE, re.M).group(0))


class BuildInFull(SystemTest):
    def test_the_copied_sources_are_all_that_a_build_needs(self):
        source = self.folder / "source"
        for name in copied_sources():
            target = source / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if (SOURCE / name).is_dir():
                shutil.copytree(SOURCE / name, target, dirs_exist_ok=True)
            else:
                shutil.copy(SOURCE / name, target)
        self.succeed(["cmake", "--preset", "release", "-S", source], timeout=300)
        self.succeed(["ninja", "-C", source / "build/release", "-n"])


class NotebookInFull(SystemTest):
    def test_its_cells_run_in_order(self):
        run = "import json, sys; names = {}\n" \
              "for cell in json.load(open(sys.argv[1]))['cells']:\n" \
              "    if cell['cell_type'] == 'code': exec(''.join(cell['source']), names)"
        path = {"PATH": f"{BIN}:{os.environ['PATH']}"}
        result = self.succeed([DEBIAN_PYTHON, "-c", run, FOLDER / "mnist.ipynb"], path, timeout=300)
        self.assertRegex(result.stdout, r"strategy +ddp_spawn")
        self.assertRegex(result.stdout, r"test accuracy +9\d\.\d\d%")
        self.assertRegex(result.stdout, r"equal weights +True")
        # Four validations within the epoch.
        self.assertEqual(len(re.findall(r"^step \d+  validation accuracy \d+\.\d+%$", result.stdout, re.M)), 4)


@unittest.skipIf(why_no_networks(), why_no_networks())
class PodsInFull(SystemTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.image = cls.class_folder()
        cls.image.chmod(0o755)
        subprocess.run(["cmake", "--install", BUILD, "--prefix", cls.image / "opt/cohort"], env=clean_environment(),
                       stdin=subprocess.DEVNULL, capture_output=True, check=True)
        subprocess.run([cls.image / "opt/cohort/bin/cohort", "libtorch", "--install", f"--from={LIBTORCH}"],
                       stdout=subprocess.DEVNULL, check=True)
        for file in libtorch_files():
            source = LIBTORCH.parent / file
            target = cls.image / str(source)[1:]
            target.parent.mkdir(parents=True, exist_ok=True)
            if os.stat(source).st_dev == os.stat(target.parent).st_dev:
                target.hardlink_to(source.resolve())  # it is large
            else:
                shutil.copy(source, target)
        for name in ("usr", "dev/shm", "proc", "etc", "tmp", "runs", "job-secret"):
            (cls.image / name).mkdir(parents=True)
        for name in ("dev/null", "dev/zero", "dev/urandom", "dev/random", "etc/hosts"):
            (cls.image / name).touch()
        for name in ("bin", "sbin", "lib", "lib64"):
            (cls.image / name).symlink_to(f"usr/{name}")
        for name in ("tmp", "runs"):
            (cls.image / name).chmod(0o1777)

    def setUp(self):
        super().setUp()
        self.pod = the_job()["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]
        self.user = self.pod["securityContext"]["runAsUser"]
        self.hosts = self.folder / "hosts"
        self.hosts.write_text("127.0.0.1 localhost\n")
        self.mount_the_secret()
        self.addCleanup(lambda: [shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
                                 for name in ("runs", "tmp", "job-secret") for entry in (self.image / name).iterdir()
                                 if not entry.is_symlink()])

    def mount_the_secret(self):
        """As Kubernetes does for a pod with an fsGroup: of root, readable by the group."""
        folder = self.image / "job-secret"
        version = folder / "..2026_11_26_01_00_00.123456789"
        version.mkdir()
        (version / "secret").write_text(SECRET)
        mode = self.pod["volumes"][0]["secret"]["defaultMode"] | 0o440
        os.chown(version / "secret", 0, self.pod["securityContext"]["fsGroup"])
        (version / "secret").chmod(mode)
        for link, target in ((folder / "..data", version.name), (folder / "secret", "..data/secret")):
            link.symlink_to(target)
            self.addCleanup(link.unlink)

    def start_container(self, command, environment, inside=()):
        enter = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", ENTER, "sh", self.image, self.hosts,
                 str(self.user)]
        path = {"PATH": "/opt/cohort/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/tmp", "TMPDIR": "/tmp"}
        return self.start([*inside, *enter, *command], {**path, **environment})

    def start_pod(self, networks, rank, command):
        """As the training operator v1 does; variables in a command are put in by Kubernetes."""
        (container,) = self.pod["containers"]
        variables = {"PYTHONUNBUFFERED": "0", "MASTER_PORT": "23456", "MASTER_ADDR": "mnist-master-0", "WORLD_SIZE": "2",
                     "RANK": str(rank), **{one["name"]: one["value"] for one in container["env"]}}
        arguments = [*SHORT, *[word.replace("--epochs=10", "--epochs=1") for word in container["args"]]]
        words = [re.sub(r"\$\((\w+)\)", lambda name: variables[name.group(1)], word) for word in [*command, *arguments]]
        return self.start_container(words, variables, networks.inside(rank))

    def train(self, command):
        networks = TwoNetworks()
        self.addCleanup(networks.stop)
        self.hosts.write_text(f"127.0.0.1 localhost\n{networks.addresses[0]} mnist-master-0\n")
        for pod in [self.start_pod(networks, rank, command) for rank in range(2)]:
            result = self.finish(pod, timeout=300)  # a hang only: the machine may be busy
            self.assertEqual(result.code, 0, str(result))
        self.assertTrue(any((self.image / "runs/checkpoints").iterdir()))
        summary = json.loads((self.image / "runs/summary.json").read_text())
        self.assertEqual(len(set(summary["weights_sha256"])), 1)
        return summary

    def test_pods_of_the_job_are_ranks_of_one_training(self):
        (container,) = self.pod["containers"]
        summary = self.train(container["command"])
        self.assertEqual((summary["world_size"], summary["num_nodes"], summary["steps"]), (2, 2, 20))

    def test_each_pod_may_have_several_ranks(self):
        (shown,) = parsed(only_block("examples/containers/README.md", "yaml", "## On Kubernetes"))
        summary = self.train([word.replace("=4", "=2") for word in shown["command"]])
        self.assertEqual((summary["world_size"], summary["num_nodes"], summary["steps"]), (4, 2, 20))

    def test_the_program_is_process_1_and_ends_with_a_checkpoint_when_it_is_told(self):
        command = json.loads(re.search(r"^CMD (.*)$", DOCKERFILE, re.M).group(1))
        container = self.start_container([*command, "--checkpoint-dir=/runs/checkpoints", "--log-dir=/runs/logs"], {})
        # Its first row comes after the validation that is tried before the training.
        table = self.image / "runs/logs/version_0/metrics.csv"
        self.wait_until(lambda: table.exists() and table.stat().st_size, "it trains", container)
        (first,) = harness.children_of(container.pid)
        os.kill(first, signal.SIGTERM)
        result = self.finish(container, timeout=300)
        self.assertEqual(result.code, 128 + signal.SIGTERM, str(result))
        self.assertTrue(any((self.image / "runs/checkpoints").iterdir()))


if __name__ == "__main__":
    harness.main()
