#include <cohort/host/gradient_streams.hpp>

#include <algorithm>

namespace cohort::host {

void GradientStreams::resize(size_t buckets) {
  buckets_.assign(devices_.all().empty() ? 0 : buckets, {});
}

void GradientStreams::note(size_t bucket) {
  if (buckets_.empty()) return;
  auto& streams = buckets_[bucket].streams;
  for (const Device device : devices_.all()) {
    const cohort_stream stream = devices_.current(device);
    const auto is_same = [&](const cohort_stream& known) { return known.native == stream.native; };
    if (std::ranges::none_of(streams, is_same)) streams.push_back(stream);
  }
}

void GradientStreams::complete(size_t bucket) {
  if (buckets_.empty()) return;
  auto& [streams, ends] = buckets_[bucket];
  ends.clear();
  for (const cohort_stream& stream : streams) ends.push_back(devices_.port()->record(stream));
  streams.clear();
}

void GradientStreams::follow(size_t bucket) const {
  if (buckets_.empty()) return;
  for (const auto& end : buckets_[bucket].ends) {
    for (const Device device : devices_.all()) devices_.port()->order(devices_.current(device), *end);
  }
}

}  // namespace cohort::host
