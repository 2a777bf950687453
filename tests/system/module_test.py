"""Parts of modules that do more than compute equal what PyTorch does in one process with the batches of all ranks."""
import torch
from safetensors.torch import load_file, save_file

import harness
from harness import BUILD, COHORT, SystemTest

PROGRAM = str(BUILD / "tests/module_program")
USER = 2
STEPS = 3
LR = 0.1


class Images(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.bn, self.fc = torch.nn.Conv2d(3, 5, 3), torch.nn.BatchNorm2d(5), torch.nn.Linear(5, 1)

    def forward(self, x):
        return self.fc(torch.relu(self.bn(self.conv(x))).mean((2, 3)))


class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Tanh(), torch.nn.Linear(8, 1))

    def forward(self, x):
        return self.layers(x)


class ModuleTest(SystemTest):
    def setUp(self):
        super().setUp()
        torch.manual_seed(7)

    def batches(self, sizes, shape, dtype):
        """For each step the batches of the ranks, which go to a file as well."""
        steps = [[(torch.randn(size, *shape, dtype=dtype), torch.randn(size, dtype=dtype)) for size in sizes] for _ in range(STEPS)]
        save_file({f"{name}.{step}.{rank}": tensor for step, ranks in enumerate(steps) for rank, pair in enumerate(ranks)
                   for name, tensor in zip("xy", pair)}, self.folder / "data.safetensors")
        return steps

    def program(self, way, *flags):
        return [PROGRAM, f"--way={way}", "--data-from=data.safetensors", *flags]

    def train(self, model, steps):
        """The mean of the ranks' losses, with statistics over the batches of all of them."""
        optimizer = torch.optim.SGD(model.parameters(), LR)
        for ranks in steps:
            optimizer.zero_grad()
            outputs = model(torch.cat([x for x, _ in ranks])).squeeze(1).split([len(x) for x, _ in ranks])
            losses = [torch.nn.functional.mse_loss(output, y) for output, (_, y) in zip(outputs, ranks)]
            (sum(losses) / len(losses)).backward()
            optimizer.step()

    def check_equal(self, weights, model, prefix="", tolerance=1e-10):
        expected = model.state_dict()
        self.assertEqual(sorted(weights), sorted(prefix + name for name in expected))
        for name, tensor in expected.items():
            torch.testing.assert_close(weights[prefix + name].to(tensor.dtype), tensor, rtol=tolerance, atol=tolerance, msg=lambda text: f"{name}: {text}")

    def check_sync_batch_norm(self, sizes, *flags):
        steps = self.batches(sizes, (3, 4, 5), torch.float64)
        model = Images().double()
        save_file(model.state_dict(), self.folder / "init.safetensors")
        self.succeed(self.program("images", "--init-from=init.safetensors", "--sync-batchnorm", *flags))
        self.train(model, steps)
        self.check_equal(load_file(self.folder / "final.safetensors"), model)

    def check_script(self, sizes, *flags):
        steps = self.batches(sizes, (4,), torch.float32)
        model = Small()
        torch.jit.script(model).save(self.folder / "model.pt")
        self.succeed(self.program("script", "--script=model.pt", *flags))
        self.train(model, steps)
        self.check_equal(load_file(self.folder / "final.safetensors"), model, "body.", 1e-5)
        trained = torch.jit.load(self.folder / "model.pt.trained")
        x = steps[0][0][0]
        torch.testing.assert_close(trained.eval()(x), model.eval()(x), rtol=1e-5, atol=1e-5)

    def spare(self, *flags):
        return self.succeed(self.program("half", *flags)).stdout

    def warnings_of_unused(self, *flags):
        result = self.succeed(self.program("half", "--max-epochs=2", *flags))
        sentence = "no loss of the first epoch depended on 'spare', which the optimizer has: use them in the step, freeze them"
        self.assertEqual(result.stderr.count("no loss of the first epoch"), result.stderr.count(sentence), str(result))
        return result.stderr.count(sentence)

    def check_unused(self, *flags):
        self.batches((2, 2), (1,), torch.float32)
        self.assertIn(f"spare {0.75 ** STEPS:.6f}", self.spare("--unused=zero", *flags), "weight decay reaches it")
        self.fail_with(USER, self.program("half", "--unused=error", *flags),
                       "--unused=error: no loss of step 1 depends on 'spare'; use them in the loss")


class SyncBatchNorm(ModuleTest):
    def test_statistics_are_over_all_ranks_also_of_uneven_batches(self):
        self.check_sync_batch_norm((4, 7), "--strategy=ddp", "--devices=2")


class Unused(ModuleTest):
    def test_parameters_without_a_gradient_are_treated_as_asked(self):
        self.check_unused("--strategy=ddp", "--devices=2")


    def test_one_that_no_loss_of_the_first_epoch_uses_is_named_once(self):
        self.batches((2, 2), (1,), torch.float32)
        self.assertEqual(self.warnings_of_unused("--strategy=ddp", "--devices=2"), 1)
        self.assertEqual(self.warnings_of_unused(), 1)
        for asked_for in ("--spare=frozen", "--spare=left-out", "--spare=of-rank-1", "--spare=masked", "--unused=zero"):
            with self.subTest(asked_for=asked_for):
                self.assertEqual(self.warnings_of_unused("--strategy=ddp", "--devices=2", asked_for), 0)
        self.assertEqual(self.warnings_of_unused("--strategy=bagua:decentralized", "--devices=2", "--spare=of-rank-1"), 0)


class State(ModuleTest):
    def test_state_of_members_comes_back_from_forked_ranks(self):
        self.batches((2, 2), (1,), torch.float32)
        output = self.spare("--strategy=ddp_spawn", "--devices=2")
        self.assertIn(f"batches {STEPS}.0", output)
        self.assertIn("spare 1.0", output, "no gradient, no weight decay")


class InFull(ModuleTest):
    def test_parameters_without_a_gradient_are_treated_as_asked_on_one_device(self):
        self.check_unused()

    def test_statistics_over_more_ranks_and_over_gloo(self):
        self.check_sync_batch_norm((3, 3), "--strategy=ddp", "--devices=2", "--collective=gloo")
        self.check_sync_batch_norm((5, 2, 4), "--strategy=ddp_spawn", "--devices=3")
        self.check_sync_batch_norm((6,))

    def test_replicas_have_statistics_of_their_own(self):
        self.batches((4,), (3, 4, 5), torch.float64)
        save_file(Images().double().state_dict(), self.folder / "init.safetensors")
        self.fail_with(USER, self.program("images", "--init-from=init.safetensors", "--sync-batchnorm", "--strategy=dp", "--devices=2"),
                       "--sync-batchnorm: the replicas of strategy 'dp' have statistics of their own pieces; choose --strategy=ddp")

    def test_a_torchscript_model_trains_and_is_written_again(self):
        self.check_script((6,))

    def test_ranks_that_disagree_about_the_flag_are_refused(self):
        self.batches((2, 2), (1,), torch.float32)
        command = [COHORT, "run", "-n", "2", "--", "sh", "-c", 'COHORT_UNUSED=$([ $RANK = 0 ] && echo zero || echo track) exec "$@"',
                   "sh", *self.program("half", "--strategy=ddp")]
        self.fail_with(USER, command, "unused = ")


if __name__ == "__main__":
    harness.main()
