// The batches of one pass over a dataset by number, for whoever reads them: the loop itself, or threads ahead of it.
#pragma once

#include <cxxabi.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <cohort/data.hpp>
#include <cohort/host/activity.hpp>
#include <cohort/host/error.hpp>

#include "data/batch_random.hpp"

namespace cohort {

class DatasetBatches {
 public:
  /// `indices` of the samples from batch `first` to the end of the pass, in order; `count`: where the batches that are
  /// read end.
  /// `name` is that of the data, for messages.
  DatasetBatches(const Loader& loader, std::string name, std::vector<int64_t> indices, int64_t first, int64_t count,
                 BatchSeeds seeds);

  const std::string& name() const { return name_; }

  int64_t count() const { return count_; }
  /// Reads the batch of this number, from `first`; it says its samples. Throws UserError for kept samples that are
  /// none. Several threads may call it if the dataset allows that; `reader` says which, for messages.
  Batch read(int64_t batch, const std::string& reader = "") const;

 private:
  std::string name_;
  std::shared_ptr<Dataset> dataset_;
  std::function<Batch(std::span<const Value>)> collate_;  // empty: the dataset makes batches
  std::vector<int64_t> indices_;
  size_t batch_size_;
  int64_t first_;
  int64_t count_;
  BatchSeeds seeds_;

  Batch make(std::span<const int64_t> rows) const;
};

/// Names a batch that is read, for the report of a crash or of a hang, as long as it lives.
class Reading {
 public:
  /// `reader` is empty if the loop reads itself.
  Reading(const std::string& name, int64_t batch, const std::string& reader)
      : name_(name), batch_(batch), reader_(reader) {}

 private:
  static void put_in_words(const void* reading, host::TextInRoom& text);

  const std::string& name_;
  const int64_t batch_;
  const std::string& reader_;
  host::Activity activity_{this, put_in_words};
};

/// Returns what `read` returns. What it throws that is no std::exception becomes a TrainingFailed that says where:
/// nobody else would know.
template <class Read>
auto reading(const std::string& name, int64_t batch, const std::string& reader, const Read& read) {
  const Reading of_batch(name, batch, reader);
  try {
    return read();
  } catch (const std::exception&) {
    throw;
  } catch (const abi::__forced_unwind&) {
    throw;
  } catch (...) {
    throw TrainingFailed("reading batch " + std::to_string(batch) + " of the " + name + (reader.empty() ? "" : " in ") +
                         reader + ": " + host::name_of_unknown_exception());
  }
}

/// Throws UserError if the loader has a function that collates samples, but a dataset that gives batches alone.
void check_collate(const Loader& loader, const std::string& name);

}  // namespace cohort
