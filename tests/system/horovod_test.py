"""horovod under a real mpirun: average, sum and adasum equal loops written from the formulas; ranks are the driver's."""
import copy
import json
import shutil
import unittest

import torch
from safetensors.torch import load_file, save_file

import harness
from harness import BUILD, COHORT, MNIST, MPIRUN, NUMERICS, PLUGINS, SystemTest
from numerics_test import Linear32, MlpSmall, Odd, make_data

USER, STEPS = 2, 20
PROGRAM = str(BUILD / "tests/horovod_program")
MODELS = {"linear32": (Linear32, 32), "odd": (Odd, 32), "mlp_small": (MlpSmall, 784)}
HAS_MPI = (PLUGINS / "cohort_mpi.so").exists()
ONE_THREAD = {"OMP_NUM_THREADS": "1"}


def gradients_of(net, x, y, step):
    parameters = [p for p in net.parameters() if p.requires_grad]
    out = net(x, step)
    loss = torch.nn.functional.cross_entropy(out, y) if isinstance(net, MlpSmall) else (out * out).mean()
    return torch.autograd.grad(loss, parameters, allow_unused=True)


def optimizer_of(kind, net, lr):
    parameters = [p for p in net.parameters() if p.requires_grad]
    if kind == "sgd":
        return torch.optim.SGD(parameters, lr=lr)
    return torch.optim.SGD(parameters, lr=lr, momentum=0.9) if kind == "sgd_momentum" else torch.optim.AdamW(parameters, lr=lr)


def weights_of(net):
    return {name: tensor.detach().clone() for name, tensor in net.named_parameters()}


def averaged(net, x, y, optimizer, lr, scale, divide=True):
    """One process that sees all ranks' gradients; the rate times `scale`."""
    net = copy.deepcopy(net).double()
    stepper = optimizer_of(optimizer, net, lr * scale)
    for step in range(x.shape[0]):
        by_rank = [gradients_of(net, x[step][rank].double(), y[step][rank], step) for rank in range(x.shape[1])]
        for i, parameter in enumerate(stepper.param_groups[0]["params"]):
            there = [gradients[i] for gradients in by_rank if gradients[i] is not None]
            parameter.grad = sum(there) / (x.shape[1] if divide else 1) if there else None
        stepper.step()
    return weights_of(net)


def adasum_of_two(a, b):
    aa, bb, ab = (a * a).sum(), (b * b).sum(), (a * b).sum()
    return a + b if aa == 0 or bb == 0 else a * (1 - ab / (2 * aa)) + b * (1 - ab / (2 * bb))


def adasum(changes):
    """Pairs, nearest ranks first."""
    while len(changes) > 1:
        changes = [adasum_of_two(*changes[i:i + 2]) for i in range(0, len(changes), 2)]
    return changes[0]


def adasummed(net, x, y, optimizer, lr):
    """Each rank makes a step of its own from the same weights; their changes are combined, tensor by tensor."""
    net = copy.deepcopy(net).double()
    ranks = [copy.deepcopy(net) for _ in range(x.shape[1])]
    steppers = [optimizer_of(optimizer, rank, lr) for rank in ranks]
    for step in range(x.shape[0]):
        for rank, (own, stepper) in enumerate(zip(ranks, steppers)):
            own.load_state_dict(net.state_dict())
            for parameter, gradient in zip(stepper.param_groups[0]["params"],
                                           gradients_of(own, x[step][rank].double(), y[step][rank], step)):
                parameter.grad = gradient
            stepper.step()
        with torch.no_grad():
            for parameter, *changed in zip(net.parameters(), *(rank.parameters() for rank in ranks)):
                parameter += adasum([own - parameter for own in changed])
    return weights_of(net)


