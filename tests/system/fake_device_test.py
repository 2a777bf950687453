"""Training on the fake device as a user starts it: each strategy ends with the weights that it has on the CPU, bit for bit.

The devices are lazy, so what is not waited for has not happened, and accesses that nothing orders fail the run; the eager mode
runs the same orders of calls at once.
"""
import os
import shutil
import subprocess
import time
import unittest

import numpy
from safetensors.numpy import save_file

import harness
from harness import BUILD, FAKE_DEVICE, MNIST, MPIRUN, NUMERICS, PLUGINS, SystemTest, launcher_of

CPU = ["--accelerator=cpu"]
NCCL = {"LD_PRELOAD": str(BUILD / "tests/support/nccl_stand_in/lib/libnccl.so.2")}
STEPS = 5
SHAPES = {"mlp_small": (784,), "mlp_25m": (784,), "resnet18_cifar": (3, 32, 32), "gpt_mini": (64,)}
BATCH = 4


class Job:
    """A training: its flags, and the number of processes that read data, which `cohort run` starts without another launcher."""

    def __init__(self, strategy, processes, *flags, model="mlp_small", optimizer="sgd_momentum", nodes=1, launcher=None):
        self.strategy, self.processes, self.model = strategy, processes, model
        self.launcher = launcher_of(processes, nodes) if launcher is None else launcher
        self.flags = [f"--strategy={strategy}", f"--optimizer={optimizer}", "--lr=0.01", f"--model={model}", "--threads=1",
                      "--attention=math", *flags]

    def __str__(self):
        return " ".join(self.flags)


class FakeDevice(SystemTest):
    def data(self, job):
        file = self.folder / f"{job.model}-{job.processes}.safetensors"
        if not file.exists():
            generator = numpy.random.default_rng(5)
            shape = (STEPS, job.processes, BATCH, *SHAPES[job.model])
            x, y = generator.standard_normal(shape, numpy.float32), generator.integers(0, 10, shape[:3])
            if job.model == "gpt_mini":
                x = generator.integers(0, 65, shape)
                y = numpy.roll(x, -1, -1)
            save_file({"x": x, "y": y}, file)
        return file

    def weights(self, job, accelerator, environment=None):
        """Returns the digests of all ranks after the training."""
        self.succeed([*job.launcher, NUMERICS, f"--data-from={self.data(job)}", "--summary-json=summary.json", *job.flags,
                      *accelerator], environment)
        return self.summary()["weights_sha256"]

    def compare(self, *jobs, eager_as_well=True):
        for job in jobs:
            with self.subTest(job=str(job)):
                wanted = self.weights(job, CPU)
                self.assertEqual(self.weights(job, FAKE_DEVICE), wanted)
                if eager_as_well:
                    self.assertEqual(self.weights(job, FAKE_DEVICE, {"FAKE_DEVICE_EAGER": "1"}), wanted, "eager")

    def compare_on_nccl(self, *jobs, environment=None):
        for job in jobs:
            with self.subTest(job=str(job)):
                found = self.weights(job, [*FAKE_DEVICE, "--collective=nccl"], {**NCCL, **(environment or {})})
                self.assertEqual(found, self.weights(job, CPU))

    def mnist(self, *flags, environment=None):
        self.succeed([MNIST, *FAKE_DEVICE, "--threads=1", "--batch-size=64", "--limit-test-batches=2", "--limit-val-batches=2",
                      "--summary-json=summary.json", *flags], environment)
        return self.summary()

    def waits(self, steps, log_every, *flags, environment=None):
        """Returns how often the processes have waited for a device in a training."""
        report = self.folder / "report"
        report.unlink(missing_ok=True)
        self.mnist(f"--max-steps={steps}", f"--log-every-n-steps={log_every}", "--epochs=1", *flags,
                   environment={"FAKE_DEVICE_REPORT": str(report), **(environment or {})})
        return sum(int(line.split()[0].removeprefix("waits=")) for line in report.read_text().splitlines())

    def wait_only_where_values_are_logged(self, *flags, environment=None):
        few = self.waits(8, 4, *flags, environment=environment)
        self.assertEqual(self.waits(20, 10, *flags, environment=environment), few)
        self.assertGreater(self.waits(8, 1, *flags, environment=environment), few)  # the counter sees a wait


