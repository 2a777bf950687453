#include "segment.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include <cohort/sdk/error.hpp>

namespace cohort::shm {

namespace {

constexpr uint64_t kHeaderBytes = 4096;            // a page, so that the data is page-aligned
constexpr uint64_t kMaxBytes = uint64_t{1} << 46;  // half of what x86-64 can address
constexpr uint32_t kMagic = 0x6d687343;

sdk::Error out_of_memory(uint64_t nbytes, const char* step) {
  return {COHORT_RESOURCE_EXHAUSTED, "shm cannot get " + std::to_string(nbytes >> 10) + " KiB of shared memory (" +
                                         step + ": " + std::strerror(errno) +
                                         "); free memory or raise the memory limit"};
}

sdk::Error unreachable(const SegmentAddress& address, const std::string& reason) {
  return {COHORT_UNAVAILABLE, "shm cannot open the memory of process " + std::to_string(address.pid) + ": " + reason +
                                  "; ranks must run as the same user and see each other's /proc"};
}

/// Returns the bytes of a segment for so many bytes of data.
uint64_t with_header(uint64_t nbytes) {
  return kHeaderBytes + (nbytes + kHeaderBytes - 1) / kHeaderBytes * kHeaderBytes;
}

/// Closes a descriptor that was not handed on.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return number_; }
  int release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

std::byte* map(int descriptor, uint64_t nbytes, Pages pages, int flags) {
  void* base = ::mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED | flags, descriptor, 0);
  if (base == MAP_FAILED) return nullptr;
  // Huge pages where the kernel allows them; in memory that several ranks touch first they would put words of one rank
  // on the memory node of another.
  if (pages == Pages::kReserved) ::madvise(base, nbytes, MADV_HUGEPAGE);
  return static_cast<std::byte*>(base);
}

}  // namespace

struct Segment::Header {
  uint32_t magic;
  uint32_t reserved0;
  uint64_t nonce;
  uint64_t nbytes;
  std::atomic<uint32_t> users;  // ranks in the owner's process that use the owner's mapping
};

Segment::Segment(std::byte* base, uint64_t nbytes, int descriptor, bool is_shared_mapping)
    : base_(base), nbytes_(nbytes), descriptor_(descriptor), is_shared_mapping_(is_shared_mapping) {}

Segment::Segment(Segment&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)),
      nbytes_(other.nbytes_),
      descriptor_(std::exchange(other.descriptor_, -1)),
      is_shared_mapping_(other.is_shared_mapping_) {}

Segment& Segment::operator=(Segment&& other) noexcept {
  if (this == &other) return *this;
  release();
  base_ = std::exchange(other.base_, nullptr);
  nbytes_ = other.nbytes_;
  descriptor_ = std::exchange(other.descriptor_, -1);
  is_shared_mapping_ = other.is_shared_mapping_;
  return *this;
}

Segment::~Segment() {
  release();
}

void Segment::release() noexcept {
  close_descriptor();
  if (!base_) return;
  const bool is_last = !is_shared_mapping_ || header().users.fetch_sub(1, std::memory_order_acq_rel) == 1;
  if (is_last) ::munmap(base_, nbytes_);
  base_ = nullptr;
}

void Segment::close_descriptor() {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

Segment::Header& Segment::header() const {
  return *std::launder(reinterpret_cast<Header*>(base_));
}
std::byte* Segment::data() const {
  return base_ + kHeaderBytes;
}
uint64_t Segment::size() const {
  return nbytes_ - kHeaderBytes;
}

Segment Segment::create(uint64_t nbytes, Pages pages) {
  if (nbytes > kMaxBytes) throw sdk::invalid_argument("shm was asked for an impossible amount of memory");
  const uint64_t whole = with_header(nbytes);
  uint64_t nonce = 0;
  if (::getrandom(&nonce, sizeof nonce, 0) != sizeof nonce) throw out_of_memory(whole, "getrandom");
  Descriptor descriptor(::memfd_create("cohort", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (descriptor.get() < 0) throw out_of_memory(whole, "memfd_create");
  if (::ftruncate(descriptor.get(), static_cast<off_t>(whole)) != 0) throw out_of_memory(whole, "ftruncate");
  // A peer that shrank the file would end the others with SIGBUS.
  ::fcntl(descriptor.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  if (pages == Pages::kReserved && ::fallocate(descriptor.get(), 0, 0, static_cast<off_t>(whole)) != 0) {
    throw out_of_memory(whole, "fallocate");
  }
  std::byte* base = map(descriptor.get(), whole, pages, pages == Pages::kReserved ? MAP_POPULATE : 0);
  if (!base) throw out_of_memory(whole, "mmap");
  new (base) Header{kMagic, 0, nonce, whole, 1};
  return {base, whole, descriptor.release(), true};
}

// Ranks find words and bytes by what each of them computes, so a segment of another size has other places for them.
Segment Segment::open(const SegmentAddress& address, uint64_t nbytes, Pages pages) {
  if (address.nbytes != with_header(nbytes)) {
    throw sdk::failed_precondition("shm cannot share the memory of process " + std::to_string(address.pid) +
                                   ": it has " + std::to_string(address.nbytes) + " bytes, and this rank needs " +
                                   std::to_string(with_header(nbytes)) + "; start the same cohort on all ranks");
  }
  const std::string path = "/proc/" + std::to_string(address.pid) + "/fd/" + std::to_string(address.descriptor);
  const Descriptor descriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (descriptor.get() < 0) throw unreachable(address, path + ": " + std::strerror(errno));
  struct stat status {};
  const bool has_size =
      ::fstat(descriptor.get(), &status) == 0 && static_cast<uint64_t>(status.st_size) == address.nbytes;
  if (!has_size) throw unreachable(address, "its descriptor has another size");
  const bool is_own_process = address.pid == ::getpid();
  const bool fill = pages == Pages::kReserved && !is_own_process;
  std::byte* base = map(descriptor.get(), address.nbytes, pages, fill ? MAP_POPULATE : 0);
  if (!base) throw unreachable(address, std::string("mmap: ") + std::strerror(errno));
  Segment opened(base, address.nbytes, -1, false);
  const Header& header = opened.header();
  if (header.magic != kMagic || header.nonce != address.nonce || header.nbytes != address.nbytes) {
    throw unreachable(address, "its descriptor is another file by now");
  }
  if (!is_own_process) return opened;
  // A thread of the owner's process: use the owner's mapping, as long as it is certain to be there.
  std::atomic<uint32_t>& users = opened.header().users;
  uint32_t count = users.load(std::memory_order_acquire);
  while (count != 0 && !users.compare_exchange_weak(count, count + 1, std::memory_order_acq_rel)) {
  }
  if (count == 0) throw unreachable(address, "its owner has just given it up");
  return {reinterpret_cast<std::byte*>(address.mapping), address.nbytes, -1, true};
}

SegmentAddress Segment::address() const {
  return {::getpid(), descriptor_, header().nonce, nbytes_, reinterpret_cast<uint64_t>(base_)};
}

}  // namespace cohort::shm
