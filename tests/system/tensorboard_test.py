"""TensorBoard's own reader finds in event files what was logged, also after a kill, a torn record and a resume."""
import math
import types

import numpy
from tensorboard.backend.event_processing.data_provider import MultiplexerDataProvider
from tensorboard.backend.event_processing import plugin_event_accumulator
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
from tensorboard.context import RequestContext
from tensorboard.plugins.hparams import api_pb2, backend_context, get_experiment, list_session_groups

import harness
from harness import BUILD, SystemTest

PROGRAM = str(BUILD / "tests/tensorboard_program")
EVERYTHING = dict.fromkeys(("scalars", "tensors", "histograms"), 0)  # no sampling


def read(folder):
    """Returns what programs in Python read. This reader forgets no text when a run goes on; it is not in use for pages."""
    return EventAccumulator(str(folder), size_guidance=EVERYTHING).Reload()


def read_as_shown(folder):
    """Returns what TensorBoard's pages show: scalars and histograms are tensors there."""
    return plugin_event_accumulator.EventAccumulator(str(folder), {"tensors": 0}).Reload()


def scalars(events, name):
    return [(event.step, event.value) for event in events.Scalars(name)]


def texts(events, name):
    return [(event.step, event.tensor_proto.string_val[0].decode()) for event in events.Tensors(name)]


