#include "adasum.hpp"

#include <algorithm>
#include <utility>

namespace cohort::horovod {
namespace {

constexpr cohort_stream kCpuMemory{nullptr, COHORT_DEVICE_CPU, 0};
constexpr const char* kStart = "start";
constexpr const char* kReceived = "received";

char* at(void* data, uint64_t element, const cohort_bucket& bucket) {
  return static_cast<char*>(data) + element * sdk::size_of(bucket.dtype);
}

}  // namespace

/// A bucket while it is combined.
struct Adasum::Work {
  sdk::CoreKernels kernels;
  const cohort_bucket& bucket;
  sdk::Comm world;
  cohort_stream stream;
  void *weights, *start, *received;

  Work(const sdk::Host& host, const cohort_bucket& bucket_)
      : kernels(host.core_kernels(bucket_.device_type)),
        bucket(bucket_),
        world(host.comm(bucket_)),
        stream(host.stream(bucket_)),
        weights(view(host, COHORT_BUCKET_WEIGHT, nullptr)),
        start(view(host, COHORT_BUCKET_STATE, kStart)),
        received(view(host, COHORT_BUCKET_STATE, kReceived)) {}

  void* view(const sdk::Host& host, int32_t kind, const char* name) const {
    return host.buckets().view(bucket.index, kind, name).data();
  }
  /// Elements at a place of one of the three.
  sdk::Elements elements(char* begin, uint64_t count) const { return {begin, count, bucket.dtype, stream}; }
  char* weight(uint64_t element) const { return at(weights, element, bucket); }
  char* other(uint64_t element) const { return at(received, element, bucket); }
  uint64_t nbytes(Range range) const { return range.size() * sdk::size_of(bucket.dtype); }

  void swap(int peer, void* sent, uint64_t sent_bytes, void* got, uint64_t got_bytes, const cohort_stream& on) const {
    const cohort_message messages[] = {{sent, sent_bytes, peer, 1}, {got, got_bytes, peer, 0}};
    world.exchange({messages, 2}, on);
  }