class Strategies(FakeDevice):
    def test_strategies_end_with_the_bits_of_the_cpu(self):
        self.compare(Job("ddp", 2, "--devices=2", launcher=[]))
        self.compare(Job("sharded", 2, optimizer="adamw"), Job("bagua:bytegrad", 2), Job("dp", 1, "--devices=2"), eager_as_well=False)


class Nccl(FakeDevice):
    """With the stand-in for NCCL, which moves memory of the fake device between processes."""

    def test_ddp_ends_with_the_bits_of_the_cpu(self):
        self.compare_on_nccl(Job("ddp", 2))

    def test_it_is_chosen_and_shows_its_version_and_variables(self):
        job = Job("ddp", 2, "--devices=2")
        log = self.succeed([NUMERICS, f"--data-from={self.data(job)}", *job.flags, *FAKE_DEVICE],
                           {**NCCL, "NCCL_DEBUG": "WARN"}).stderr
        self.assertIn("Using collective nccl", log)
        self.assertIn("NCCL 2.28.9, with NCCL_DEBUG=WARN", log)
        self.assertIn("collective nccl moves device memory: host memory goes by shm", log)

    def test_where_it_cannot_serve_it_is_refused_or_passed_over_with_the_reason(self):
        flags = [NUMERICS, f"--data-from={self.data(Job('ddp', 2))}", "--strategy=ddp", "--model=mlp_small", "--devices=2"]
        for accelerator, whose in ((CPU, "GPUs"), (FAKE_DEVICE, "NVIDIA's GPUs")):
            reason = f"it moves memory of {whose} only"
            result = self.fail_with(2, [*flags, *accelerator, "--collective=nccl"])
            self.assertIn(f"collective 'nccl' cannot serve this job: {reason}; choose --collective=shm or gloo", result.stderr)
        log = self.succeed([*flags, *FAKE_DEVICE]).stderr
        self.assertIn("nccl (it moves memory of NVIDIA's GPUs only)", log)

    def test_a_rank_that_fails_in_nccl_ends_the_run(self):
        job = Job("ddp", 2, "--devices=2")
        result = self.fail_with(1, [NUMERICS, f"--data-from={self.data(job)}", *job.flags, *FAKE_DEVICE, "--collective=nccl"],
                                environment={**NCCL, "NCCL_STANDIN_FAIL": "1:5"})
        self.assertRegex(result.stderr, "error: rank 1 .*on 'world.*' failed in NCCL 2.28.9: internal error: it was told to fail")

    def test_a_killed_rank_is_missed_long_before_the_deadline(self):
        """Also if NCCL says nothing, and no launcher does."""
        job, ranks = Job("ddp", 2), []
        for rank in range(2):
            task = {"JOB_ID": os.getpid(), "STEP_ID": 0, "STEP_NUM_TASKS": 2, "STEP_NUM_NODES": 1, "NODEID": 0, "PROCID": rank,
                    "LOCALID": rank}
            ranks.append(self.start([NUMERICS, f"--data-from={self.data(job)}", *job.flags, *FAKE_DEVICE, "--collective=nccl",
                                     "--timeout=300s", "--max-epochs=1000000", "--log-dir=logs"],
                                    {**NCCL, "NCCL_STANDIN_SILENT": "1", "NCCL_STANDIN_HANG": "1:20",
                                     **{f"SLURM_{key}": str(value) for key, value in task.items()}}))
        self.wait_until_step(ranks[0], 1)
        time.sleep(1)  # in which rank 1 comes to where it hangs, so that rank 0 waits in NCCL
        ranks[1].kill()
        self.finish(ranks[1])
        result = self.finish(ranks[0], timeout=60)
        self.assertEqual(result.code, 4, str(result))
        self.assertRegex(result.stderr, r"error: .*rank 1 \(pid \d+\) is gone: its process ended before all_reduce on 'world.*' did")


