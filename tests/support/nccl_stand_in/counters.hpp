// What the stand-in for NCCL has seen of its caller, and gates that hold its calls; for tests.
//
// A call "elsewhere" is one for an event or a communicator of a device by a thread that is on another device: on GPUs
// it makes a context there. A capture is "broken" by a question for an event while another thread captures in CUDA's
// mode Global, unless the thread that asks is relaxed.
#pragma once

extern "C" {

int nccl_stand_in_elsewhere(void);
int nccl_stand_in_broken_captures(void);
/* Whether this process has a context on the device: calls of the runtime make them. */
int nccl_stand_in_has_context(int device);
/* The calling thread's last error of the runtime, which cudaGetLastError would give. */
int nccl_stand_in_last_error(void);

/* Return the number of pools of memory, and of the bytes that the one that was set last keeps. */
int nccl_stand_in_pools(void);
unsigned long long nccl_stand_in_kept(void);

/* Sets a variable of settings.hpp in place of the environment; null: the environment counts again. Threads of the
 * stand-in read variables at any time, so that a test may not call setenv. */
void nccl_stand_in_set(const char* variable, const char* value);

/* A capture of another thread begins (1) and ends (0). */
void nccl_stand_in_capture(int is_on);
/* ncclCommAbort and ncclCommFinalize wait (1) and go on (0). */
void nccl_stand_in_hold(int is_on);
/* How many calls wait so. */
int nccl_stand_in_held(void);

}  // extern "C"

namespace nccl_stand_in {

/// Sets a variable of settings.hpp as long as it lives.
class Setting {
 public:
  Setting(const char* variable, const char* value) : variable_(variable) { nccl_stand_in_set(variable, value); }
  ~Setting() { nccl_stand_in_set(variable_, nullptr); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* variable_;
};

}  // namespace nccl_stand_in
