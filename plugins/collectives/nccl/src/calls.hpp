// Calls of NCCL one after another, until one fails. Threads: one.
#pragma once

#include "nccl_api.h"

namespace cohort::nccl {

class Calls {
 public:
  template <class Call>
  void add(Call&& call) {
    if (result_ == ncclSuccess || result_ == ncclInProgress) result_ = call();
  }
  ncclResult_t result() const { return result_; }

 private:
  ncclResult_t result_ = ncclSuccess;
};

}  // namespace cohort::nccl