@unittest.skipUnless(shutil.which("mpirun"), "there is no mpirun")
class HorovodTest(SystemTest):
    def prepare(self, model, ranks, seed=1):
        torch.manual_seed(seed)
        kind, features = MODELS[model]
        self.net = kind()
        save_file(weights_of(self.net), self.folder / "init.safetensors")
        self.data = self.folder / "data.safetensors"
        self.x, self.y = make_data(self.data, STEPS, ranks, features=features)

    def numerics(self, model, *more):
        return [NUMERICS, f"--model={model}", f"--data-from={self.data}", f"--init-from={self.folder / 'init.safetensors'}",
                f"--save-final={self.folder / 'final.safetensors'}", "--summary-json=summary.json", *more]

    def train(self, ranks, model, spec, *more, start=None):
        result = self.succeed([*(start or [*MPIRUN, "-np", str(ranks)]), *self.numerics(model, f"--strategy={spec}", *more)], ONE_THREAD)
        digests = self.summary()["weights_sha256"]
        self.assertEqual((len(digests), len(set(digests))), (ranks, 1), "ranks ended with different weights")
        self.log = result.stderr
        return load_file(self.folder / "final.safetensors")

    def need(self, wire):
        if wire == "mpi" and not HAS_MPI:
            self.skipTest("built without MPI")

    def compare(self, got, wanted, bound=1e-9):
        for name, tensor in wanted.items():
            difference = (got[name].double() - tensor).norm() / max(tensor.norm(), 1e-12)
            self.assertLessEqual(difference.item(), bound, name)

    def average_is_one_process(self, ranks, model, optimizer, wire):
        with self.subTest(ranks=ranks, model=model, optimizer=optimizer, wire=wire):
            self.need(wire)
            self.prepare(model, ranks)
            got = self.train(ranks, model, "horovod", f"--optimizer={optimizer}", "--lr=0.01", "--dtype=float64", f"--collective={wire}")
            self.compare(got, averaged(self.net, self.x, self.y, optimizer, 0.01, ranks))
            self.assertIn(f"Learning rate 0.01 x {ranks} = {0.01 * ranks:g}", self.log)
            self.assertEqual(self.log.count("Learning rate"), 1)

    def scales_and_divides(self, spec, scale, divide):
        with self.subTest(spec=spec):
            self.prepare("odd", 2)
            got = self.train(2, "odd", spec, "--optimizer=sgd_momentum", "--lr=0.01", "--dtype=float64", "--collective=shm")
            self.compare(got, averaged(self.net, self.x, self.y, "sgd_momentum", 0.01, scale, divide))
            self.assertEqual("Learning rate" in self.log, scale > 1)

    def adasum_is_the_formula(self, ranks, model, optimizer, wire):
        with self.subTest(ranks=ranks, model=model, optimizer=optimizer, wire=wire):
            self.need(wire)
            self.prepare(model, ranks)
            got = self.train(ranks, model, "horovod,op=adasum", f"--optimizer={optimizer}", "--lr=0.01", "--dtype=float64",
                             f"--collective={wire}")
            self.compare(got, adasummed(self.net, self.x, self.y, optimizer, 0.01))
            self.assertNotIn("Learning rate", self.log)

    def checks_pass(self, ranks, spec, averages):
        with self.subTest(ranks=ranks, spec=spec):
            result = self.succeed([*MPIRUN, "-np", str(ranks), PROGRAM, f"--strategy={spec}", f"--averages={averages}"], ONE_THREAD)
            self.assertIn("all checks passed", result.stdout)