class Training(FakeDevice):
    def test_a_rank_of_sharded_holds_no_state_of_others_and_its_weights_once(self):
        """Of the whole training, also of its end, at which weights leave the buckets."""
        peaks = {}
        for strategy in ("ddp", "sharded"):
            self.weights(Job(strategy, 2, "--collective=shm", model="mlp_25m", optimizer="adam"), FAKE_DEVICE)
            peaks[strategy] = self.summary()["peak_device_mib"]
        weights, largest_share = 5_942_794 * 4 / 2**20, 0.6  # three matrices are most of them, and a rank owns two
        for ddp, sharded in zip(peaks["ddp"], peaks["sharded"]):
            self.assertGreater(ddp, 4 * weights)  # weights, gradients, two states
            self.assertLess(sharded, ddp - 0.99 * 2 * (1 - largest_share) * weights)

    def test_a_resumed_run_ends_as_one_that_was_not_cut(self):
        loop = ["--devices=2", "--collective=shm", "--limit-train-batches=6"]
        whole = self.mnist(*loop, "--epochs=2")
        self.mnist(*loop, "--epochs=2", "--max-steps=9", "--checkpoint-dir=kept")
        resumed = self.mnist(*loop, "--epochs=2", "--resume=kept")
        for key in ("weights_sha256", "metrics"):  # dropout has drawn the same numbers on the device
            self.assertEqual(resumed[key], whole[key])

    def test_a_step_waits_for_the_device_only_where_its_values_are_logged(self):
        self.wait_only_where_values_are_logged("--devices=1")

    def test_a_device_without_memory_ends_with_a_sentence(self):
        result = self.fail_with(2, [MNIST, *FAKE_DEVICE, "--devices=1", "--epochs=1", "--max-steps=3", "--batch-size=1024"],
                                environment={"FAKE_DEVICE_MIB": "16"})
        self.assertRegex(result.stderr, r"error: (\w+, epoch 0, batch 0, rank 0: )?fake:0 has no \d+ bytes: .*; choose a smaller batch")


class Graph(FakeDevice):
    """--graph: a step is captured after some others, and replayed."""
    program = str(BUILD / "tests/graph_program")
    warm_up = 2

    def train(self, *flags, accelerator=(*FAKE_DEVICE, "--devices=1"), environment=None):
        """Returns the summary of a training and its log."""
        log = self.succeed([self.program, *accelerator, "--threads=1", "--summary-json=summary.json", *flags], environment).stderr
        return self.summary(), log

    def compare_graph(self, *flags, **options):
        """A training with replayed steps ends as one without."""
        wanted, _ = self.train(*flags, **options)
        shutil.rmtree(self.folder / "kept", ignore_errors=True)  # its checkpoints
        found, log = self.train(*flags, f"--graph={self.warm_up}", **options)
        self.assertIn(f"Step {self.warm_up + 1} was captured: it is replayed from now on", log)
        for key in ("weights_sha256", "metrics", "steps", "bytes_sent_per_step"):
            self.assertEqual(found[key], wanted[key], key)

    def refuse(self, *flags, accelerator=(*FAKE_DEVICE, "--devices=1"), graph="--graph=2", text, environment=None):
        self.fail_with(2, [self.program, *accelerator, "--threads=1", graph, *flags], text, environment=environment)

    def graph_waits(self, steps, log_every, *flags, environment=None, accelerator=(*FAKE_DEVICE, "--devices=1")):
        """Returns how often the processes have waited for a device in a training."""
        report = self.folder / "report"
        report.unlink(missing_ok=True)
        self.train(f"--max-steps={steps}", f"--log-every-n-steps={log_every}", "--samples=320", "--limit-val-batches=0", *flags,
                   accelerator=accelerator, environment={"FAKE_DEVICE_REPORT": str(report), **(environment or {})})
        return sum(int(line.split()[0].removeprefix("waits=")) for line in report.read_text().splitlines())


class Graphs(Graph):
    def test_replayed_steps_end_with_the_bits_of_those_that_are_called(self):
        for how in ((), ("--how=adam",)):
            self.compare_graph("--log-every-n-steps=4", *how)  # epochs of 8 whole batches and a smaller one, with dropout and validation

    def test_a_replayed_step_waits_for_the_device_only_where_its_values_are_logged(self):
        self.assertEqual(self.graph_waits(36, 18, "--graph=2"), self.graph_waits(8, 4, "--graph=2"))

    def test_what_a_replay_could_not_repeat_is_refused_with_the_way_out(self):
        self.refuse("--how=item", text="--graph cannot capture this step, so change it or leave the flag out: training_step, epoch 0, "
                    "batch 2, rank 0: aten::_local_scalar_dense: operation not permitted when stream is capturing")


