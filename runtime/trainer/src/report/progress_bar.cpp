#include "report/progress_bar.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

namespace cohort {

ProgressBar::ProgressBar(bool wanted) : active_(wanted && ::isatty(STDERR_FILENO) == 1) {}

void ProgressBar::clear() {
  if (drawn_) std::fputs("\r\033[K", stderr);
  drawn_ = false;
}

void ProgressBar::draw(int64_t epoch, int64_t batches, std::optional<int64_t> length) {
  const auto now = std::chrono::steady_clock::now();
  if (now < next_draw_) return;
  next_draw_ = now + std::chrono::milliseconds(100);
  std::string line = "\r\033[Kepoch " + std::to_string(epoch) + ": ";
  if (length && *length > 0) {
    constexpr int64_t kWidth = 40;
    const auto filled = static_cast<size_t>(std::min(batches, *length) * kWidth / *length);
    line += "[" + std::string(filled, '#') + std::string(kWidth - filled, ' ') + "] " + std::to_string(batches) + "/" +
            std::to_string(*length);
  } else {
    line += std::to_string(batches) + " batches";
  }
  std::fputs(line.c_str(), stderr);
  drawn_ = true;
}

}  // namespace cohort