class Horovod(HorovodTest):
    def test_average_is_one_process_with_all_gradients_and_a_rate_times_ranks(self):
        self.average_is_one_process(2, "linear32", "adamw", "mpi")

    def test_without_the_factor(self):
        self.scales_and_divides("horovod,scale_lr=false", 1, True)

    def test_adasum_is_the_formula_applied_to_changes_of_weights(self):
        self.adasum_is_the_formula(2, "odd", "sgd", "shm")

    def test_half_precision_changes_a_step_by_no_more_than_its_rounding(self):
        ranks, lr = 2, 0.5
        self.prepare("mlp_small", ranks)
        got = self.train(ranks, "mlp_small", "horovod,compression=fp16", "--optimizer=sgd", f"--lr={lr}", "--steps=1",
                         "--collective=shm")
        net = copy.deepcopy(self.net).double()
        by_rank = [gradients_of(net, self.x[0][rank].double(), self.y[0][rank], 0) for rank in range(ranks)]
        changed = False
        for (name, weight), *gradients in zip(net.named_parameters(), *by_rank):
            mean, magnitude = sum(gradients) / ranks, sum(gradient.abs() for gradient in gradients) / ranks
            # Each gradient is rounded to fp16, so is the mean: 2^-11 of it, or half the smallest number.
            rounding = 2.0 ** -11 * (magnitude + mean.abs()) * (1 + 2.0 ** -10) + 2.0 ** -24
            allowed = lr * ranks * rounding + 2.0 ** -22 * (weight.abs() + lr * ranks * magnitude)
            error = (got[name].double() - (weight - lr * ranks * mean)).abs()
            self.assertTrue(bool((error <= allowed).all()), f"{name}: {(error / allowed).max()} of what is allowed")
            changed = changed or bool((error > 2.0 ** -20 * weight.abs()).any())
        self.assertTrue(changed, "nothing was rounded")
        self.assertLess(self.summary()["bytes_sent_per_step"], 4 * sum(p.numel() for p in net.parameters()) * 0.51)

    def test_cohort_run_and_horovodruns_variables_are_drivers_too(self):
        self.prepare("linear32", 2)
        common = ("--optimizer=sgd", "--lr=0.01", "--dtype=float64")
        wanted = averaged(self.net, self.x, self.y, "sgd", 0.01, 2)
        self.compare(self.train(2, "linear32", "horovod", *common, start=[COHORT, "run", "-np", "2"]), wanted)
        self.assertEqual(self.summary()["collective"], "shm")
        (self.folder / "final.safetensors").unlink()
        ranks, port = [], self.reserve_port()
        for rank in range(2):
            variables = {"RANK": rank, "SIZE": 2, "LOCAL_RANK": rank, "LOCAL_SIZE": 2, "CROSS_RANK": 0, "CROSS_SIZE": 1,
                         "HOSTNAME": "localhost", "GLOO_RENDEZVOUS_ADDR": "127.0.0.1",
                         "GLOO_RENDEZVOUS_PORT": port - 1}  # where the driver itself listens: ranks take the next one
            environment = {f"HOROVOD_{key}": str(value) for key, value in variables.items()}
            ranks.append(self.start(self.numerics("linear32", "--strategy=horovod", *common), {**ONE_THREAD, **environment}))
        for rank in ranks:
            result = self.finish(rank)
            self.assertEqual(result.code, 0, str(result))
        self.compare(load_file(self.folder / "final.safetensors"), wanted)

    def test_state_schedules_and_data_of_different_lengths(self):
        self.checks_pass(2, "horovod", "true")

    def test_without_a_driver_it_says_how_to_start(self):
        self.fail_with(USER, [MNIST, "--strategy=horovod"], "mpirun -np 2 PROGRAM --strategy=horovod", "cohort run -np 2")