class GraphsInFull(Graph):
    def test_each_refusal_is_one_sentence(self):
        two = (*FAKE_DEVICE, "--devices=2")
        out = ", or leave --graph out"
        for flags, text in (
                (["--how=rmsprop"], "--graph: RMSprop counts its steps on the host, where a replay does nothing; choose torch::optim::SGD, Adam "
                 "or AdamW" + out),
                (["--how=qadam"], "--graph: QAdam counts its steps on the host, where a replay does nothing; choose torch::optim::SGD, Adam "
                 "or AdamW" + out),
                (["--how=schedule"], "--graph: a replay repeats the learning rate of the captured step; return the optimizer without a "
                 "schedule" + out),
                (["--how=optimizers"], "--graph: a captured step has one optimizer; return one from configure_optimizers" + out),
                (["--how=hand"], "steps by hand, and only a step of the loop's own is captured; let automatic_optimization() be true" + out),
                (["--accumulate-grad-batches=2"], "--graph: a captured step has one batch; leave --accumulate-grad-batches out" + out),
                (["--autotune"], "--graph: --autotune changes what a step does; leave that out" + out),
                (["--how=hook"], "--graph: callback 'watcher' has an on_before_optimizer_step, which no replay of a captured step calls; "
                 "use on_train_batch_end" + out),
                (["--how=module_hook"], "--graph: the module has an on_after_backward, which no replay of a captured step calls"),
                (["--how=metric"], 'log("mean") was given a metric, whose update no replay of the step calls; log a tensor of the device'),
                (["--detect-anomaly"], "--graph: --detect-anomaly looks at each operator as it runs; leave that out" + out),
                (["--how=number"], 'log("index") was given a number of the host, which each replay of the step would repeat'),
                (["--how=rate"], "--graph: settings of the optimizer, as its learning rate, changed after a step was captured"),
                (["--how=freeze"], "--graph: which weights require a gradient changed after a step was captured"),
                (["--how=move"], "--graph: the memory of weights or buffers changed after a step was captured"),
                (["--how=mode"], "--graph: which parts of the module are in training mode changed after a step was captured")):
            with self.subTest(flags=flags):
                self.refuse(*flags, text=text)
        self.refuse(accelerator=CPU, text="--graph replays work of a device, and the CPU runs its work at once")
        for strategy in ("dp", "bagua:qadam", "bagua:bytegrad"):
            self.refuse(f"--strategy={strategy}", "--how=adam", accelerator=two, text=f"strategy '{strategy}' cannot replay captured "
                        "steps: it does not say that its steps can be captured; choose another --strategy" + out)

    def test_eager_devices_and_gradients_that_are_clipped(self):
        self.compare_graph("--gradient-clip-val=0.1", environment={"FAKE_DEVICE_EAGER": "1"})
        self.compare_graph("--gradient-clip-val=0.1", "--ema=0.9", "--early-stopping=val_loss")

    def test_models_end_with_the_bits_of_steps_that_are_called(self):
        for model in SHAPES:
            with self.subTest(model=model):
                job = Job("single", 1, "--devices=1", model=model)
                self.assertEqual(self.weights(job, [*FAKE_DEVICE, "--graph=2"]), self.weights(job, CPU))

    def test_ranks_replay_on_nccl(self):
        two = {"accelerator": (*FAKE_DEVICE, "--devices=2", "--strategy=ddp", "--collective=nccl"), "environment": NCCL}
        self.compare_graph("--samples=140", "--log-every-n-steps=4", **two)
        self.compare_graph("--samples=140", "--bucket-size=1KiB", "--checkpoint-dir=kept", "--checkpoint-every-n-steps=4", **two)
        halves = {**two, "accelerator": (*FAKE_DEVICE, "--devices=2", "--strategy=ddp,compression=bf16", "--collective=nccl")}
        self.compare_graph("--samples=140", **halves)
        few, more = (self.graph_waits(steps, every, "--graph=2", **two) for steps, every in ((8, 4), (18, 9)))
        self.assertEqual(more, few)

    def test_a_resumed_run_ends_as_one_that_was_not_cut(self):
        whole, _ = self.train("--graph=2")
        self.train("--graph=2", "--max-steps=13", "--checkpoint-dir=kept", "--checkpoint-every-n-steps=5")
        resumed, _ = self.train("--graph=2", "--resume=kept")
        for key in ("weights_sha256", "metrics"):
            self.assertEqual(resumed[key], whole[key])