  /// Visits what lies in `range` of each tensor: visit(number, first element, elements).
  template <class Visit>
  void each_part(Range range, Visit&& visit) const {
    for (uint64_t i = 0; i < bucket.num_parts; ++i) {
      const cohort_bucket_part& part = bucket.parts[i];
      const uint64_t begin = std::max(range.begin, part.offset);
      const uint64_t end = std::min(range.end, part.offset + part.numel);
      if (begin < end) visit(i, begin, end - begin);
    }
  }
};

void Adasum::plan(const sdk::Buckets& buckets, cohort_bucket_plan& plan) {
  buckets.drop(COHORT_BUCKET_GRAD);
  buckets.want(COHORT_BUCKET_WEIGHT);
  for (const char* name : {kStart, kReceived}) buckets.want(COHORT_BUCKET_STATE, name, 0, COHORT_STATE_SCRATCH);
  plan.flags |= COHORT_PLAN_ONE_BUCKET | COHORT_PLAN_KEEP_ORDER;
}

void Adasum::prepare(const sdk::Host& host) {
  const sdk::Buckets buckets = host.buckets();
  results_.clear();
  for (uint32_t i = 0; i < buckets.count(); ++i) {
    const cohort_bucket& bucket = buckets.at(i);
    results_.push_back(host.alloc(bucket.device_type, bucket.device_index, bucket.num_parts * sizeof(Products)));
  }
}

void Adasum::remember(const sdk::Host& host, uint32_t phase) {
  for (uint32_t i = 0; i < host.buckets().count(); ++i) {
    const Work work(host, host.buckets().at(i));
    if (work.bucket.phase != phase) continue;
    work.kernels.copy({work.start, work.bucket.numel, work.bucket.dtype, work.stream}, work.weights);
  }
}

void Adasum::combine(const sdk::Host& host, uint32_t phase) {
  for (uint32_t i = 0; i < host.buckets().count(); ++i) {
    const Work work(host, host.buckets().at(i));
    const cohort_bucket& bucket = work.bucket;
    if (bucket.phase != phase) continue;
    const sdk::Elements weights{work.weights, bucket.numel, bucket.dtype, work.stream};
    const auto add_start = [&](double factor) { work.kernels.axpby(weights, work.start, factor, 1.0); };
    add_start(-1.0);  // weights hold the change from here on
    Range own{0, bucket.numel};
    ranges_.clear();
    for (int distance = 1; distance < work.world.size(); distance *= 2) {
      ranges_.push_back(own);
      own = climb(host, work, own, distance);
    }
    for (int distance = work.world.size() / 2; distance > 0; distance /= 2) {
      const Range whole = ranges_.back();
      ranges_.pop_back();
      const Range rest = own.begin == whole.begin ? Range{own.end, whole.end} : Range{whole.begin, own.begin};
      const int peer = work.world.rank() ^ distance;
      work.swap(peer, work.weight(own.begin), work.nbytes(own), work.weight(rest.begin), work.nbytes(rest),
                work.stream);
      own = whole;
    }
    add_start(1.0);
  }
}

/// One level of the tree: of `range`, which the peer at `distance` has too, each of the two combines a half.
Adasum::Range Adasum::climb(const sdk::Host& host, const Work& work, Range range, int distance) {
  const int peer = work.world.rank() ^ distance;
  const bool is_first = work.world.rank() < peer;
  const uint64_t middle = range.begin + range.size() / 2;
  Range own{range.begin, middle}, rest{middle, range.end};
  if (!is_first) std::swap(own, rest);
  work.swap(peer, work.weight(rest.begin), work.nbytes(rest), work.other(own.begin), work.nbytes(own), work.stream);
  multiply(host, work, own, is_first);
  add_up_products(work, distance);
  merge(work, own, is_first);
  return own;
}

// On the device; one wait for all products of a level.
void Adasum::multiply(const sdk::Host& host, const Work& work, Range range, bool is_first) {
  const sdk::DeviceBuffer& results = results_[work.bucket.index];
  auto* const on_device = static_cast<Products*>(results.data());
  work.kernels.fill({results.data(), results.nbytes(), COHORT_UINT8, work.stream}, 0);
  work.each_part(range, [&](uint64_t part, uint64_t begin, uint64_t count) {
    Products* const p = on_device + part;
    const sdk::Elements own = work.elements(work.weight(begin), count), other = work.elements(work.other(begin), count);
    work.kernels.dot(own, other.data, &p->both);
    work.kernels.square_sum(own, is_first ? &p->first : &p->second);
    work.kernels.square_sum(other, is_first ? &p->second : &p->first);
  });
  products_.resize(work.bucket.num_parts);
  host.read(products_.data(), results.data(), results.nbytes(), work.stream);
}

/// Over the ranks below this level, whose ranges make up the whole; each pair adds the same two numbers.
void Adasum::add_up_products(const Work& work, int distance) {
  others_.resize(products_.size());
  const uint64_t nbytes = products_.size() * sizeof(Products);
  for (int step = 1; step <= distance; step *= 2) {
    work.swap(work.world.rank() ^ step, products_.data(), nbytes, others_.data(), nbytes, kCpuMemory);
    for (size_t i = 0; i < products_.size(); ++i) {
      products_[i].both += others_[i].both;
      products_[i].first += others_[i].first;
      products_[i].second += others_[i].second;
    }
  }
}

void Adasum::merge(const Work& work, Range range, bool is_first) const {
  work.each_part(range, [&](uint64_t part, uint64_t begin, uint64_t count) {
    const Products& p = products_[part];
    const bool has_zero = p.first == 0 || p.second == 0;
    const double first = has_zero ? 1.0 : 1.0 - p.both / (2 * p.first);
    const double second = has_zero ? 1.0 : 1.0 - p.both / (2 * p.second);
    work.kernels.axpby(work.elements(work.weight(begin), count), work.other(begin), is_first ? second : first,
                       is_first ? first : second);
  });
}

}  // namespace cohort::horovod
