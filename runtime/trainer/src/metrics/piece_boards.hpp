// Keeps a board for each piece of a batch, until all pieces are done and join the board of the batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "metrics/metric_board.hpp"

namespace cohort {

class PieceBoards {
 public:
  explicit PieceBoards(std::span<const int64_t> sizes) : boards_(sizes.size()) {
    for (size_t piece = 0; piece < sizes.size(); ++piece) boards_[piece].begin_batch(sizes[piece]);
  }
  /// Resets the metric objects of a batch that failed, or that nobody records.
  ~PieceBoards() {
    for (MetricBoard& board : boards_) board.metrics().reset();
  }
  PieceBoards(const PieceBoards&) = delete;
  PieceBoards& operator=(const PieceBoards&) = delete;

  MetricBoard& operator[](size_t piece) { return boards_[piece]; }
  std::span<MetricBoard> all() { return boards_; }
  /// Adds what the pieces have logged to the board of the batch, if there is one.
  void add_to(MetricBoard* board) {
    if (!board) return;
    board->add_pieces(boards_);
    boards_.clear();
  }

 private:
  std::vector<MetricBoard> boards_;
};

}  // namespace cohort