class InFull(FakeDevice):
    def test_every_strategy_ends_with_the_bits_of_the_cpu(self):
        # Quick has dp, bytegrad and sharded on one node.
        self.compare(Job("ddp", 2, model="resnet18_cifar"),
                     Job("ddp", 2, "--gradient-clip-val=0.1", "--accumulate-grad-batches=2", model="gpt_mini"))
        # fake_device_test tries the eager mode with every strategy.
        self.compare(Job("single", 1, "--devices=1"), Job("ddp2", 2, "--devices=2", nodes=2), Job("horovod", 2), Job("horovod,compression=fp16", 2),
                     Job("sharded", 4, nodes=2), *[Job(f"bagua:{algorithm}", 2) for algorithm in
                                                   ("gradient_allreduce", "decentralized", "low_precision_decentralized")],
                     Job("bagua:qadam", 2, optimizer="adam"), eager_as_well=False)

    def test_every_collective_carries_the_tensors_of_devices(self):
        self.compare(*[Job("ddp", 4, f"--collective={collective}", nodes=2)
                       for collective in ("gloo", "hier", "sim,over=gloo")], eager_as_well=False)

    @unittest.skipUnless((PLUGINS / "cohort_mpi.so").exists(), "built without MPI")
    def test_mpi_carries_the_tensors_of_devices(self):
        self.compare(Job("horovod", 2, "--collective=mpi", launcher=[*MPIRUN, "-np", "2"]), eager_as_well=False)

    def test_a_rank_stays_on_the_cores_near_its_device(self):
        if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode:
            self.skipTest("needs root, to mount a folder of its own over /sys")
        near = "/sys/bus/pci/devices/0000:3b:00.0"
        mount = f"mount -t tmpfs none /sys/bus/pci/devices && mkdir {near} && echo 1 > {near}/local_cpulist && exec \"$@\""
        log = self.succeed(["unshare", "--mount", "sh", "-c", mount, "sh", MNIST, *FAKE_DEVICE, "--devices=1", "--epochs=1",
                            "--max-steps=2", "--log-level=debug"], {"FAKE_DEVICE_PCI": "0000:3B:00.0"}).stderr
        self.assertIn("threads stay on 1 of the cores near device 0000:3B:00.0: 1", log)


class NcclInFull(FakeDevice):
    def test_a_step_waits_for_the_device_only_where_its_values_are_logged(self):
        self.wait_only_where_values_are_logged("--devices=2", "--strategy=ddp", "--collective=nccl", environment=NCCL)

    def test_every_strategy_ends_with_the_bits_of_the_cpu(self):
        self.compare_on_nccl(Job("ddp", 2, "--accumulate-grad-batches=2", model="gpt_mini"), Job("sharded", 2, optimizer="adamw"),
                             Job("bagua:gradient_allreduce", 2), Job("bagua:decentralized", 2), Job("bagua:bytegrad", 2),
                             Job("horovod", 2), Job("ddp,compression=bf16", 2))

    def test_lanes_call_nccl_in_one_order_on_all_ranks(self):
        job = Job("bagua:bytegrad", 2, "--bucket-size=256KiB", model="gpt_mini")
        for attempt in range(3):  # a wrong order comes by chance
            calls = self.folder / f"calls-{attempt}"
            calls.mkdir()
            self.weights(job, [*FAKE_DEVICE, "--collective=nccl"], {**NCCL, "NCCL_STANDIN_CALLS": str(calls)})
            one, other = [file.read_text() for file in calls.iterdir() if file.read_text()]
            self.assertGreater(len(set(one.splitlines())), 3, "one lane alone has called")
            self.assertEqual(one, other)

    def test_nodes_on_one_machine_need_a_gpu_for_each_rank_or_permission(self):
        job = Job("ddp2", 2, "--devices=2", "--num-nodes=2", launcher=[])
        result = self.fail_with(2, [NUMERICS, f"--data-from={self.data(job)}", *job.flags, *FAKE_DEVICE, "--collective=nccl"],
                                environment=NCCL)
        self.assertIn("ranks 0 and 1 have the same GPU, which NCCL 2.28.9 refuses; give each rank a GPU, ", result.stderr)
        self.compare_on_nccl(job, environment={"NCCL_STANDIN_VERSION": "23003", "NCCL_MULTI_RANK_GPU_ENABLE": "1"})


if __name__ == "__main__":
    harness.main()
