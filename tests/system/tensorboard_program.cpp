// Writes event files for tensorboard_test.py.
//
//   tensorboard_program FOLDER train FROM TO [--resume=STEP] [--killed]
//   tensorboard_program FOLDER odd          names, texts and tensors that are hard to write
// --killed: ends at once after the last row, as a killed program would.
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include <cohort/cohort.hpp>

#include "loggers/tensorboard_logger.hpp"

namespace tensorboard_program {
namespace {

using Values = std::vector<std::pair<std::string, double>>;

void log(cohort::Logger& logger, uint64_t step, const Values& values) {
  logger.log_metrics({step, static_cast<int64_t>(step / 4), values});
}

/// Logs the steps FROM..TO of a run; the values of a step depend on it alone.
void train(cohort::Logger& logger, const std::vector<std::string>& arguments) {
  const uint64_t from = std::stoull(arguments.at(0)), to = std::stoull(arguments.at(1));
  for (const auto& argument : arguments) {
    if (argument.starts_with("--resume=")) logger.resume_after(std::stoull(argument.substr(9)));
  }
  logger.log_hyper_parameters({{"lr", 0.125}, {"batch_size", 64.0}, {"model", std::string("mlp")}});
  for (uint64_t step = from; step <= to; ++step) {
    const auto number = static_cast<double>(step);
    log(logger, step, {{"loss", 1 / number}, {"time/forward", number / 4}});
    logger.log_text("note", "at **step** " + std::to_string(step), step);
    logger.log_histogram("weight", torch::arange(static_cast<int64_t>(10 * step)) - 5.0, step);
  }
  if (arguments.back() == "--killed") std::_Exit(0);
  logger.flush();
  logger.completed();
}

void log_odd_things(cohort::Logger& logger) {
  log(logger, 1, {{"nan", std::nan("")}, {"inf", std::numeric_limits<double>::infinity()}, {"a\xff z", 1e-30}});
  log(logger, 2, {});
  log(logger, uint64_t{1} << 40, {{"late", -2}});
  logger.log_text("empty", "", 1);
  logger.log_text("text", "Größe\n\xff\"\\", 1);
  logger.log_histogram("no_gradient", at::Tensor(), 1);
  logger.log_histogram("no_elements", torch::empty({0}), 1);
  logger.log_histogram("one_value", torch::full({7}, 0.25), 1);
  logger.log_histogram("not_finite", torch::tensor({1.0, std::nan("")}), 1);
}

}  // namespace

int run(int count, char** words) {
  const std::vector<std::string> arguments(words + 1, words + count);
  cohort::TensorBoardLogger logger(arguments.at(0));
  if (arguments.at(1) == "train") {
    train(logger, {arguments.begin() + 2, arguments.end()});
  } else {
    log_odd_things(logger);
  }
  return 0;
}

}  // namespace tensorboard_program
