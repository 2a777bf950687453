#include <algorithm>
#include <cmath>

#include <cohort/callbacks.hpp>
#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>
#include <cohort/runtime.hpp>

#include "callbacks/link_name.hpp"
#include "checkpoint/checkpoint_folder.hpp"
#include "metrics/number_text.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

void check_link(const fs::path& link) {
  std::error_code ignored;
  if (!fs::exists(fs::symlink_status(link, ignored)) || fs::is_symlink(link, ignored)) return;
  throw UserError("'" + shown(link) + "' is no link that best checkpoints have made; move it away");
}

/// Makes or moves a link beside the checkpoint.
void link_to(const fs::path& checkpoint, const std::string& name) {
  const fs::path link = checkpoint.parent_path() / name;
  const fs::path fresh = checkpoint.parent_path() / ('.' + name);
  check_link(link);
  std::error_code error;
  fs::remove(fresh, error);
  fs::create_symlink(checkpoint.filename(), fresh, error);
  if (!error) fs::rename(fresh, link, error);
  if (error) throw UserError("cannot make the link '" + shown(link) + "': " + error.message());
}

/// Removes the links to a checkpoint that have a name of the user's.
void unlink_from(const fs::path& checkpoint) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(checkpoint.parent_path(), error)) {
    if (entry.path().filename() == kBestLink || !entry.is_symlink(error)) continue;
    if (fs::read_symlink(entry.path(), error) == checkpoint.filename()) fs::remove(entry.path(), error);
  }
}

}  // namespace

BestCheckpoints::BestCheckpoints(fs::path folder, std::string monitor, Options options, std::string asked_by)
    : folder_(std::move(folder)), metric_(std::move(monitor), asked_by), options_(std::move(options)) {
  if (options_.keep < 1) throw UserError(asked_by + ": keep at least one checkpoint");
  if (!options_.name.empty()) link_name(options_.name, metric_.name(), 0, 0, 0);  // a mistake in it is better found now
}

// The best of an earlier training of the program stay in the folder, and are no measure for this one.
void BestCheckpoints::on_fit_start(Fit& fit) {
  if (fit.step() == 0) kept_.clear();  // else it is resumed
  fit.open(folder_);
  check_link(folder_ / kBestLink);
}

void BestCheckpoints::on_validation_end(Fit& fit, const Metrics& means) {
  if (const auto value = metric_.at_validation(means)) measured_ = {*value, fit.epoch()};
}

void BestCheckpoints::on_train_epoch_end(Fit& fit, const Metrics& means) {
  if (const auto value = metric_.at_epoch(fit, means)) measured_ = {*value, fit.epoch()};
}

void BestCheckpoints::on_save_point(Fit& fit, SavePoint /*point*/) {
  const auto measured = std::exchange(measured_, std::nullopt);
  if (!measured || std::isnan(measured->value)) return;
  const double value = measured->value;
  const bool is_full = std::ssize(kept_) >= options_.keep;
  if (is_full && !is_better(value, kept_.back().value)) return;
  const fs::path path = folder_ / checkpoint_name(fit.step());
  std::vector<Kept> kept = kept_;
  std::erase_if(kept, [&](const Kept& one) { return one.path == path; });
  kept.insert(std::ranges::find_if(kept, [&](const Kept& one) { return is_better(value, one.value); }), {path, value});
  std::optional<fs::path> worst;
  if (std::ssize(kept) > options_.keep) {
    worst = kept.back().path;
    kept.pop_back();
  }
  const std::string name =
      options_.name.empty() ? "" : link_name(options_.name, metric_.name(), value, measured->epoch, fit.step());
  const auto follow = [path, name, worst, best = kept.front().path] {
    unlink_from(path);
    if (!name.empty()) link_to(path, name);
    link_to(best, kBestLink);
    if (!worst) return;
    unlink_from(*worst);
    remove_checkpoint(*worst);
  };
  kept_.swap(kept);  // a checkpoint knows that it is among the best itself
  if (!fit.save(folder_, std::nullopt, follow)) {
    kept_.swap(kept);
    return;
  }
  if (fit.runtime().is_first() && kept_.front().path == path) {
    fit.runtime().log().info("Best " + metric_.name() + " so far, " + number_text(value) + ": " + shown(path));
  }
}

void BestCheckpoints::save_state(CallbackState& state) const {
  metric_.save_state(state);
  std::string text;
  for (const Kept& kept : kept_) text += kept.path.filename().string() + '\n';
  state.set("names", text);
  for (size_t i = 0; i < kept_.size(); ++i) state.set("value-" + std::to_string(i), kept_[i].value);
}

// A checkpoint that is gone since is no longer among the best. The names become paths that may be deleted later.
void BestCheckpoints::load_state(const CallbackState& state) {
  metric_.load_state(state);
  kept_.clear();
  const std::string names = state.text("names");
  size_t index = 0;
  for (size_t begin = 0; begin < names.size(); ++index) {
    const size_t end = names.find('\n', begin);
    if (end == std::string::npos) break;
    const std::string name = names.substr(begin, end - begin);
    const double value = state.number("value-" + std::to_string(index));
    if (!step_of_name(name) || std::isnan(value)) {
      throw UserError("the state of best checkpoints has " + host::in_quotes(name) + " with the value " +
                      number_text(value) + ", which is no checkpoint of it; resume from another checkpoint");
    }
    if (is_checkpoint(folder_ / name)) kept_.push_back({folder_ / name, value});
    begin = end + 1;
  }
}

}  // namespace cohort
