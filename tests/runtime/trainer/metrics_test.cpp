#include <gmock/gmock.h>
#include <torch/types.h>

#include <cohort/host/error.hpp>
#include <cohort/host/message.hpp>
#include <cohort/metric_kinds.hpp>
#include <cohort/metrics.hpp>

#include "error_text.hpp"
#include "loggers/csv_table.hpp"
#include "metrics/metric_board.hpp"
#include "metrics/rank_report.hpp"
#include "report/results_text.hpp"

namespace cohort {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

TEST(MetricBoard, WeighsAValueByItsOwnSamples) {
  MetricBoard board;
  for (const auto& [value, samples] : {std::pair{1.0, 3}, std::pair{5.0, 1}}) {
    board.begin_batch(8);
    board.add("number", value, {.where = LogWhere::kEpoch, .samples = samples});
    board.add("tensor", torch::full({}, value), {.samples = samples});
    board.add("batch", value, {});
  }
  const auto totals = board.totals();
  ASSERT_EQ(totals.size(), 3U);
  EXPECT_EQ(totals[0], (MetricTotal{"number", 8, 4}));
  EXPECT_EQ(totals[1], (MetricTotal{"tensor", 8, 4}));
  EXPECT_EQ(totals[2], (MetricTotal{"batch", 48, 16}));
  EXPECT_THAT(error_text<UserError>([&] { board.add("number", 1.0, {.samples = -2}); }),
              HasSubstr("was given -2 samples; give 0 or more"));
}

TEST(MetricBoard, WeighsPiecesByTheirOwnSamples) {
  std::vector<MetricBoard> pieces(2);
  pieces[0].begin_batch(4);
  pieces[0].add("nodes", 1.0, {.samples = 3});
  pieces[1].begin_batch(4);
  pieces[1].add("nodes", 5.0, {.samples = 1});
  MetricBoard whole;
  whole.begin_batch(8);
  whole.add_pieces(pieces);
  EXPECT_EQ(whole.totals().at(0), (MetricTotal{"nodes", 8, 4}));
}

TEST(MetricBoard, CountsAllThatAPieceLogsUnderAName) {
  const auto log_all = [](MetricBoard& board, bool is_on_device) {
    for (const double value : {1.0, 3.0}) {
      is_on_device ? board.add("loss", torch::tensor(value), {}) : board.add("loss", value, {});
    }
  };
  for (const bool is_on_device : {false, true}) {
    MetricBoard direct, whole;
    direct.begin_batch(4);
    log_all(direct, is_on_device);
    std::vector<MetricBoard> pieces(2);
    for (MetricBoard& piece : pieces) {
      piece.begin_batch(2);
      log_all(piece, is_on_device);
    }
    whole.add_pieces(pieces);
    EXPECT_EQ(whole.totals(), direct.totals());
    EXPECT_EQ(whole.take_step_values(), direct.take_step_values());
  }
}

TEST(Accuracy, IsTheFractionOfRowsWhoseLargestLogitIsAtTheLabel) {
  const auto logits = torch::tensor({{0.1, 0.9}, {0.8, 0.2}, {0.3, 0.7}, {0.6, 0.4}});
  EXPECT_FLOAT_EQ(accuracy(logits, torch::tensor({1, 0, 0, 0})).item<float>(), 0.75F);
}

TEST(MetricBoard, EpochMeansAreWeightedByTheSamplesOfEachBatch) {
  MetricBoard board;
  board.begin_batch(3);
  board.add("loss", torch::tensor(2.0F), {.where = LogWhere::kBoth});
  board.begin_batch(1);
  board.add("loss", torch::tensor(6.0F), {.where = LogWhere::kBoth});
  EXPECT_THAT(board.totals(), ElementsAre(MetricTotal{"loss", 12, 4}));
  EXPECT_THAT(board.take_step_values(), ElementsAre(Pair("loss", 6.0)));
}

TEST(MetricBoard, PutsValuesWhereTheyWereSentTo) {
  MetricBoard board;
  board.add("step", 1.0, {.where = LogWhere::kStep});
  board.add("epoch", 2.0, {.where = LogWhere::kEpoch});
  EXPECT_THAT(board.take_step_values(), ElementsAre(Pair("step", 1.0)));
  EXPECT_THAT(board.totals(), ElementsAre(MetricTotal{"epoch", 2, 1}));
}

TEST(MetricBoard, KnowsWhatIsForTheStatusLine) {
  MetricBoard board;
  board.add("step", 1, {.where = LogWhere::kStep | LogWhere::kBar});
  board.add("both", 2, {.where = LogWhere::kBar});
  board.add("file", 3, {.where = LogWhere::kBoth});
  EXPECT_TRUE(board.is_on_bar("step") && board.is_on_bar("both"));
  EXPECT_FALSE(board.is_on_bar("file") || board.is_on_bar("bot") || board.is_on_bar("none"));
  EXPECT_THAT(board.take_step_values(), ElementsAre(Pair("step", 1.0), Pair("both", 2.0), Pair("file", 3.0)));
  EXPECT_THAT(board.totals(), ElementsAre(MetricTotal{"both", 2, 1}, MetricTotal{"file", 3, 1}));
  MetricBoard whole;
  whole.add_pieces(std::vector{board});
  EXPECT_TRUE(whole.is_on_bar("both"));
  MetricBoard evaluation(MetricBoard::Pass::kEvaluation);
  evaluation.add("val", 1, {.where = LogWhere::kStep | LogWhere::kBar});
  EXPECT_TRUE(evaluation.is_on_bar("val"));
  EXPECT_TRUE(evaluation.take_step_values().empty());
}

TEST(MetricBoard, GivesTheValueOfAStepOnce) {
  MetricBoard board;
  board.add("rare", 1.0, {.where = LogWhere::kStep});
  board.add("each", 2.0, {.where = LogWhere::kStep});
  EXPECT_THAT(board.take_step_values(), ElementsAre(Pair("rare", 1.0), Pair("each", 2.0)));
  board.add("each", 3.0, {.where = LogWhere::kStep});
  EXPECT_THAT(board.take_step_values(), ElementsAre(Pair("each", 3.0))) << "the other was not measured again";
  MetricBoard resumed;
  board.add("rare", 4.0, {.where = LogWhere::kStep});
  resumed.restore(board.records());
  EXPECT_THAT(resumed.take_step_values(), ElementsAre(Pair("rare", 4.0)));
}

TEST(MetricBoard, KeepsTensorsForTheReplaysOfACapture) {
  MetricBoard board(MetricBoard::Pass::kCapture);
  const auto there = torch::ones({}, torch::kMeta);  // on a device, where it has no value
  board.add("loss", there, {.where = LogWhere::kEpoch});
  ASSERT_EQ(board.captured().size(), 1u);
  EXPECT_EQ(board.captured()[0].name, "loss");
  EXPECT_TRUE(board.captured()[0].value.is_meta());
  EXPECT_EQ(board.captured()[0].options.where, LogWhere::kEpoch);
  EXPECT_TRUE(board.totals().empty());
  const std::string refused = "log(\"rate\") was given a number of the host";
  EXPECT_THAT(error_text<UserError>([&] { board.add("rate", 0.1, {.where = LogWhere::kStep}); }), HasSubstr(refused));
  EXPECT_THAT(error_text<UserError>([&] { board.add("rate", torch::tensor(0.1), {.where = LogWhere::kStep}); }),
              HasSubstr(refused));
}

TEST(MetricBoard, TakesEveryKindOfNumber) {
  MetricBoard board;
  board.add("double", torch::tensor(1.5, torch::kDouble), {.where = LogWhere::kBoth});
  board.add("half", torch::tensor(1.5).to(torch::kBFloat16), {.where = LogWhere::kBoth});
  board.add("int", torch::tensor({3}), {.where = LogWhere::kBoth});
  board.add("graph", torch::tensor(2.0F).requires_grad_(true) * 2, {.where = LogWhere::kBoth});
  EXPECT_THAT(board.take_step_values(),
              ElementsAre(Pair("double", 1.5), Pair("half", 1.5), Pair("int", 3.0), Pair("graph", 4.0)));
}

TEST(MetricBoard, ForgetsValuesWhenCleared) {
  MetricBoard board;
  board.add("loss", 1.0, {.where = LogWhere::kBoth});
  board.clear();
  EXPECT_TRUE(board.totals().empty());
  EXPECT_TRUE(board.take_step_values().empty());
  board.add("loss", 5.0, {.where = LogWhere::kBoth});
  EXPECT_THAT(board.totals(), ElementsAre(MetricTotal{"loss", 5, 1}));
}

TEST(MetricBoard, RefusesWhatIsNoNumberAndNamesThatCannotHeadAColumn) {
  MetricBoard board;
  EXPECT_THAT(error_text<UserError>([&] { board.add("loss", torch::ones({2}), {.where = LogWhere::kBoth}); }),
              HasSubstr("2 elements"));
  EXPECT_THAT(error_text<UserError>([&] { board.add("loss", at::Tensor(), {.where = LogWhere::kBoth}); }),
              HasSubstr("undefined"));
  for (const char* name : {"", "a,b", "a\nb", "a\tb", "\"a", "a\"b", "a\xff", "a\x7f"}) {
    EXPECT_THAT(error_text<UserError>([&] { board.add(name, 1.0, {.where = LogWhere::kBoth}); }), HasSubstr("column"))
        << name;
    metric::MeanSquaredError metric;
    EXPECT_THAT(error_text<UserError>([&] { board.add(name, metric); }), HasSubstr("column")) << name;
  }
}

TEST(RankReport, MeansOverRanksAreWeightedAndBitExact) {
  const double third = 1.0 / 3;
  const std::vector<std::string> texts{to_text({{}, {{"acc", third, 1}, {"only here", 4, 2}}}), to_text({{}, {}}),
                                       to_text({{}, {{"acc", 5, 3}}})};
  const auto merged = merge_reports(texts);
  EXPECT_THAT(merged.means, ElementsAre(Pair("acc", (third + 5) / 4), Pair("only here", 2.0)));
  EXPECT_TRUE(merged.stop.is_none());
}

TEST(RankReport, ValuesThatAreNotFiniteArriveAsSuch) {
  const std::vector<std::string> texts{to_text({{}, {{"nan", std::nan(""), 1}, {"inf", -INFINITY, 1}}})};
  const auto merged = merge_reports(texts);
  EXPECT_TRUE(std::isnan(merged.means.at("nan")));
  EXPECT_EQ(merged.means.at("inf"), -INFINITY);
}

TEST(RankReport, BringsStatesOfEachRankByteByByte) {
  const std::string states("\0a\tb\n", 5);
  const std::vector<std::string> texts{to_text({.totals = {{"acc", 1, 1}}, .states = states}), to_text({})};
  const auto merged = merge_reports(texts);
  EXPECT_THAT(merged.states, ElementsAre(states, ""));
  EXPECT_THAT(merged.means, ElementsAre(Pair("acc", 1.0)));
}

TEST(RankReport, TellsWhichMetricsARankHasFromACheckpointAlone) {
  const std::vector<std::string> texts{to_text({.not_logged = {"acc", "recall of all"}}), to_text({})};
  EXPECT_THAT(merge_reports(texts).not_logged, ElementsAre(ElementsAre("acc", "recall of all"), ElementsAre()));
}

TEST(RankReport, AParameterThatAnyRankUsesIsNotUnused) {
  const std::vector<std::string> texts{to_text({.unused = {"a", "b.weight", "c"}}),
                                       to_text({.unused = {"c", "b.weight"}}),
                                       to_text({.unused = {"b.weight", "c", "d"}})};
  EXPECT_THAT(merge_reports(texts).unused, ElementsAre("b.weight", "c"));
  EXPECT_THAT(merge_reports(std::vector{texts[0], to_text({})}).unused, ElementsAre());
}

TEST(RankReport, TheMostSevereReasonOfTheFirstRankCounts) {
  using Severity = StopReason::Severity;
  const auto text = [](Severity severity, const std::string& reason) {
    return to_text({{.severity = severity, .exit_reason = reason, .text = "a\tb\nc", .signal = 15}, {}});
  };
  const std::vector<std::string> texts{text(Severity::kEnd, "max_time"), text(Severity::kFailure, "first"),
                                       text(Severity::kInterrupt, "signal"), text(Severity::kFailure, "second")};
  const StopReason stop = merge_reports(texts).stop;
  EXPECT_EQ(stop.severity, Severity::kFailure);
  EXPECT_EQ(stop.exit_reason, "first");
  EXPECT_EQ(stop.text, "a b c") << "a text is one field";
  EXPECT_EQ(stop.signal, 15);
  EXPECT_EQ(stop.rank, 1);
}

TEST(RankReport, TheReasonThatCameUpFirstCounts) {
  const auto text = [](StopReason::Severity severity, uint64_t step) {
    return to_text({{.severity = severity, .step = step}, {}});
  };
  const auto failure = StopReason::Severity::kFailure, interrupt = StopReason::Severity::kInterrupt;
  const std::vector<std::string> texts{text(failure, 6), text(interrupt, 1), text(failure, 4), text(failure, 4)};
  EXPECT_EQ(merge_reports(texts).stop.rank, 2);
  EXPECT_EQ(merge_reports(texts).stop.step, 4U);
}

TEST(RankReport, AnEndCountsMoreThanAStopThatIsResumed) {
  const auto end = StopReason::Severity::kEnd;
  const std::vector<std::string> texts{to_text({{.severity = end, .is_final = false, .step = 1}, {}}),
                                       to_text({{.severity = end, .step = 4, .callback = "ends"}, {}})};
  EXPECT_EQ(merge_reports(texts).stop.callback, "ends");
}

TEST(RankReport, RefusesATextOfAnotherKind) {
  const std::string whole = to_text({.totals = {{"loss", 1, 1}}, .states = "bytes"});
  EXPECT_NO_THROW(merge_reports(std::vector{whole}));
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_THROW(merge_reports(std::vector{whole.substr(0, length)}), PeerFailed) << length;
  }
  for (const std::string& text : {whole + "0", to_message(3), to_message("text"), to_message(std::vector<int>{1})}) {
    EXPECT_THROW(merge_reports(std::vector{text}), PeerFailed) << text;
  }
}

