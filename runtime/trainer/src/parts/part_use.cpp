#include "parts/part_use.hpp"

#include <fmt/format.h>

#include "report/device_memory.hpp"

namespace cohort {

PartUse::PartUse(const PartDevices& devices, Profile* profile)
    : devices_(devices), profile_(profile), parts_(devices.count()) {
  for (size_t part = 0; part < parts_.size(); ++part) forget_peak(devices_[part]);
}

void PartUse::leave(size_t part, const char* what, size_t piece) {
  if (!profile_) return;
  const Stretch when{parts_[part].entered_ns, clock_ns()};
  parts_[part].busy_ns += when.ended_ns - when.begun_ns;
  profile_->note(fmt::format("part {}: {} of piece {}", part, what, piece), when);
}

// On devices the host only enqueues work, and its time is not theirs.
std::string PartUse::table() const {
  const bool has_memory = peak_bytes(devices_[0]) > 0, has_times = batches_ns_ > 0 && !devices_.are_apart();
  if (!has_memory && !has_times) return "";
  std::string text = "parts of the model, as they ran:\npart |";
  if (has_memory) text += "      MiB";
  if (has_times) text += "  seconds |   idle";
  for (size_t part = 0; part < parts_.size(); ++part) {
    const auto busy = static_cast<double>(parts_[part].busy_ns), all = static_cast<double>(batches_ns_);
    text += fmt::format("\n{:>4} |", part);
    if (has_memory) text += fmt::format(" {:>8.3g}", static_cast<double>(peak_bytes(devices_[part])) / (1 << 20));
    if (has_times) text += fmt::format(" {:>8.3g} | {:>4.0f} %", busy * 1e-9, 100 * (1 - busy / all));
  }
  return text;
}

}  // namespace cohort