class TensorBoardTest(SystemTest):
    def run_folder(self, name="version_0"):
        folder = self.folder / "runs" / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def train(self, folder, first, last, *options):
        self.succeed([PROGRAM, folder, "train", first, last, *options])

    def has_steps(self, folder, last):
        """Passes if everything that the program logs for the steps 1..last is there once, and nothing else."""
        events, steps = read(folder), range(1, last + 1)
        self.assertEqual(sorted(events.Tags()["scalars"]), ["epoch", "loss", "time/forward"])
        self.assertEqual(scalars(events, "loss"), [(step, float(numpy.float32(1 / step))) for step in steps])
        self.assertEqual(scalars(events, "time/forward"), [(step, step / 4) for step in steps])
        self.assertEqual(scalars(events, "epoch"), [(step, step // 4) for step in steps])
        histograms = events.Histograms("weight")
        self.assertEqual([(event.step, event.histogram_value.num) for event in histograms],
                         [(step, 10 * step) for step in steps])
        shown = read_as_shown(folder)
        self.assertEqual(texts(shown, "note"), [(step, f"at **step** {step}") for step in steps])
        for name in ("epoch", "loss", "time/forward", "weight"):
            self.assertEqual([event.step for event in shown.Tensors(name)], list(steps), name)


class Reading(TensorBoardTest):
    def test_everything_is_there_with_its_step(self):
        folder = self.run_folder()
        self.train(folder, 1, 9)
        self.has_steps(folder, 9)
        metadata = read(folder).SummaryMetadata("note")
        self.assertEqual(metadata.plugin_data.plugin_name, "text")

    def test_histograms_have_the_counts_of_numpy(self):
        folder = self.run_folder()
        self.train(folder, 3, 3)
        histogram, = (event.histogram_value for event in read(folder).Histograms("weight"))
        values = numpy.arange(30) - 5.0
        edges = [-math.inf, *histogram.bucket_limit]
        self.assertEqual(list(histogram.bucket), numpy.histogram(values, edges)[0].tolist())
        self.assertEqual((histogram.min, histogram.max, histogram.num, histogram.sum, histogram.sum_squares),
                         (-5, 24, 30, values.sum(), (values ** 2).sum()))

    def test_odd_values_names_and_texts_can_be_read(self):
        folder = self.run_folder()
        self.succeed([PROGRAM, folder, "odd"])
        events = read(folder)
        self.assertTrue(math.isnan(scalars(events, "nan")[0][1]))
        self.assertEqual(scalars(events, "inf"), [(1, math.inf)])
        self.assertEqual(scalars(events, "a\ufffd z"), [(1, float(numpy.float32(1e-30)))])
        self.assertEqual(scalars(events, "late"), [(2**40, -2)])
        self.assertEqual(scalars(events, "epoch"), [(1, 0), (2**40, 2**38)])
        self.assertEqual(texts(events, "empty"), [(1, "")])
        self.assertEqual(texts(events, "text"), [(1, 'Größe\n\ufffd"\\')])
        self.assertEqual({name: events.Histograms(name)[0].histogram_value.num for name in events.Tags()["histograms"]},
                         {"no_elements": 0, "one_value": 7, "not_finite": 1})


class Resuming(TensorBoardTest):
    def test_a_killed_run_that_goes_on_has_each_step_once(self):
        for kept in (0, 1, 5, 7):
            with self.subTest(kept=kept):
                folder = self.run_folder(f"version_{kept}")
                self.train(folder, 1, 7, "--killed")
                self.has_steps(folder, 7)
                self.train(folder, kept + 1, 9, f"--resume={kept}")
                self.has_steps(folder, 9)

    def test_steps_above_that_are_not_logged_again_are_gone(self):
        folder = self.run_folder()
        self.train(folder, 1, 7)
        self.train(folder, 4, 4, "--resume=3")
        self.has_steps(folder, 4)

    def test_a_run_that_goes_on_twice_in_a_second_is_read_in_order(self):
        folder = self.run_folder()
        self.train(folder, 1, 7)
        self.train(folder, 5, 6, "--resume=4")
        self.train(folder, 3, 9, "--resume=2")
        self.has_steps(folder, 9)
        self.assertEqual(len(list(folder.iterdir())), 3)

    def test_a_torn_record_costs_no_other(self):
        """The last record is the histogram of step 7."""
        folder = self.run_folder()
        self.train(folder, 1, 7, "--killed")
        file, = folder.iterdir()
        whole = file.read_bytes()
        for lost in (1, 3, 5, 60, 400):
            with self.subTest(lost=lost):
                file.write_bytes(whole[:-lost])
                events = read(folder)
                self.assertEqual(texts(events, "note")[-1], (7, "at **step** 7"))
                self.assertEqual([event.step for event in events.Histograms("weight")], [1, 2, 3, 4, 5, 6])
                self.train(folder, 6, 9, "--resume=5")
                self.has_steps(folder, 9)
                next(path for path in folder.iterdir() if path != file).unlink()


class HyperParameters(TensorBoardTest):
    def dashboard(self):
        """Returns the experiment and the groups of sessions as the HParams dashboard gets them for the folder of all runs."""
        multiplexer = EventMultiplexer().AddRunsFromDirectory(str(self.folder / "runs")).Reload()
        context = backend_context.Context(types.SimpleNamespace(data_provider=MultiplexerDataProvider(multiplexer, "")))
        experiment = get_experiment.Handler(RequestContext(), context, "", api_pb2.GetExperimentRequest()).run()
        columns = [api_pb2.ColParams(hparam=info.name) for info in experiment.hparam_infos]
        request = api_pb2.ListSessionGroupsRequest(
            allowed_statuses=api_pb2.Status.values(), col_params=columns, slice_size=100, include_metrics=True)
        groups = list_session_groups.Handler(RequestContext(), context, "", request).run().session_groups
        return experiment, {group.name: group for group in groups}

    def test_the_dashboard_lists_runs_with_their_settings_and_last_metrics(self):
        self.train(self.run_folder("version_0"), 1, 3)
        self.train(self.run_folder("version_1"), 1, 5, "--killed")
        experiment, groups = self.dashboard()
        self.assertEqual({info.name: info.type for info in experiment.hparam_infos},
                         {"lr": api_pb2.DATA_TYPE_FLOAT64, "batch_size": api_pb2.DATA_TYPE_FLOAT64,
                          "model": api_pb2.DATA_TYPE_STRING})
        self.assertEqual(sorted(info.name.tag for info in experiment.metric_infos), ["epoch", "loss", "time/forward"])
        self.assertEqual(sorted(groups), ["version_0", "version_1"])
        for name, last, status in (("version_0", 3, api_pb2.STATUS_SUCCESS), ("version_1", 5, api_pb2.STATUS_UNKNOWN)):
            with self.subTest(run=name):
                group = groups[name]
                values = {key: value.number_value or value.string_value for key, value in group.hparams.items()}
                self.assertEqual(values, {"lr": 0.125, "batch_size": 64, "model": "mlp"})
                self.assertEqual({metric.name.tag: metric.value for metric in group.metric_values}["time/forward"], last / 4)
                session, = group.sessions
                self.assertEqual(session.status, status)
                self.assertGreater(session.start_time_secs, 0)
                self.assertEqual(session.end_time_secs >= session.start_time_secs, status == api_pb2.STATUS_SUCCESS)

    def test_a_run_that_was_killed_and_went_on_has_succeeded(self):
        folder = self.run_folder()
        self.train(folder, 1, 5, "--killed")
        self.train(folder, 4, 6, "--resume=3")
        session, = self.dashboard()[1]["version_0"].sessions
        self.assertEqual(session.status, api_pb2.STATUS_SUCCESS)


if __name__ == "__main__":
    harness.main()