TEST(CsvTable, ColumnsMayGrowAndEarlierRowsStayEmptyThere) {
  CsvTable table;
  using Cells = std::vector<std::pair<std::string, double>>;
  table.add_row(Cells{{"epoch", 0}, {"loss", 0.1}});
  table.add_row(Cells{{"epoch", 1}, {"val_acc", 0.5}});
  table.add_row(Cells{{"loss", 1e-9}});
  EXPECT_EQ(table.text(), "epoch,loss,val_acc\n0,0.1,\n1,,0.5\n,1e-09,\n");
}

TEST(EpochLine, ShowsMetricsAndTime) {
  EXPECT_EQ(epoch_line(3, {{"val_acc", 0.97125}, {"train_loss", 0.12}}, 1.94),
            "epoch 3: train_loss 0.12, val_acc 0.9712 (1.9 s)");
  EXPECT_EQ(epoch_line(0, {}, 2), "epoch 0: (2.0 s)");
}

TEST(ResultsTable, AlignsNamesAndValues) {
  EXPECT_EQ(results_table("Test metric", {{"test_acc", 0.975}, {"test_loss", 0.08}}),
            "Test metric | Value\n------------+--------\ntest_acc    | 0.975\ntest_loss   | 0.08\n");
}

}  // namespace
}  // namespace cohort
