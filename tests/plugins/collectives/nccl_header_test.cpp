// Compiled where a real nccl.h is found: the compiler compares the functions, and the numbers are compared here.
#include <nccl.h>

#include "cuda_api.h"
#include "nccl_api.h"
#include "nccl_api_checks.hpp"
