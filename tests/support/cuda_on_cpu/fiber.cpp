#include "fiber.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <new>
#include <utility>

#include "sanitizers.hpp"

namespace cuda_on_cpu {
namespace {

std::size_t page_nbytes() {
  return static_cast<std::size_t>(::sysconf(_SC_PAGE_SIZE));
}

// Below the stack lies a page that nobody may touch.
char* make_stack(std::size_t nbytes) {
  void* const memory = ::mmap(nullptr, nbytes + page_nbytes(), PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  ::mprotect(memory, page_nbytes(), PROT_NONE);
  return static_cast<char*>(memory) + page_nbytes();
}

// GCC compiles the two builtins wrongly in one function.
[[gnu::noipa]] void go_to(void** to) {
  __builtin_longjmp(to, 1);
}

/// Remembers where the caller is in `from` and goes where another call of it has remembered `to`.
[[gnu::noinline]] void jump(void** from, void** to) {
  if (__builtin_setjmp(from) == 0) go_to(to);
}

[[gnu::noinline]] void jump_to_start(void** from, const ucontext_t* to) {
  if (__builtin_setjmp(from) == 0) ::setcontext(to);
}

}  // namespace

Fiber::Fiber(std::function<void()> body) : body_(std::move(body)), stack_(make_stack(kStackNbytes)) {
  ::getcontext(&first_);
  first_.uc_stack.ss_sp = stack_;
  first_.uc_stack.ss_size = kStackNbytes;
  first_.uc_link = nullptr;
  const auto self = reinterpret_cast<uintptr_t>(this);
  ::makecontext(&first_, reinterpret_cast<void (*)()>(&Fiber::main), 2, static_cast<unsigned>(self >> 32),
                static_cast<unsigned>(self));
#ifdef CUDA_ON_CPU_TSAN
  sanitizers_fiber_ = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
#ifdef CUDA_ON_CPU_TSAN
  __tsan_destroy_fiber(sanitizers_fiber_);
#endif
#ifdef CUDA_ON_CPU_ASAN
  __asan_unpoison_memory_region(stack_, kStackNbytes);  // of the frames that are abandoned on it
#endif
  ::munmap(stack_ - page_nbytes(), kStackNbytes + page_nbytes());
}

void Fiber::main(unsigned high, unsigned low) {
  reinterpret_cast<Fiber*>((uintptr_t{high} << 32) | low)->run();
}

void Fiber::run() {
#ifdef CUDA_ON_CPU_ASAN
  __sanitizer_finish_switch_fiber(nullptr, &outside_bottom_, &outside_nbytes_);
#endif
  for (;;) {
    body_();
    jump_out();
  }
}

void Fiber::enter() {
  jump_in();
}

void Fiber::leave() {
  jump_out();
}

void Fiber::jump_in() {
#ifdef CUDA_ON_CPU_ASAN
  __sanitizer_start_switch_fiber(&fake_stack_outside_, stack_, kStackNbytes);
#endif
#ifdef CUDA_ON_CPU_TSAN
  sanitizers_outside_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(sanitizers_fiber_, __tsan_switch_to_fiber_no_sync);
#endif
  if (is_started_) {
    jump(outside_, inside_);
  } else {
    is_started_ = true;
    jump_to_start(outside_, &first_);
  }
#ifdef CUDA_ON_CPU_ASAN
  __sanitizer_finish_switch_fiber(fake_stack_outside_, nullptr, nullptr);
#endif
}

void Fiber::jump_out() {
#ifdef CUDA_ON_CPU_ASAN
  __sanitizer_start_switch_fiber(&fake_stack_inside_, outside_bottom_, outside_nbytes_);
#endif
#ifdef CUDA_ON_CPU_TSAN
  __tsan_switch_to_fiber(sanitizers_outside_, __tsan_switch_to_fiber_no_sync);
#endif
  jump(inside_, outside_);
#ifdef CUDA_ON_CPU_ASAN
  __sanitizer_finish_switch_fiber(fake_stack_inside_, &outside_bottom_, &outside_nbytes_);
#endif
}

}  // namespace cuda_on_cpu
