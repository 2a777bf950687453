// The free layer `devices`: uses stream/1, memory/1 and lanes in reduce_bucket as `does` says, and checks what it is
// given.
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <cohort/sdk/strategy.hpp>

namespace {

namespace sdk = cohort::sdk;

void require(bool condition, const std::string& what) {
  if (!condition) throw sdk::invalid_argument(what);
}

class Devices : public sdk::Strategy<Devices> {
 public:
  void create(const sdk::Options& options) { does_ = options.text("does"); }

  void layout_ready(int32_t reason) {
    below().layout_ready(reason);
    const cohort_bucket& bucket = host().buckets().at(0);
    program_ = host().stream(bucket).native;
    buffer_ = host().alloc(bucket.device_type, bucket.device_index, sizeof(float));
    require(reinterpret_cast<uintptr_t>(buffer_.data()) % 256 == 0, "memory is aligned to 256 bytes");
    if (does_ == "foreign_memory") sdk::check(memory().release(raw(), this));
    if (does_ == "no_device") host().stream(bucket.device_type, 7);
    if (does_ == "no_device_memory") host().alloc(3, 0, 8);
    if (does_ == "host_memory") try_host_memory();
    if (does_ == "write") try_write();
    if (does_ == "no_device_write") write(5, {nullptr, 3, 0});
    if (does_ == "no_stream_write") write(5, {nullptr, bucket.device_type, bucket.device_index});
    if (does_ == "no_stream") host().world().all_reduce(elements({nullptr, bucket.device_type, 0}), COHORT_REDUCE_SUM);
    if (does_ == "late") try_late();
    if (does_ == "leave") left_.emplace_back(host().alloc(bucket.device_type, bucket.device_index, 1 << 20));
  }

  void begin_step(const cohort_step& step) {
    below().begin_step(step);
    if (does_ == "outside") try_outside();
    if (does_ == "streams") require(host().stream(host().buckets().at(0)).native == program_, "the program's stream");
    if (does_ == "release") try_release();
  }

  void reduce_bucket(const cohort_step& step, const cohort_bucket& bucket) {
    if (does_ == "streams") require(host().stream(bucket).native != program_, "lane 0 has a stream of its own");
    below().reduce_bucket(step, bucket);
  }

 private:
  std::string does_;
  void* program_ = nullptr;
  sdk::DeviceBuffer buffer_;
  std::vector<sdk::DeviceBuffer> left_;
  sdk::LaneTask fill_{[this] { fill(2); }};

  const cohort_host* raw() const { return host().raw(); }
  const cohort_memory_1& memory() const {
    return *static_cast<const cohort_memory_1*>(raw()->get_interface(raw(), COHORT_MEMORY_ID));
  }
  sdk::Elements elements(const cohort_stream& stream) const { return {buffer_.data(), 1, COHORT_FLOAT32, stream}; }
  cohort_stream now() const { return host().stream(host().buckets().at(0)); }
  void fill(double value) const { host().core_kernels(now().device_type).fill(elements(now()), value); }
  float value() const {
    float value = 0;
    host().read(&value, buffer_.data(), sizeof value, now());
    return value;
  }

  void write(float value, const cohort_stream& stream) const {
    host().write(buffer_.data(), &value, sizeof value, stream);
  }

  // In the order of the stream: behind the work before it and ahead of the work after it. The host's memory may be
  // reused at once.
  void try_write() const {
    const sdk::CoreKernels kernels = host().core_kernels(now().device_type);
    fill(3);
    float given = 7;
    host().write(buffer_.data(), &given, sizeof given, now());
    given = -1;
    kernels.scale(elements(now()), 2);
    require(value() == 14.0f, "a write has its place in the order");
    host().write(buffer_.data(), nullptr, 0, now());
    require(value() == 14.0f, "nothing is written");
    const double wide = 5;
    const sdk::DeviceBuffer here = host().alloc(COHORT_DEVICE_CPU, 0, sizeof wide);
    host().write(here.data(), &wide, sizeof wide, host().stream(COHORT_DEVICE_CPU, 0));
    double read = 0;
    std::memcpy(&read, here.data(), sizeof read);
    require(read == 5.0, "host memory is written, too");
  }

  // On the calling thread's stream, although the operation runs on a lane.
  void try_outside() const {
    fill(3);
    host().world().all_reduce(elements(now()), COHORT_REDUCE_SUM);
    host().core_kernels(now().device_type).scale(elements(now()), 2);
    require(value() == 6.0f * static_cast<float>(host().world().size()), "the operation has its place in the order");
  }

  // A wait without a time does not wait for the device, one with a time does.
  void try_late() {
    const sdk::Lane lane = host().lane("late");
    fill(1);
    sdk::Lane::Ticket ticket = lane.submit(fill_);
    lane.wait(ticket);
    require(value() == 2.0f, "the program goes on behind the lane");
    ticket = lane.submit(fill_);
    while (!lane.is_done(ticket)) {
    }
    require(value() == 2.0f, "done on the device");
  }

  // The collective's memory, which is the device's here, is released while the device fills it.
  void try_release() const {
    constexpr uint64_t kCount = 1 << 20;
    void* const memory = host().world().alloc(kCount * sizeof(float));
    for (int i = 0; i < 20; ++i) {
      host().core_kernels(now().device_type).fill({memory, kCount, COHORT_FLOAT32, now()}, i);
    }
    host().world().release(memory);
  }

  void try_host_memory() const {
    const sdk::DeviceBuffer here = host().alloc(COHORT_DEVICE_CPU, 0, sizeof(double));
    const double given = 5;
    std::memcpy(here.data(), &given, sizeof given);
    const cohort_stream cpu = host().stream(COHORT_DEVICE_CPU, 0);
    require(cpu.native == nullptr, "the CPU has no stream");
    host().world().all_reduce({here.data(), 1, COHORT_FLOAT64, cpu}, COHORT_REDUCE_SUM);
    double read = 0;
    host().read(&read, here.data(), sizeof read, cpu);
    require(read == 5.0 * host().world().size(), "host memory is summed");
  }
};

constexpr cohort_option kOptions[] = {sdk::option("does", "string", "", "what is tried")};

constexpr cohort_component kDevices =
    sdk::strategy<Devices>("devices", "tries streams and memory").inherits("*").options(kOptions);

}  // namespace

COHORT_SDK_PLUGIN("org.cohort.test.devices", "1.0.0", "cohort", "Apache-2.0", kDevices)
