#include <algorithm>
#include <cmath>

#include <cohort/callbacks.hpp>
#include <cohort/host/error.hpp>
#include <cohort/runtime.hpp>

#include "checkpoint/all_or_none.hpp"
#include "checkpoint/checkpoint_folder.hpp"
#include "metrics/number_text.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLink = "best";

void link_to(const fs::path& checkpoint) {
  const fs::path link = checkpoint.parent_path() / kLink;
  const fs::path fresh = checkpoint.parent_path() / ".best";
  std::error_code error;
  if (fs::exists(fs::symlink_status(link, error)) && !fs::is_symlink(link, error)) {
    throw UserError("'" + shown(link) + "' is no link that best checkpoints have made; move it away");
  }
  fs::remove(fresh, error);
  fs::create_symlink(checkpoint.filename(), fresh, error);
  if (!error) fs::rename(fresh, link, error);
  if (error) throw UserError("cannot make the link '" + shown(link) + "': " + error.message());
}

}  // namespace

BestCheckpoints::BestCheckpoints(fs::path folder, std::string monitor, Options options, std::string asked_by)
    : folder_(std::move(folder)), metric_(std::move(monitor), asked_by), options_(options) {
  if (options.keep < 1) throw UserError(asked_by + ": keep at least one checkpoint");
}

void BestCheckpoints::on_validation_end(Fit& /*fit*/, const Metrics& means) {
  if (const auto value = metric_.at_validation(means)) value_ = value;
}

void BestCheckpoints::on_train_epoch_end(Fit& fit, const Metrics& means) {
  if (const auto value = metric_.at_epoch(fit, means)) value_ = value;
}

void BestCheckpoints::on_save_point(Fit& fit, SavePoint /*point*/) {
  const auto value = std::exchange(value_, std::nullopt);
  if (!value || std::isnan(*value)) return;
  const bool is_full = std::ssize(kept_) >= options_.keep;
  if (is_full && !is_better(*value, kept_.back().value)) return;
  const auto saved = fit.save(folder_);
  if (!saved) return;
  std::erase_if(kept_, [&](const Kept& kept) { return kept.path == *saved; });
  const auto place = std::ranges::find_if(kept_, [&](const Kept& kept) { return is_better(*value, kept.value); });
  kept_.insert(place, {*saved, *value});
  all_or_none(fit.runtime(), [&] {
    if (!fit.runtime().is_first()) return;
    link_to(kept_.front().path);
    if (std::ssize(kept_) > options_.keep) remove_checkpoint(kept_.back().path);
  });
  if (std::ssize(kept_) > options_.keep) kept_.pop_back();
  if (fit.runtime().is_first() && kept_.front().path == *saved) {
    fit.runtime().log().info("Best " + metric_.name() + " so far, " + number_text(*value) + ": " + shown(*saved));
  }
}

void BestCheckpoints::save_state(CallbackState& state) const {
  metric_.save_state(state);
  std::string text;
  for (const Kept& kept : kept_) text += kept.path.filename().string() + '\n';
  state.set("names", text);
  for (size_t i = 0; i < kept_.size(); ++i) state.set("value-" + std::to_string(i), kept_[i].value);
}

// A checkpoint that is gone since is no longer among the best.
void BestCheckpoints::load_state(const CallbackState& state) {
  metric_.load_state(state);
  kept_.clear();
  const std::string names = state.text("names");
  size_t index = 0;
  for (size_t begin = 0; begin < names.size(); ++index) {
    const size_t end = names.find('\n', begin);
    if (end == std::string::npos) break;
    const fs::path path = folder_ / names.substr(begin, end - begin);
    if (is_checkpoint(path)) kept_.push_back({path, state.number("value-" + std::to_string(index))});
    begin = end + 1;
  }
}

}  // namespace cohort
