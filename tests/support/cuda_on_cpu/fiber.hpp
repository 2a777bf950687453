// A stack of its own to run on, entered and left by 16 ns switches: swapcontext makes a system call each time, which is
// the difference between seconds and minutes in the tests of kernels.
//
// Fibers belong to the thread that made them. A fiber that is destroyed before it has ended is abandoned where it is.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <functional>

namespace cuda_on_cpu {

class Fiber {
 public:
  /// Will run `body` once for each time that it has ended before.
  explicit Fiber(std::function<void()> body);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Runs the fiber until it calls leave(), or ends.
  void enter();
  /// In the fiber: goes back to who entered it.
  void leave();

 private:
  static constexpr std::size_t kStackNbytes = 256 << 10;  // sanitizers make frames large

  std::function<void()> body_;
  char* stack_;
  ucontext_t first_{};  // the first entry is slow
  bool is_started_ = false;
  void* inside_[5];  // __builtin_setjmp's
  void* outside_[5];
  void* sanitizers_fiber_ = nullptr;
  void* sanitizers_outside_ = nullptr;
  void* fake_stack_inside_ = nullptr;
  void* fake_stack_outside_ = nullptr;
  const void* outside_bottom_ = nullptr;
  std::size_t outside_nbytes_ = 0;

  static void main(unsigned high, unsigned low);
  void run();
  void jump_in();
  void jump_out();
};

}  // namespace cuda_on_cpu