class InFull(HorovodTest):
    def test_average_on_other_wires_and_more_ranks(self):
        for ranks, model, optimizer, wire in ((2, "odd", "sgd", "shm"), (4, "mlp_small", "sgd_momentum", "gloo"),
                                              (4, "odd", "sgd_momentum", "mpi")):
            self.average_is_one_process(ranks, model, optimizer, wire)

    def test_as_a_sum_and_with_small_messages(self):
        self.scales_and_divides("horovod,op=sum", 1, False)
        self.scales_and_divides("horovod,fusion_threshold=1KiB", 2, True)

    def test_adasum_of_four_ranks_combines_pairs_on_every_wire(self):
        self.adasum_is_the_formula(4, "mlp_small", "sgd_momentum", "gloo")
        self.adasum_is_the_formula(4, "odd", "adamw", "mpi")

    def test_one_rank_of_a_driver_trains_as_one_process(self):
        for op in ("average", "sum", "adasum"):
            self.prepare("odd", 1)
            got = self.train(1, "odd", f"horovod,op={op}", "--optimizer=sgd", "--lr=0.01", "--dtype=float64")
            self.compare(got, averaged(self.net, self.x, self.y, "sgd", 0.01, 1))

    def test_deterministic_it_has_the_bits_of_ddp_on_every_wire(self):
        for ranks in (2, 4):
            self.prepare("odd", ranks)
            common = ("--optimizer=sgd_momentum", "--lr=0.01", "--deterministic")
            self.train(ranks, "odd", "ddp", *common, "--collective=shm")
            wanted = self.summary()["weights_sha256"][0]
            for wire in ("shm", "gloo", "mpi"):
                with self.subTest(ranks=ranks, wire=wire):
                    self.need(wire)
                    self.train(ranks, "odd", "horovod,scale_lr=false", *common, f"--collective={wire}")
                    self.assertEqual(self.summary()["weights_sha256"][0], wanted)

    def test_the_example_learns_with_the_scaled_rate_in_the_log(self):
        for ranks in (2, 4):
            result = self.succeed([*MPIRUN, "-np", str(ranks), MNIST, "--strategy=horovod", "--epochs=4", "--summary-json=summary.json"],
                                  ONE_THREAD, timeout=600)
            self.assertGreaterEqual(self.summary()["metrics"]["test_acc"], 0.97)
            self.assertIn(f"Learning rate 0.001 x {ranks} = {0.001 * ranks:g}", result.stderr)
            if HAS_MPI:
                self.assertEqual(self.summary()["collective"], "mpi")

    @unittest.skipUnless(HAS_MPI, "built without MPI")
    def test_where_mpi_cannot_be_loaded_another_wire_serves(self):
        broken = self.folder / "cohort_mpi.so"
        broken.write_bytes((PLUGINS / "cohort_mpi.so").read_bytes().replace(b"libmpi.so.40", b"libmpi.so.99"))
        self.prepare("linear32", 2)
        self.train(2, "linear32", "horovod", "--optimizer=sgd", f"--plugin={broken}")
        self.assertEqual(self.summary()["collective"], "shm")
        self.assertIn("libmpi.so.99", self.log)

    def test_state_schedules_and_data_on_other_numbers_of_ranks_and_with_adasum(self):
        self.checks_pass(1, "horovod", "true")
        self.checks_pass(3, "horovod", "true")
        self.checks_pass(2, "horovod,op=adasum", "false")

    def test_a_run_goes_on_with_another_number_of_ranks_and_their_rate(self):
        common = ["--strategy=horovod", "--limit-train-batches=5", "--limit-val-batches=1", "--limit-test-batches=1",
                  "--collective=shm", f"--checkpoint-dir={self.folder / 'ckpt'}", "--resume=auto"]
        for epochs, ranks in ((1, 2), (2, 4)):
            result = self.succeed([*MPIRUN, "-np", str(ranks), MNIST, f"--epochs={epochs}", *common], ONE_THREAD)
            self.assertIn(f"Learning rate 0.001 x {ranks} = {0.001 * ranks:g}", result.stderr)
            newest = sorted((self.folder / "ckpt").glob("step-*"))[-1]
            manifest = (newest / "manifest.json").read_text()
            self.assertIn('"lr":0.001', manifest.replace(" ", ""), "the saved rate is without the factor")
            json.loads(manifest)

    def test_what_cannot_be_is_refused_in_a_sentence(self):
        mpirun = [*MPIRUN, "-np", "2"]
        self.fail_with(USER, [MNIST, "--strategy=horovod", "--devices=2"], "a driver starts its ranks", "mpirun -np N")
        self.fail_with(USER, [*mpirun, MNIST, "--strategy=horovod", "--devices=2"], "--devices contradicts")
        self.fail_with(USER, [*mpirun, MNIST, "--strategy=horovod", "--num-nodes=2"], "--num-nodes=2 contradicts")
        self.fail_with(USER, [*mpirun, MNIST, "--strategy=horovod,backward_passes_per_step=2"], "--accumulate-grad-batches")
        self.fail_with(USER, [*MPIRUN, "-np", "3", MNIST, "--strategy=horovod,op=adasum"], "power of two")
        self.fail_with(USER, [*mpirun, MNIST, "--strategy=horovod,op=adasum,compression=fp16"], "leave one of the two out")
        self.fail_with(USER, [*mpirun, MNIST, "--strategy=horovod,fusion=1"], "fusion_threshold")
        job = [MNIST, "--strategy=horovod", "--collective=shm"]
        self.fail_with(USER, [*mpirun[:-2], "-np", "1", *job, ":", "-np", "1", *job, "--accumulate-grad-batches=3"],
                       "accumulate-grad-batches = 3")

    def test_one_device_for_each_process_is_what_it_has_anyway(self):
        self.prepare("linear32", 2)
        self.train(2, "linear32", "horovod", "--optimizer=sgd", "--devices=1", "--num-nodes=1")


if __name__ == "__main__":
    harness.main()
